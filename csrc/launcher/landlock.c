/* An allow-list: every access that the kernel's ABI governs is handled, so that what no grant names is denied.
 *
 * Device nodes are never granted a place to be made in, and ioctls on devices are never granted at all: with an open
 * descriptor on /dev/loop-control one makes device nodes without writing a byte.
 * Signals are scoped to the domain, not because a mode promises anything about signals, but because the launcher that
 * stops what the command leaves behind stands outside of it and must not be killed from inside. */
#include "landlock.h"
#include "kernel.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_READ_DIR)
#define CHANGE                                                                                                         \
    (LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR | LL_FS_MAKE_REG | LL_FS_MAKE_SOCK |     \
     LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER | LL_FS_TRUNCATE)
#define NEVER (LL_FS_MAKE_CHAR | LL_FS_MAKE_BLOCK | LL_FS_IOCTL_DEV)
#define OF_A_FILE (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_TRUNCATE)

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LL_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

/* What the ABI governs of the accesses that this build knows. */
static uint64_t governed(int abi)
{
    uint64_t all = READ | CHANGE | NEVER;
    if (abi < 5)
        all &= ~LL_FS_IOCTL_DEV;
    if (abi < 3)
        all &= ~LL_FS_TRUNCATE;
    if (abi < 2)
        all &= ~LL_FS_REFER; /* then never allowed, by the kernel's own rule */
    return all;
}

uint32_t landlock_gaps(int abi)
{
    uint32_t gaps = 0;
    if (abi < 3)
        gaps |= MS_GAP_TRUNCATE;
    if (abi < 5)
        gaps |= MS_GAP_DEVICE_IOCTL;
    return gaps;
}

static bool grant(int ruleset, const char *path, uint64_t access, struct failure *failure)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return fail(failure, MS_STAGE_LANDLOCK_RULE, path);
    struct stat status;
    bool granted = fstat(fd, &status) == 0;
    if (granted) {
        struct ll_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };
        if (!S_ISDIR(status.st_mode))
            rule.allowed_access &= OF_A_FILE;
        granted = syscall(SYS_landlock_add_rule, ruleset, LL_RULE_PATH_BENEATH, &rule, 0) == 0;
    }
    if (!granted)
        fail(failure, MS_STAGE_LANDLOCK_RULE, path);
    close(fd);
    return granted;
}

bool landlock_prepare(int *ruleset, int abi, const struct options *options, struct failure *failure)
{
    struct ll_ruleset_attr attributes = {
        .handled_access_fs = governed(abi),
        .scoped = abi >= 6 ? LL_SCOPE_SIGNAL : 0,
    };
    size_t size = abi >= 6 ? sizeof attributes : offsetof(struct ll_ruleset_attr, handled_access_net);
    int fd = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
    if (fd < 0)
        return fail(failure, MS_STAGE_LANDLOCK, NULL);
    bool granted = true;
    for (size_t i = 0; granted && i < options->read_only.count; i++)
        granted = grant(fd, options->read_only.items[i], READ & governed(abi), failure);
    for (size_t i = 0; granted && i < options->read_write.count; i++)
        granted = grant(fd, options->read_write.items[i], (READ | CHANGE) & governed(abi), failure);
    if (!granted) {
        close(fd);
        return false;
    }
    *ruleset = fd;
    return true;
}

bool landlock_enter(int ruleset, struct failure *failure)
{
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return fail(failure, MS_STAGE_LANDLOCK, NULL);
    return true;
}
