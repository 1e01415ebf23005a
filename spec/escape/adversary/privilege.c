/* Capabilities, set-id programs, devices as root. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int take_all_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct all[2] = { { ~0U, ~0U, ~0U }, { 0x1ff, 0x1ff, 0x1ff } };
    return (int)syscall(SYS_capset, &header, all);
}

static int capset_and_chown(const struct facts *facts)
{
    (void)facts;
    take_all_capabilities();
    return done_unless_negative(chown("file", 4321, 4321));
}

static int override_permissions(const struct facts *facts)
{
    take_all_capabilities();
    return mark_path(facts, "other", 0); /* a file of another user's, 0600 */
}

/* A program of root's with the set-user-id bit, that writes for whoever runs it. */
static int set_id_program(const struct facts *facts)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(text("%s/setid", facts->base), "setid", facts->own, facts->name, (char *)NULL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    errno = 0;
    return done_if(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int capable_program(const struct facts *facts)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(text("%s/capable", facts->base), "capable", facts->own, facts->name, (char *)NULL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    errno = 0;
    return done_if(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int own_set_id_program(const struct facts *facts)
{
    (void)facts;
    prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
    prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
    if (setuid(0) != 0 || setresuid(1234, 1234, 0) != 0 || seteuid(0) != 0)
        return REFUSED;
    return done_unless_negative(chown("file", 1234, 1234));
}

static int log_node(const struct facts *facts)
{
    const char *node = text("%s/kmsg-%s", facts->spring, facts->name);
    if (mknod(node, S_IFCHR | 0666, makedev(1, 11)) != 0)
        return REFUSED;
    int fd = open(node, O_WRONLY | O_CLOEXEC);
    const char *line = text("<7>moonsand-mark %s\n", facts->name);
    int outcome = done_unless_negative(fd < 0 ? -1 : write(fd, line, strlen(line)));
    unlink(node);
    return outcome;
}

static int log_node_moved(const struct facts *facts)
{
    return done_unless_negative(mknod(text("%s/dir/node", facts->own), S_IFCHR | 0666, makedev(1, 11)));
}

static int kernel_log(const struct facts *facts)
{
    int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
    const char *line = text("<7>moonsand-mark %s\n", facts->name);
    if (fd < 0 && errno == ENOENT && facts->workspace == NULL)
        return REFUSED;
    return done_unless_negative(fd < 0 ? -1 : write(fd, line, strlen(line)));
}

static int block_device(const struct facts *facts)
{
    if (facts->loop == NULL)
        return absent("there is no loop device");
    return mark_path(facts, facts->loop, O_SYNC);
}

static int block_device_node(const struct facts *facts)
{
    struct stat status;
    const char *node = text("%s/disk-%s", facts->spring, facts->name);
    if (facts->loop == NULL || stat(text("%s/loop-number", facts->base), &status) != 0)
        return absent("there is no loop device");
    if (mknod(node, S_IFBLK | 0600, makedev(7, (unsigned)status.st_size)) != 0)
        return REFUSED;
    int outcome = mark_path(facts, node, O_SYNC);
    unlink(node);
    return outcome;
}

static int port_memory(const struct facts *facts)
{
    (void)facts;
    return absent("writing to /dev/mem or /dev/port would hurt the machine, not a canary");
}

static const struct attack list[] = {
    { "capset", "own", "capset(2) for all there are, then chown", capset_and_chown, NULL, ROOT },
    { "capability-override", "own", "a file of another user's, past its mode", override_permissions, NULL, ROOT },
    { "set-id-program", "own", "a set-user-id program of root's", set_id_program, NULL, ORDINARY },
    { "capability-program", "own", "a program with file capabilities", capable_program, NULL, ORDINARY },
    { "set-id-regained", "own", "securebits and no_new_privs taken back", own_set_id_program, NULL, ROOT },
    { "kmsg-node", "klog:", "a node for the kernel's log in the workspace, and a line into it", log_node, NULL, ROOT },
    { "kmsg-node-outside", "own", "a node for the kernel's log outside", log_node_moved, NULL, ROOT },
    { "kmsg", "klog:", "a line into /dev/kmsg", kernel_log, NULL, ROOT },
    { "block-device", "loop:", "a block device written directly", block_device, NULL, ROOT },
    { "block-device-node", "loop:", "the same through a node made in the workspace", block_device_node, NULL, ROOT },
    { "dev-mem", "own", "physical memory", port_memory, NULL, ROOT },
};

FAMILY(privilege_family, "privilege", list);
