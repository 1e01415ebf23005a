/* Other processes: the victim outside, of the same user, and the launcher itself. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static int poke(const struct facts *facts, bool seize)
{
    long word;
    int status;
    if (ptrace(seize ? PTRACE_SEIZE : PTRACE_ATTACH, facts->victim, NULL, NULL) != 0)
        return REFUSED;
    if (seize)
        ptrace(PTRACE_INTERRUPT, facts->victim, NULL, NULL);
    waitpid(facts->victim, &status, __WALL);
    memcpy(&word, facts->name, sizeof word);
    long result = ptrace(PTRACE_POKEDATA, facts->victim, (void *)facts->page, (void *)word);
    ptrace(PTRACE_DETACH, facts->victim, NULL, NULL);
    return done_unless_negative(result);
}

static int attach(const struct facts *facts)
{
    return poke(facts, false);
}

static int seize(const struct facts *facts)
{
    return poke(facts, true);
}

static int write_vector(const struct facts *facts)
{
    struct iovec from = { .iov_base = (void *)(uintptr_t)facts->name, .iov_len = strlen(facts->name) };
    struct iovec to = { .iov_base = (void *)facts->page, .iov_len = from.iov_len };
    return done_unless_negative(process_vm_writev(facts->victim, &from, 1, &to, 1, 0));
}

static int memory_file(const struct facts *facts)
{
    int fd = open(text("/proc/%d/mem", (int)facts->victim), O_RDWR | O_CLOEXEC);
    return done_unless_negative(fd < 0 ? -1 : pwrite(fd, facts->name, strlen(facts->name), (off_t)facts->page));
}

static int memory_of_thread(const struct facts *facts)
{
    int fd = open(text("/proc/%d/task/%d/mem", (int)facts->victim, (int)facts->victim), O_RDWR | O_CLOEXEC);
    return done_unless_negative(fd < 0 ? -1 : pwrite(fd, facts->name, strlen(facts->name), (off_t)facts->page));
}

static int stolen_descriptor(const struct facts *facts)
{
    int pidfd = (int)syscall(SYS_pidfd_open, facts->victim, 0);
    return mark_descriptor(facts, pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, facts->victim_file, 0));
}

static int signalled(const struct facts *facts)
{
    return done_unless_negative(kill(facts->victim, SIGUSR1));
}

static int signalled_thread(const struct facts *facts)
{
    return done_unless_negative(syscall(SYS_tgkill, facts->victim, facts->victim, SIGUSR1));
}

static int signalled_queued(const struct facts *facts)
{
    return done_unless_negative(sigqueue(facts->victim, SIGUSR1, (union sigval){ .sival_int = 1 }));
}

static int signalled_pidfd(const struct facts *facts)
{
    int pidfd = (int)syscall(SYS_pidfd_open, facts->victim, 0);
    return done_unless_negative(pidfd < 0 ? -1 : syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0));
}

static int signalled_group(const struct facts *facts)
{
    return done_unless_negative(kill(-facts->victim, SIGUSR1));
}

/* A descriptor whose owner is somebody else tells that somebody when it becomes ready, with any signal. */
static int ready_signal(pid_t whom, int signal)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || fcntl(ends[0], F_SETOWN, whom) != 0)
        return REFUSED;
    fcntl(ends[0], F_SETSIG, signal);
    fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_ASYNC);
    long result = write(ends[1], "x", 1);
    usleep(20000);
    return done_unless_negative(result);
}

static int signalled_by_readiness(const struct facts *facts)
{
    return ready_signal(facts->victim, SIGUSR1);
}

static int limited(const struct facts *facts)
{
    struct rlimit now;
    if (prlimit(facts->victim, RLIMIT_CORE, NULL, &now) != 0)
        return REFUSED;
    now.rlim_cur = now.rlim_cur == 12288 ? 16384 : 12288;
    return done_unless_negative(prlimit(facts->victim, RLIMIT_CORE, &now, NULL));
}

static int niced(const struct facts *facts)
{
    int now = getpriority(PRIO_PROCESS, (id_t)facts->victim);
    return done_unless_negative(setpriority(PRIO_PROCESS, (id_t)facts->victim, now + 1));
}

static int pinned(const struct facts *facts)
{
    cpu_set_t all, one;
    if (sched_getaffinity(facts->victim, sizeof all, &all) != 0)
        return REFUSED;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return absent("one processor only");
    if (CPU_COUNT(&all) == 1) { /* pinned already: back */
        for (size_t i = 0; i < 2; i++)
            CPU_SET(i, &all);
        return done_unless_negative(sched_setaffinity(facts->victim, sizeof all, &all));
    }
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    return done_unless_negative(sched_setaffinity(facts->victim, sizeof one, &one));
}

