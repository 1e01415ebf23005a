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
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_READ_DIR)
#define CHANGE                                                                                                         \
    (LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR | LL_FS_MAKE_REG | LL_FS_MAKE_SOCK |     \
     LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER | LL_FS_TRUNCATE)
#define NEVER (LL_FS_MAKE_CHAR | LL_FS_MAKE_BLOCK | LL_FS_IOCTL_DEV)
#define TERMINAL (LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_IOCTL_DEV)
#define OF_A_FILE (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)

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
    /* The host says canonical paths: a link in one was put there since, by somebody who wants the grant elsewhere. */
    struct open_how_arguments how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_WITHOUT_LINKS };
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
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

static bool create(int *ruleset, int abi, bool scope_signals, struct failure *failure)
{
    struct ll_ruleset_attr attributes = {
        .handled_access_fs = governed(abi),
        .scoped = scope_signals && abi >= 6 ? LL_SCOPE_SIGNAL : 0,
    };
    size_t size = abi >= 6 ? sizeof attributes : offsetof(struct ll_ruleset_attr, handled_access_net);

    *ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
    return *ruleset >= 0 ? true : fail(failure, MS_STAGE_LANDLOCK, NULL);
}

static bool grant_all(int ruleset, const struct list *paths, uint64_t access, struct failure *failure)
{
    for (size_t i = 0; i < paths->count; i++)
        if (!grant(ruleset, paths->items[i], access, failure))
            return false;
    return true;
}

static bool close_unless(bool good, int *ruleset)
{
    if (!good) {
        close(*ruleset);
        *ruleset = -1;
    }
    return good;
}

/* A program that has a terminal of its own opens it by name: /dev/tty, and what the descriptor is called. */
static bool grant_terminal(int ruleset, uint64_t rights, struct failure *failure)
{
    char path[64];
    const char *const links[] = { "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2" };

    for (int fd = 0; fd <= 2; fd++) {
        ssize_t n = isatty(fd) ? readlink(links[fd], path, sizeof path - 1) : 0;
        if (n <= 0)
            continue;
        path[n] = '\0';
        if (strncmp(path, "/dev/", 5) == 0 && access(path, F_OK) == 0)
            return grant(ruleset, path, rights, failure) && grant(ruleset, "/dev/tty", rights, failure);
    }
    return true;
}

bool landlock_prepare(int *ruleset, int abi, const struct options *options, struct failure *failure)
{
    uint64_t handled = governed(abi);

    return create(ruleset, abi, true, failure) &&
           close_unless(grant_all(*ruleset, &options->read_only, READ & handled, failure) &&
                            grant_all(*ruleset, &options->read_write, (READ | CHANGE) & handled, failure) &&
                            (!options->terminal || grant_terminal(*ruleset, TERMINAL & handled, failure)),
                        ruleset);
}

bool landlock_prepare_inside(int *ruleset, int abi, const struct options *options, struct failure *failure)
{
    uint64_t handled = governed(abi);

    /* The devices are the runner's choice, the processes in /proc are the command's own, and signals stay inside the pid
     * namespace by themselves. */
    return create(ruleset, abi, false, failure) &&
           close_unless(grant(*ruleset, "/", READ & handled, failure) &&
                            grant(*ruleset, "/dev", (READ | TERMINAL) & handled, failure) &&
                            grant(*ruleset, "/proc", (READ | LL_FS_WRITE_FILE) & handled, failure) &&
                            grant_all(*ruleset, &options->writable, (READ | CHANGE) & handled, failure) &&
                            grant_all(*ruleset, &options->bound, (READ | CHANGE) & handled, failure),
                        ruleset);
}

bool landlock_enter(int ruleset, struct failure *failure)
{
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return fail(failure, MS_STAGE_LANDLOCK, NULL);
    return true;
}
