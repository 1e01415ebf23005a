/* Arguments are understood first (what object, what change), then the object is resolved, checked and changed. The
 * broker has the caller's own user and, like it, no capabilities: what the kernel would refuse the caller, it refuses
 * the broker. A caller whose memory may not be read (it made itself undumpable) is refused. */
#include "broker.h"
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

enum { ATTRIBUTE_NAME_MOST = 255, ATTRIBUTE_VALUE_MOST = 65536, LINK_TEXT = 64 };

/* A call being answered: who made it, and a way to read its memory. */
struct caller {
    int listener;
    uint64_t id;
    uint32_t thread;
    int memory;
};

/* Everything below returns 0 or an errno. */

static int caller_open(struct caller *caller, int listener, const struct seccomp_request *request)
{
    char path[LINK_TEXT];
    snprintf(path, sizeof path, "/proc/%u/mem", request->pid);
    *caller = (struct caller){ .listener = listener, .id = request->id, .thread = request->pid };
    caller->memory = open(path, O_RDONLY | O_CLOEXEC);
    return caller->memory < 0 ? EACCES : 0;
}

/* ioctl(2) by number: libcs do not agree on the type of its second parameter. */
static long listener_call(int listener, uint32_t request, void *argument)
{
    return syscall(SYS_ioctl, listener, (unsigned long)request, argument);
}

/* The pid that was looked up is still the caller's: it waits for this very answer. */
static bool caller_waits(struct caller *caller)
{
    return listener_call(caller->listener, SECCOMP_STILL_VALID, &caller->id) == 0;
}

static int copy_bytes(const struct caller *caller, uint64_t address, void *to, size_t size)
{
    if (size == 0)
        return 0;
    ssize_t n = pread(caller->memory, to, size, (off_t)address);
    return n == (ssize_t)size ? 0 : EFAULT;
}

/* A string with its end, `most` bytes at the most; what is past its page may not be readable. */
static int copy_text(const struct caller *caller, uint64_t address, char *to, size_t most, int too_long)
{
    const uint64_t page = 4096;
    for (size_t got = 0; got < most;) {
        size_t want = page - (address + got) % page;
        if (want > most - got)
            want = most - got;
        ssize_t n = pread(caller->memory, to + got, want, (off_t)(address + got));
        if (n <= 0)
            return EFAULT;
        if (memchr(to + got, '\0', (size_t)n) != NULL)
            return 0;
        got += (size_t)n;
    }
    return too_long;
}

static bool below_roots(const char *path, const struct list *roots)
{
    for (size_t i = 0; i < roots->count; i++) {
        size_t length = strlen(roots->items[i]);
        if (length == 1)
            return true;
        if (strncmp(path, roots->items[i], length) == 0 && (path[length] == '/' || path[length] == '\0'))
            return true;
    }
    return false;
}

/* The path leads to that very object here, too. Of a descriptor from a mount that hangs nowhere, or hangs elsewhere in
 * another namespace, the kernel says a path that begins at that mount. */
static bool is_there(const char *path, const struct stat *object)
{
    struct open_how_arguments arguments = {
        .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_WITHOUT_LINKS | RESOLVE_WITHOUT_MAGIC_LINKS,
    };
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &arguments, sizeof arguments);
    struct stat status;
    bool same =
        fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == object->st_dev && status.st_ino == object->st_ino;

    if (fd >= 0)
        close(fd);
    return same;
}

/* Where the object lies now, as the kernel says. An unlinked one lies nowhere, and keeps what it has. */
static int check_place(int object, const struct list *roots, int refusal)
{
    char link[LINK_TEXT], path[PATH_MAX + 16];
    struct stat status;
    if (fstat(object, &status) != 0)
        return errno;
    /* A device node stands for the device, wherever the node lies: it keeps its metadata. */
    if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
        return refusal;
    snprintf(link, sizeof link, "/proc/self/fd/%d", object);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || n == (ssize_t)sizeof path - 1)
        return refusal;
    path[n] = '\0';
    return path[0] == '/' && below_roots(path, roots) && is_there(path, &status) ? 0 : refusal;
}

/* The number in /proc/self/fd/N and its other names: libraries change links and O_PATH descriptors that way. */
static bool names_own_descriptor(const char *path, int *descriptor)
{
    static const char *const prefixes[] = { "/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/" };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(path, prefixes[i], length) != 0)
            continue;
        char *end;
        long n = strtol(path + length, &end, 10);
        if (end == path + length || *end != '\0' || n < 0 || n > INT_MAX)
            return false;
        *descriptor = (int)n;
        return true;
    }
    return false;
}