static int scheduled(const struct facts *facts)
{
    struct sched_param none = { 0 };
    return done_unless_negative(sched_setscheduler(
        facts->victim, sched_getscheduler(facts->victim) == SCHED_BATCH ? SCHED_OTHER : SCHED_BATCH, &none));
}

static int prioritized(const struct facts *facts)
{
    long now = syscall(SYS_ioprio_get, 1, facts->victim);
    return done_unless_negative(syscall(SYS_ioprio_set, 1, facts->victim, IOPRIO_CLASS_BE << 13 | (now + 1) % 8));
}

/* --- the launcher: with it gone or blind, what the command leaves behind would live on ------------------------------- */

/* Leaves a process behind and does something to the launcher. */
static int after(const struct facts *facts, int outcome)
{
    if (outcome == REFUSED)
        return REFUSED;
    int error = errno;
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            linger(facts);
        _exit(0);
    }
    usleep(30000);
    errno = error;
    return outcome;
}

/* The parent may die, which for the command means its own end: the process to be left is there before. */
static int before(const struct facts *facts, int (*blow)(const struct facts *))
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            linger(facts);
        _exit(0);
    }
    usleep(30000);
    return blow(facts);
}

static int blow_kill(const struct facts *facts)
{
    return done_unless_negative(kill(facts->launcher, SIGKILL));
}

static int blow_pidfd(const struct facts *facts)
{
    int pidfd = (int)syscall(SYS_pidfd_open, facts->launcher, 0);
    return done_unless_negative(pidfd < 0 ? -1 : syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0));
}

static int blow_thread(const struct facts *facts)
{
    return done_unless_negative(syscall(SYS_tkill, facts->launcher, SIGKILL));
}

static int blow_ready(const struct facts *facts)
{
    return ready_signal(facts->launcher, SIGKILL);
}

static int blow_urgent(const struct facts *facts)
{
    struct facts copy = *facts;
    return ready_signal(-getpgid(copy.launcher), SIGKILL);
}

static int blow_trace(const struct facts *facts)
{
    if (ptrace(PTRACE_SEIZE, facts->launcher, NULL, (void *)0x100000 /* PTRACE_O_EXITKILL */) != 0)
        return REFUSED;
    return DONE; /* and it ends with its tracer */
}

static int kill_launcher(const struct facts *facts)
{
    return before(facts, blow_kill);
}

static int kill_launcher_pidfd(const struct facts *facts)
{
    return before(facts, blow_pidfd);
}

static int kill_launcher_thread(const struct facts *facts)
{
    return before(facts, blow_thread);
}

static int kill_launcher_ready(const struct facts *facts)
{
    return before(facts, blow_ready);
}

static int kill_launcher_group_ready(const struct facts *facts)
{
    return before(facts, blow_urgent);
}

static int trace_launcher(const struct facts *facts)
{
    return before(facts, blow_trace);
}

static int stop_launcher(const struct facts *facts)
{
    return after(facts, done_unless_negative(kill(facts->launcher, SIGSTOP)));
}

static int blind_launcher(const struct facts *facts)
{
    struct rlimit none = { 0, 0 };
    return after(facts, done_unless_negative(prlimit(facts->launcher, RLIMIT_NOFILE, &none, NULL)));
}

/* A second of processor time is all that it may use from here on, and every chmod is work for it. */
static int exhaust_launcher(const struct facts *facts)
{
    struct rlimit second = { 1, 1 };
    if (prlimit(facts->launcher, RLIMIT_CPU, &second, NULL) != 0)
        return REFUSED;
    after(facts, DONE);
    for (int i = 0; i < 400000 && kill(facts->launcher, 0) == 0; i++)
        fchmod(STDIN_FILENO, 0600);
    return DONE;
}

static int starve_launcher_memory(const struct facts *facts)
{
    struct rlimit none = { 0, 0 };
    return after(facts, done_unless_negative(prlimit(facts->launcher, RLIMIT_AS, &none, NULL)));
}

