/* The kernel's own switches, which belong to uid 0 by their mode and ask for no capability. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int turn(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return absent("%s is not there", path);
    return done_unless_negative(fd < 0 ? -1 : write(fd, value, strlen(value)));
}

#define KNOB(name, path, value)                                                                                        \
    static int name(const struct facts *facts)                                                                         \
    {                                                                                                                  \
        (void)facts;                                                                                                   \
        return turn(path, value);                                                                                      \
    }

KNOB(core_pattern, "/proc/sys/kernel/core_pattern", "core.moonsand-mark")
KNOB(modprobe, "/proc/sys/kernel/modprobe", "/sbin/modprobe-moonsand-mark")
KNOB(vm, "/proc/sys/vm/stat_interval", "3")
KNOB(fs, "/proc/sys/fs/lease-break-time", "44")
KNOB(net, "/proc/sys/net/ipv4/ip_default_ttl", "63")
KNOB(domain, "/proc/sys/kernel/domainname", "moonsand-mark")
KNOB(through_task, "/proc/thread-self/root/proc/sys/vm/stat_interval", "5")
KNOB(sys_knob, "/sys/kernel/mm/ksm/sleep_millisecs", "23")
KNOB(sysrq, "/proc/sysrq-trigger", "h")
KNOB(uevent, "/sys/kernel/uevent_helper", "/moonsand-mark")
KNOB(release_agent, "/sys/fs/cgroup/systemd/release_agent", "/moonsand-mark")
KNOB(swappiness, "/sys/fs/cgroup/memory/memory.swappiness", "59")
KNOB(module_parameter, "/sys/module/printk/parameters/ignore_loglevel", "Y")
KNOB(oom_of_launcher, "/proc/1/oom_score_adj", "500")

static int domain_call(const struct facts *facts)
{
    (void)facts;
    return done_unless_negative(setdomainname("moonsand-call", 13));
}

static int host_call(const struct facts *facts)
{
    (void)facts;
    return done_unless_negative(sethostname("moonsand-mark", 13));
}

static int group(const struct facts *facts)
{
    static const char *const hierarchies[] = { "pids", "unified", "cpu", "systemd", "." };
    bool found = false;
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
        const char *path = text("/sys/fs/cgroup/%s", hierarchies[i]);
        found = found || access(under(path, "cgroup.procs"), F_OK) == 0;
        if (access(under(path, "cgroup.procs"), F_OK) == 0 &&
            mkdir(text("%s/moonsand-mark-%s", path, facts->name), 0755) == 0)
            return DONE;
    }
    return found ? REFUSED : absent("no cgroup hierarchy is mounted");
}

/* The victim is put in another group. */
static int move_victim(const struct facts *facts)
{
    const char *file = text("/sys/fs/cgroup/unified/%s/cgroup.procs", strrchr(facts->base, '/') + 1);
    return turn(file, text("%d", (int)facts->victim));
}

static int oom(const struct facts *facts)
{
    return turn(text("/proc/%d/oom_score_adj", (int)facts->victim), "321");
}

static int binary_format(const struct facts *facts)
{
    (void)facts;
    return turn("/proc/sys/fs/binfmt_misc/register", ":moonsand-mark:E::moonsandmark::/bin/true:");
}

static int tracing(const struct facts *facts)
{
    (void)facts;
    return turn("/sys/kernel/tracing/trace_marker", "moonsand-mark");
}

static const struct attack list[] = {
    { "knob-core-pattern", "knob:", "/proc/sys/kernel/core_pattern", core_pattern, NULL, ROOT },
    { "knob-modprobe", "knob:", "/proc/sys/kernel/modprobe", modprobe, NULL, ROOT },
    { "knob-vm", "knob:", "/proc/sys/vm", vm, NULL, ROOT },
    { "knob-fs", "knob:", "/proc/sys/fs", fs, NULL, ROOT },
    { "knob-net", "knob:", "/proc/sys/net", net, NULL, ROOT },
    { "knob-domainname", "uts:", "/proc/sys/kernel/domainname", domain, NULL, ROOT },
    { "knob-through-root", "knob:", "/proc/sys through /proc/thread-self/root", through_task, NULL, ROOT },
    { "setdomainname", "uts:", "setdomainname(2)", domain_call, NULL, ROOT },
    { "sethostname", "uts:", "sethostname(2)", host_call, NULL, ROOT },
    { "knob-sys", "knob:", "/sys/kernel/mm", sys_knob, NULL, ROOT },
    { "knob-module", "knob:", "a module's parameter", module_parameter, NULL, ROOT },
    { "knob-uevent", "knob:", "/sys/kernel/uevent_helper", uevent, NULL, ROOT },
    { "knob-sysrq", "klog:", "/proc/sysrq-trigger", sysrq, NULL, ROOT },
    { "knob-release-agent", "knob:", "a cgroup hierarchy's release_agent", release_agent, NULL, ROOT },
    { "knob-cgroup", "knob:", "a file of a cgroup", swappiness, NULL, ROOT },
    { "cgroup-mkdir", "cgroup:", "a group in a mounted hierarchy", group, NULL, ROOT },
    { "cgroup-move", "victim:cgroup", "a process outside moved to another group", move_victim, NULL, ROOT },
    { "knob-oom", "victim:oom", "oom_score_adj of a process outside", oom, NULL, 0 },
    { "knob-oom-first", "knob:", "oom_score_adj of the first process", oom_of_launcher, NULL, ROOT },
    { "knob-binfmt", "knob:", "binfmt_misc: a format registered", binary_format, NULL, ROOT },
    { "knob-trace", "trace:", "the tracer's marker", tracing, NULL, ROOT },
};

FAMILY(knobs_family, "kernel knobs", list);