static int open_link(uint32_t thread, const char *what, int descriptor, int *object)
{
    char link[LINK_TEXT];
    if (descriptor >= 0)
        snprintf(link, sizeof link, "/proc/%u/%s/%d", thread, what, descriptor);
    else
        snprintf(link, sizeof link, "/proc/%u/%s", thread, what);
    *object = open(link, O_PATH | O_CLOEXEC);
    return *object >= 0 ? 0 : errno == ENOENT && descriptor >= 0 ? EBADF : errno;
}

/* A caller in another root directory resolves names differently: nothing is changed for it. */
static bool same_root(uint32_t thread)
{
    char link[LINK_TEXT];
    struct stat theirs, ours;
    snprintf(link, sizeof link, "/proc/%u/root", thread);
    return stat(link, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
           theirs.st_ino == ours.st_ino;
}

enum { FOLLOW = 1, EMPTY_NAMES_DIRECTORY = 2 };

/* The object that the caller's (directory, path) names, as an O_PATH descriptor. */
static int resolve(const struct caller *caller, int directory, const char *path, int how, int *object)
{
    int own;
    if (path[0] == '\0') {
        if (!(how & EMPTY_NAMES_DIRECTORY))
            return ENOENT;
        return directory == AT_FDCWD ? open_link(caller->thread, "cwd", -1, object)
                                     : open_link(caller->thread, "fd", directory, object);
    }
    if (names_own_descriptor(path, &own))
        return how & FOLLOW ? open_link(caller->thread, "fd", own, object) : EACCES;
    if (!same_root(caller->thread))
        return EACCES;
    int base = -1;
    if (path[0] != '/') {
        int error = directory == AT_FDCWD ? open_link(caller->thread, "cwd", -1, &base)
                                          : open_link(caller->thread, "fd", directory, &base);
        if (error != 0)
            return error;
    }
    struct open_how_arguments arguments = {
        .flags = O_PATH | O_CLOEXEC | (how & FOLLOW ? 0 : O_NOFOLLOW),
        /* /proc/self means the broker here: what such a link leads to is not what the caller meant */
        .resolve = RESOLVE_WITHOUT_MAGIC_LINKS,
    };
    *object = (int)syscall(SYS_openat2, base, path, &arguments, sizeof arguments);
    int error = *object >= 0 ? 0 : errno;
    if (base >= 0)
        close(base);
    return error == ELOOP ? EACCES : error; /* a magic link, in nearly every case */
}

/* What a call names, and what it wants done. */
struct change {
    enum { MODE, OWNER, TIMES, SET_ATTRIBUTE, REMOVE_ATTRIBUTE } kind;
    int directory; /* or the descriptor itself, with an empty path */
    char path[PATH_MAX];
    int how;
    mode_t mode;
    uid_t user;
    gid_t group;
    bool now;
    struct timespec times[2];
    char name[ATTRIBUTE_NAME_MOST + 1];
    char *value;
    size_t size;
    int flags;
};

static int wants_path(const struct caller *caller, struct change *change, uint64_t directory, uint64_t address,
                      bool follow)
{
    change->directory = (int)directory;
    change->how = follow ? FOLLOW : 0;
    return copy_text(caller, address, change->path, sizeof change->path, ENAMETOOLONG);
}

static int wants_descriptor(struct change *change, uint64_t descriptor)
{
    if ((int)descriptor < 0)
        return EBADF;
    change->directory = (int)descriptor;
    change->path[0] = '\0';
    change->how = FOLLOW | EMPTY_NAMES_DIRECTORY;
    return 0;
}

static int wants_mode(struct change *change, uint64_t mode)
{
    change->kind = MODE;
    change->mode = (mode_t)mode & 07777;
    return 0;
}

static int wants_owner(struct change *change, uint64_t user, uint64_t group)
{
    change->kind = OWNER;
    change->user = (uid_t)user;
    change->group = (gid_t)group;
    return 0;
}

static int wants_times(const struct caller *caller, struct change *change, uint64_t address)
{
    change->kind = TIMES;
    change->now = address == 0;
    return change->now ? 0 : copy_bytes(caller, address, change->times, sizeof change->times);
}

/* Newer processors only have the call with nanoseconds. */
#ifdef SYS_utimes
static int wants_microseconds(const struct caller *caller, struct change *change, uint64_t address)
{
    struct timeval times[2];
    change->kind = TIMES;
    change->now = address == 0;
    if (change->now)
        return 0;
    int error = copy_bytes(caller, address, times, sizeof times);
    for (int i = 0; error == 0 && i < 2; i++) {
        if (times[i].tv_usec < 0 || times[i].tv_usec >= 1000000)
            return EINVAL;
        change->times[i] = (struct timespec){ .tv_sec = times[i].tv_sec, .tv_nsec = times[i].tv_usec * 1000 };
    }
    return error;
}
#endif

#ifdef SYS_utime
static int wants_seconds(const struct caller *caller, struct change *change, uint64_t address)
{
    struct utimbuf times;
    change->kind = TIMES;
    change->now = address == 0;
    if (change->now)
        return 0;
    int error = copy_bytes(caller, address, &times, sizeof times);
    change->times[0] = (struct timespec){ .tv_sec = times.actime };
    change->times[1] = (struct timespec){ .tv_sec = times.modtime };
    return error;
}
#endif

static int wants_attribute(const struct caller *caller, struct change *change, uint64_t name)
{
    change->kind = REMOVE_ATTRIBUTE;
    return copy_text(caller, name, change->name, sizeof change->name, ERANGE);
}

static int wants_value(const struct caller *caller, struct change *change, const uint64_t *name_value_size_flags)
{
    int error = wants_attribute(caller, change, name_value_size_flags[0]);
    if (error != 0)
        return error;
    change->kind = SET_ATTRIBUTE;
    change->size = (size_t)name_value_size_flags[2];
    change->flags = (int)name_value_size_flags[3];
    if (change->size > ATTRIBUTE_VALUE_MOST)
        return E2BIG;
    change->value = malloc(change->size + 1);
    if (change->value == NULL)
        return ENOMEM;
    return copy_bytes(caller, name_value_size_flags[1], change->value, change->size);
}

static int wants_flagged_path(const struct caller *caller, struct change *change, uint64_t directory, uint64_t address,
                              uint64_t flags)
{
    if (flags & ~(uint64_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return EINVAL;
    int error = wants_path(caller, change, directory, address, !(flags & AT_SYMLINK_NOFOLLOW));
    if (flags & AT_EMPTY_PATH)
        change->how |= EMPTY_NAMES_DIRECTORY;
    return error;
}

/* utimensat and futimesat with a null path mean the descriptor itself. */
static int wants_path_or_descriptor(const struct caller *caller, struct change *change, uint64_t directory,
                                    uint64_t address, uint64_t flags)
{
    if (address == 0)
        return flags == 0 ? wants_descriptor(change, directory) : EINVAL;
    return wants_flagged_path(caller, change, directory, address, flags);
}

#define AT_CWD ((uint64_t)(uint32_t)AT_FDCWD)
#define DO(first, second) ((error = (first)) != 0 ? error : (second))

static int understand(const struct caller *caller, const struct seccomp_call *call, struct change *change)
{
    const uint64_t *a = call->arguments;
    int error;
    switch (call->number) {
#ifdef SYS_chmod
    case SYS_chmod:
        return DO(wants_mode(change, a[1]), wants_path(caller, change, AT_CWD, a[0], true));
    case SYS_chown:
        return DO(wants_owner(change, a[1], a[2]), wants_path(caller, change, AT_CWD, a[0], true));
    case SYS_lchown:
        return DO(wants_owner(change, a[1], a[2]), wants_path(caller, change, AT_CWD, a[0], false));
#endif
    case SYS_fchmod:
        return DO(wants_mode(change, a[1]), wants_descriptor(change, a[0]));
    case SYS_fchmodat:
        return DO(wants_mode(change, a[2]), wants_path(caller, change, a[0], a[1], true));
    case SYS_fchmodat2:
        return DO(wants_mode(change, a[2]), wants_flagged_path(caller, change, a[0], a[1], a[3]));
#ifdef SYS_chown32
    case SYS_chown32:
        return DO(wants_owner(change, a[1], a[2]), wants_path(caller, change, AT_CWD, a[0], true));
    case SYS_lchown32:
        return DO(wants_owner(change, a[1], a[2]), wants_path(caller, change, AT_CWD, a[0], false));
    case SYS_fchown32:
        return DO(wants_owner(change, a[1], a[2]), wants_descriptor(change, a[0]));
#endif
    case SYS_fchown:
        return DO(wants_owner(change, a[1], a[2]), wants_descriptor(change, a[0]));
    case SYS_fchownat:
        return DO(wants_owner(change, a[2], a[3]), wants_flagged_path(caller, change, a[0], a[1], a[4]));
#ifdef SYS_utime
    case SYS_utime:
        return DO(wants_seconds(caller, change, a[1]), wants_path(caller, change, AT_CWD, a[0], true));
#endif
#ifdef SYS_utimes
    case SYS_utimes:
        return DO(wants_microseconds(caller, change, a[1]), wants_path(caller, change, AT_CWD, a[0], true));
#endif
#ifdef SYS_futimesat
    case SYS_futimesat:
        return DO(wants_microseconds(caller, change, a[2]), wants_path_or_descriptor(caller, change, a[0], a[1], 0));
#endif
    case SYS_utimensat:
        return DO(wants_times(caller, change, a[2]), wants_path_or_descriptor(caller, change, a[0], a[1], a[3]));
    case SYS_setxattr:
        return DO(wants_value(caller, change, a + 1), wants_path(caller, change, AT_CWD, a[0], true));
    case SYS_lsetxattr:
        return DO(wants_value(caller, change, a + 1), wants_path(caller, change, AT_CWD, a[0], false));
    case SYS_fsetxattr:
        return DO(wants_value(caller, change, a + 1), wants_descriptor(change, a[0]));
    case SYS_removexattr:
        return DO(wants_attribute(caller, change, a[1]), wants_path(caller, change, AT_CWD, a[0], true));
    case SYS_lremovexattr:
        return DO(wants_attribute(caller, change, a[1]), wants_path(caller, change, AT_CWD, a[0], false));
    case SYS_fremovexattr:
        return DO(wants_attribute(caller, change, a[1]), wants_descriptor(change, a[0]));
    default:
        return ENOSYS;
    }
}

/* /proc/self/fd/N leads to the very object that the descriptor holds, a symbolic link included. */
static int perform(int object, const struct change *change)
{
    char link[LINK_TEXT];
    struct stat status;
    int result = -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", object);
    switch (change->kind) {
    case MODE:
        if (fstat(object, &status) == 0 && S_ISLNK(status.st_mode))
            return EOPNOTSUPP;
        result = chmod(link, change->mode);
        break;
    case OWNER:
        result = fchownat(object, "", change->user, change->group, AT_EMPTY_PATH);
        break;
    case TIMES:
        result = utimensat(AT_FDCWD, link, change->now ? NULL : change->times, 0);
        break;
    case SET_ATTRIBUTE:
        result = setxattr(link, change->name, change->value, change->size, change->flags);
        break;
    case REMOVE_ATTRIBUTE:
        result = removexattr(link, change->name);
        break;
    }
    return result == 0 ? 0 : errno;
}

static int answer(struct caller *caller, const struct seccomp_call *call, const struct list *roots, int refusal)
{
    static struct change change; /* a path's worth of room, and one call at a time */
    memset(&change, 0, offsetof(struct change, path));
    change.value = NULL;
    int object = -1;
    int error = understand(caller, call, &change);
    if (error == 0)
        error = resolve(caller, change.directory, change.path, change.how, &object);
    if (error == 0 && !caller_waits(caller))
        error = EINTR;
    if (error == 0)
        error = check_place(object, roots, refusal);
    if (error == 0)
        error = perform(object, &change);
    if (object >= 0)
        close(object);
    free(change.value);
    return error;
}

bool broker_serve(int listener, const struct list *roots, int refusal)
{
    /* The kernel may know larger structures than this build does: it writes as much as it says. */
    static union {
        struct seccomp_request request;
        char room[512];
    } in;
    memset(&in, 0, sizeof in);
    if (listener_call(listener, SECCOMP_RECEIVE, &in.request) != 0)
        return errno == EINTR || errno == ENOENT || errno == EAGAIN;
    struct caller caller;
    int error = caller_open(&caller, listener, &in.request);
    if (error == 0) {
        error = answer(&caller, &in.request.call, roots, refusal);
        close(caller.memory);
    }
    struct seccomp_reply reply = { .id = in.request.id, .error = -error };
    listener_call(listener, SECCOMP_SEND, &reply); /* ENOENT: the caller was interrupted, and asks again if it likes */
    return true;
}