static int launcher_memory(const struct facts *facts)
{
    int fd = open(text("/proc/%d/mem", (int)facts->launcher), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return REFUSED;
    /* Its stack, wiped: it does not come back from that. */
    unsigned long from = 0, to = 0;
    FILE *maps = fopen(text("/proc/%d/maps", (int)facts->launcher), "re");
    char line[512];
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[stack]") != NULL)
            sscanf(line, "%lx-%lx", &from, &to);
    static const char zeros[4096];
    after(facts, DONE);
    for (unsigned long at = from; at < to; at += sizeof zeros)
        if (pwrite(fd, zeros, sizeof zeros, (off_t)at) < 0)
            return REFUSED;
    return done_if(from != 0);
}

static int launcher_descriptor(const struct facts *facts)
{
    int pidfd = (int)syscall(SYS_pidfd_open, facts->launcher, 0);
    int found = 0;
    for (int fd = 0; pidfd >= 0 && fd < 32; fd++) {
        int stolen = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        if (stolen >= 0) {
            found++;
            shutdown(stolen, SHUT_RDWR);
        }
    }
    return found > 0 ? after(facts, blow_kill(facts)) : REFUSED;
}

static int launcher_descriptor_path(const struct facts *facts)
{
    return mark_path(facts, text("/proc/%d/fd/3", (int)facts->launcher), 0) == DONE ? after(facts, blow_kill(facts))
                                                                                    : REFUSED;
}

static const struct attack list[] = {
    { "ptrace-attach", "victim:memory", "PTRACE_ATTACH, and a word poked", attach, NULL, 0 },
    { "ptrace-seize", "victim:memory", "PTRACE_SEIZE, and a word poked", seize, NULL, 0 },
    { "process-vm-writev", "victim:memory", "process_vm_writev(2)", write_vector, NULL, 0 },
    { "proc-pid-mem", "victim:memory", "/proc/PID/mem", memory_file, NULL, 0 },
    { "proc-task-mem", "victim:memory", "/proc/PID/task/TID/mem", memory_of_thread, NULL, 0 },
    { "pidfd-getfd", "victim:held", "pidfd_getfd(2): a descriptor taken from it", stolen_descriptor, NULL, 0 },
    { "kill", "victim:signals", "kill(2)", signalled, NULL, 0 },
    { "tgkill", "victim:signals", "tgkill(2)", signalled_thread, NULL, 0 },
    { "sigqueue", "victim:signals", "rt_sigqueueinfo(2)", signalled_queued, NULL, 0 },
    { "pidfd-send-signal", "victim:signals", "pidfd_send_signal(2)", signalled_pidfd, NULL, 0 },
    { "kill-group", "victim:signals", "kill(2) of its process group", signalled_group, NULL, 0 },
    { "readiness-signal", "victim:signals", "F_SETOWN and F_SETSIG", signalled_by_readiness, NULL, 0 },
    { "prlimit", "victim:limits", "prlimit(2)", limited, NULL, 0 },
    { "setpriority", "victim:nice", "setpriority(2)", niced, NULL, BEYOND },
    { "sched-setaffinity", "victim:processors", "sched_setaffinity(2)", pinned, NULL, BEYOND },
    { "sched-setscheduler", "victim:policy", "sched_setscheduler(2)", scheduled, NULL, BEYOND },
    { "ioprio-set", "victim:ioprio", "ioprio_set(2)", prioritized, NULL, BEYOND },
    { "launcher-kill", "alive:", "the launcher killed, a process left", kill_launcher, NULL, ALONE | LAUNCHED },
    { "launcher-kill-pidfd", "alive:", "the same by pidfd", kill_launcher_pidfd, NULL, ALONE | LAUNCHED },
    { "launcher-tkill", "alive:", "the same by tkill(2)", kill_launcher_thread, NULL, ALONE | LAUNCHED },
    { "launcher-readiness", "alive:", "the same by F_SETOWN and F_SETSIG", kill_launcher_ready, NULL,
      ALONE | LAUNCHED },
    { "launcher-group-readiness", "alive:", "the same for its process group", kill_launcher_group_ready, NULL,
      ALONE | LAUNCHED },
    { "launcher-trace", "alive:", "the launcher traced, with the tracer's end as its own", trace_launcher, NULL,
      ALONE | LAUNCHED | ROOT },
    { "launcher-stop", "alive:", "the launcher stopped", stop_launcher, NULL, ALONE | LAUNCHED },
    { "launcher-blind", "alive:", "no descriptors for the launcher, by prlimit(2)", blind_launcher, NULL,
      ALONE | LAUNCHED | UNPROVEN },
    { "launcher-exhaust", "alive:", "no processor time for the launcher, by prlimit(2)", exhaust_launcher, NULL,
      ALONE | LAUNCHED | UNPROVEN },
    { "launcher-starve", "alive:", "no memory for the launcher, by prlimit(2)", starve_launcher_memory, NULL,
      ALONE | LAUNCHED | UNPROVEN },
    { "launcher-memory", "alive:", "the launcher's stack wiped", launcher_memory, NULL, ALONE | LAUNCHED | ROOT },
    { "launcher-descriptors", "alive:", "the launcher's descriptors taken, the report's among them",
      launcher_descriptor, NULL, ALONE | LAUNCHED | ROOT | UNPROVEN },
    { "launcher-report", "alive:", "the report's socket by /proc", launcher_descriptor_path, NULL,
      ALONE | LAUNCHED | UNPROVEN },
};

FAMILY(processes_family, "processes", list);
