/* Metadata: mode, owner, times, extended attributes, by every call that there is, by name and by descriptor. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

#define CALL(name, ...)                                                                                                \
    static int do_##name(const struct facts *facts)                                                                    \
    {                                                                                                                  \
        (void)facts;                                                                                                   \
        return done_or_absent(__VA_ARGS__, #name);                                                                     \
    }

/* An owner may give a file to itself: that changes the time of change, and clears set-id bits. */
#define ME getuid(), getgid()

static const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
static const struct timeval past_micro[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
static const struct utimbuf past_seconds = { .actime = 1000, .modtime = 2000 };

static int reading(const char *name)
{
    return open(name, O_RDONLY | O_CLOEXEC);
}

static int only_path(const char *name)
{
    return open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

#ifdef SYS_chmod
CALL(chmod, syscall(SYS_chmod, "file", 0777))
CALL(chown, syscall(SYS_chown, "file", ME))
CALL(lchown, syscall(SYS_lchown, "link", ME))
CALL(utime, syscall(SYS_utime, "file", &past_seconds))
CALL(utimes, syscall(SYS_utimes, "file", past_micro))
CALL(futimesat, syscall(SYS_futimesat, AT_FDCWD, "file", past_micro))
#endif
CALL(chmod_absolute, syscall(SYS_fchmodat, AT_FDCWD, under(facts->own, "dir"), 0777))
CALL(chmod_dotdot,
     syscall(SYS_fchmodat, AT_FDCWD, text("%s/../../../../../../..%s/file", facts->spring, facts->own), 0777))
CALL(chmod_set_id, syscall(SYS_fchmodat, AT_FDCWD, "file", 06755))
CALL(fchmod, syscall(SYS_fchmod, reading("file"), 0777))
CALL(fchmod_directory, syscall(SYS_fchmod, open("dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0777))
CALL(fchmodat2, syscall(SYS_fchmodat2, AT_FDCWD, "file", 0777, AT_SYMLINK_NOFOLLOW))
CALL(fchmodat2_empty, syscall(SYS_fchmodat2, only_path("file"), "", 0777, AT_EMPTY_PATH))
CALL(fchmodat_directory, syscall(SYS_fchmodat, only_path("dir"), "child", 0777))
CALL(chmod_self_fd, chmod(text("/proc/self/fd/%d", only_path("file")), 0777))
CALL(chmod_thread_fd, chmod(text("/proc/thread-self/fd/%d", only_path("file")), 0777))
CALL(chmod_pid_fd, chmod(text("/proc/%d/fd/%d", (int)getpid(), only_path("file")), 0777))
CALL(chmod_task_fd, chmod(text("/proc/self/task/%d/fd/%d", (int)getpid(), only_path("file")), 0777))
CALL(chmod_dev_fd, chmod(text("/dev/fd/%d", only_path("file")), 0777))
CALL(chmod_cwd_link, chmod("/proc/self/cwd/file", 0777))
CALL(chmod_parent_cwd, chmod(text("/proc/%d/cwd/own/%s/file", (int)facts->victim, facts->name), 0777))
CALL(chmod_fifo, chmod("fifo", 0777))
CALL(chmod_socket, chmod("socket", 0777))
CALL(chmod_node, chmod("node", 0777))
CALL(fchown, fchown(reading("file"), ME))
CALL(fchownat, syscall(SYS_fchownat, only_path("link"), "", ME, AT_EMPTY_PATH))
CALL(chown_away, syscall(SYS_fchownat, AT_FDCWD, "file", 1234, 1234, 0))
CALL(utimensat, syscall(SYS_utimensat, AT_FDCWD, "file", past, 0))
CALL(utimensat_now, syscall(SYS_utimensat, AT_FDCWD, "dir", NULL, 0))
CALL(utimensat_link, syscall(SYS_utimensat, AT_FDCWD, "link", past, AT_SYMLINK_NOFOLLOW))
CALL(futimens, syscall(SYS_utimensat, reading("file"), NULL, past, 0))
CALL(utimensat_empty, syscall(SYS_utimensat, only_path("file"), "", past, AT_EMPTY_PATH))
CALL(setxattr, setxattr("file", "user.mark", "1", 1, 0))
CALL(lsetxattr, lsetxattr("dir", "user.mark", "1", 1, 0))
CALL(fsetxattr, fsetxattr(reading("file"), "user.mark", "1", 1, 0))
CALL(setxattr_fd, setxattr(text("/proc/self/fd/%d", only_path("file")), "user.mark", "1", 1, 0))
CALL(removexattr, removexattr("file", "user.canary"))
CALL(lremovexattr, lremovexattr("file", "user.canary"))
CALL(fremovexattr, fremovexattr(reading("file"), "user.canary"))
CALL(removexattrat, syscall(SYS_removexattrat, AT_FDCWD, "file", 0, "user.canary"))
CALL(trusted_attribute, setxattr("file", "trusted.mark", "1", 1, 0))
CALL(file_capability, setxattr("file", "security.capability", "\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 0))

static int access_list(const struct facts *facts)
{
    static const unsigned char list[] = {
        2, 0, 0,   0,   1,   0,   6,    0, 255, 255, 255, 255, 2,   0,   7,    0, 0xd2, 4, 0,   0,   4,   0,
        4, 0, 255, 255, 255, 255, 0x10, 0, 7,   0,   255, 255, 255, 255, 0x20, 0, 4,    0, 255, 255, 255, 255,
    };
    (void)facts;
    return done_or_absent(setxattr("file", "system.posix_acl_access", list, sizeof list, 0), "access control lists");
}

static int setxattrat(const struct facts *facts)
{
    struct {
        uint64_t value;
        uint32_t size, flags;
    } arguments = { .value = (uint64_t)(uintptr_t)facts->name, .size = 4 };
    return done_or_absent(syscall(SYS_setxattrat, AT_FDCWD, "file", 0, "user.mark", &arguments, sizeof arguments),
                          "setxattrat");
}

static int file_setattr(const struct facts *facts)
{
    struct {
        uint64_t flags;
        uint32_t extent_size, extents, project, cow_extent_size;
    } arguments = { .flags = 0x80 /* FS_XFLAG_NODUMP */ };
    (void)facts;
    return done_or_absent(syscall(SYS_file_setattr, AT_FDCWD, "file", &arguments, sizeof arguments, 0), "file_setattr");
}

/* Reading is reading; but its time, where it was old, is written. */
static int read_time(const struct facts *facts)
{
    char byte;
    (void)facts;
    return done_unless_negative(read(reading("old"), &byte, 1));
}

/* The kernel remembers how long the data of a file is expected to live, by inode, for whoever asks. */
static int write_hint(const struct facts *facts)
{
    uint64_t hint = 5;
    (void)facts;
    return done_or_absent(fcntl(reading("file"), 1036 /* F_SET_RW_HINT */, &hint), "F_SET_RW_HINT");
}

/* The user's own root directory, in which an allowed path names a canary. */
static int chmod_in_other_root(const struct facts *facts)
{
    if (chroot(facts->own) != 0 && (!own_namespaces(0) || chroot(facts->own) != 0))
        return REFUSED;
    return done_unless_negative(chmod("/tmp/file", 0777));
}

static int chmod_in_other_root_relative(const struct facts *facts)
{
    if (chroot(facts->own) != 0 && (!own_namespaces(0) || chroot(facts->own) != 0))
        return REFUSED;
    return done_unless_negative(chmod("tmp/file", 0777));
}

static const struct attack list[] = {
#ifdef SYS_chmod
    { "chmod", "own", "chmod(2)", do_chmod, NULL, 0 },
    { "chown", "own", "chown(2), to itself", do_chown, NULL, 0 },
    { "lchown", "own", "lchown(2) of a link", do_lchown, NULL, 0 },
    { "utime", "own", "utime(2)", do_utime, NULL, 0 },
    { "utimes", "own", "utimes(2)", do_utimes, NULL, 0 },
    { "futimesat", "own", "futimesat(2)", do_futimesat, NULL, 0 },
#endif
    { "chmod-absolute", "own", "fchmodat(2) of a directory by its absolute path", do_chmod_absolute, NULL, 0 },
    { "chmod-dotdot", "own", "chmod from the workspace with ..", do_chmod_dotdot, NULL, 0 },
    { "chmod-set-id", "own", "chmod to set-user-id", do_chmod_set_id, NULL, 0 },
    { "fchmod", "own", "fchmod(2) of a descriptor for reading", do_fchmod, NULL, 0 },
    { "fchmod-directory", "own", "fchmod(2) of a directory", do_fchmod_directory, NULL, 0 },
    { "fchmodat2", "own", "fchmodat2(2)", do_fchmodat2, NULL, 0 },
    { "fchmodat2-empty", "own", "fchmodat2(2) of an O_PATH descriptor", do_fchmodat2_empty, NULL, 0 },
    { "fchmodat-directory", "own", "fchmodat(2) below an O_PATH descriptor", do_fchmodat_directory, NULL, 0 },
    { "chmod-self-fd", "own", "chmod of /proc/self/fd/N", do_chmod_self_fd, NULL, 0 },
    { "chmod-thread-fd", "own", "chmod of /proc/thread-self/fd/N", do_chmod_thread_fd, NULL, 0 },
    { "chmod-pid-fd", "own", "chmod of /proc/PID/fd/N", do_chmod_pid_fd, NULL, 0 },
    { "chmod-task-fd", "own", "chmod of /proc/self/task/TID/fd/N", do_chmod_task_fd, NULL, 0 },
    { "chmod-dev-fd", "own", "chmod of /dev/fd/N", do_chmod_dev_fd, NULL, 0 },
    { "chmod-cwd-link", "own", "chmod below /proc/self/cwd", do_chmod_cwd_link, NULL, 0 },
    { "chmod-victim-cwd", "own", "chmod below /proc/PID/cwd of a process outside", do_chmod_parent_cwd, NULL, 0 },
    { "chmod-fifo", "own", "chmod of a fifo", do_chmod_fifo, NULL, 0 },
    { "chmod-socket", "own", "chmod of a socket", do_chmod_socket, NULL, 0 },
    { "chmod-node", "own", "chmod of a device node", do_chmod_node, NULL, 0 },
    { "fchown", "own", "fchown(2)", do_fchown, NULL, 0 },
    { "fchownat-empty", "own", "fchownat(2) of an O_PATH descriptor of a link", do_fchownat, NULL, 0 },
    { "chown-away", "own", "chown to another user", do_chown_away, NULL, ROOT },
    { "utimensat", "own", "utimensat(2)", do_utimensat, NULL, 0 },
    { "utimensat-now", "own", "utimensat(2) of a directory, to now", do_utimensat_now, NULL, 0 },
    { "utimensat-link", "own", "utimensat(2) of the link itself", do_utimensat_link, NULL, 0 },
    { "futimens", "own", "utimensat(2) of a descriptor", do_futimens, NULL, 0 },
    { "utimensat-empty", "own", "utimensat(2) of an O_PATH descriptor", do_utimensat_empty, NULL, 0 },
    { "setxattr", "own", "setxattr(2)", do_setxattr, NULL, 0 },
    { "lsetxattr", "own", "lsetxattr(2) of a directory", do_lsetxattr, NULL, 0 },
    { "fsetxattr", "own", "fsetxattr(2)", do_fsetxattr, NULL, 0 },
    { "setxattr-fd", "own", "setxattr(2) of /proc/self/fd/N", do_setxattr_fd, NULL, 0 },
    { "setxattrat", "own", "setxattrat(2)", setxattrat, NULL, 0 },
    { "setxattr-acl", "own", "an access control list", access_list, NULL, 0 },
    { "removexattr", "own", "removexattr(2)", do_removexattr, NULL, 0 },
    { "lremovexattr", "own", "lremovexattr(2)", do_lremovexattr, NULL, 0 },
    { "fremovexattr", "own", "fremovexattr(2)", do_fremovexattr, NULL, 0 },
    { "removexattrat", "own", "removexattrat(2)", do_removexattrat, NULL, 0 },
    { "setxattr-trusted", "own", "a trusted attribute", do_trusted_attribute, NULL, ROOT },
    { "setxattr-capability", "own", "a file capability", do_file_capability, NULL, ROOT },
    { "file-setattr", "own", "file_setattr(2): inode flags by path", file_setattr, NULL, 0 },
    { "read-time", "own", "reading a file whose time of access is old", read_time, NULL, 0 },
    { "write-hint", "own", "fcntl(2) F_SET_RW_HINT on a descriptor for reading", write_hint, NULL, 0 },
    { "chmod-other-root", "own", "chmod in another root directory, where an allowed path names the canary",
      chmod_in_other_root, NULL, 0 },
    { "chmod-other-root-relative", "own", "the same, by a relative path", chmod_in_other_root_relative, NULL, 0 },
};

FAMILY(metadata_family, "metadata", list);
