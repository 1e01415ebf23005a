/* Paths: names, links, magic links and renames that might lead from an allowed place to a forbidden one. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int plain_write(const struct facts *facts)
{
    return mark_path(facts, "file", 0);
}

static int append(const struct facts *facts)
{
    return mark_path(facts, under(facts->own, "file"), O_APPEND);
}

static int dotdot(const struct facts *facts)
{
    return mark_path(facts, text("%s/../../../../../../../../..%s/file", facts->spring, facts->own), 0);
}

static int through_link(const struct facts *facts)
{
    return mark_path(facts, "link", 0);
}

static int link_from_workspace(const struct facts *facts)
{
    const char *link = text("%s/link-%s", facts->spring, facts->name);
    if (symlink(under(facts->own, "file"), link) != 0)
        return REFUSED;
    int outcome = mark_path(facts, link, 0);
    unlink(link);
    return outcome;
}

static int directory_link_from_workspace(const struct facts *facts)
{
    const char *link = text("%s/link-%s", facts->spring, facts->name);
    if (symlink(facts->own, link) != 0)
        return REFUSED;
    int outcome = mark_path(facts, under(link, "new"), O_CREAT);
    unlink(link);
    return outcome;
}

static int hard_link_to_workspace(const struct facts *facts)
{
    const char *link = text("%s/hard-%s", facts->spring, facts->name);
    if (link == NULL || linkat(AT_FDCWD, "file", AT_FDCWD, link, 0) != 0)
        return REFUSED;
    int outcome = mark_path(facts, link, 0);
    unlink(link);
    return outcome;
}

static int hard_link_by_descriptor(const struct facts *facts)
{
    const char *link = text("%s/hard-%s", facts->spring, facts->name);
    int fd = open("file", O_RDONLY | O_CLOEXEC);
    if (linkat(AT_FDCWD, text("/proc/self/fd/%d", fd), AT_FDCWD, link, AT_SYMLINK_FOLLOW) != 0)
        return REFUSED;
    int outcome = mark_path(facts, link, 0);
    unlink(link);
    return outcome;
}

static int rename_to_workspace(const struct facts *facts)
{
    return done_unless_negative(rename("file", text("%s/moved-%s", facts->spring, facts->name)));
}

static int rename_directory_to_workspace(const struct facts *facts)
{
    return done_unless_negative(rename("dir", text("%s/moved-%s", facts->spring, facts->name)));
}

static int rename_from_workspace(const struct facts *facts)
{
    const char *from = text("%s/from-%s", facts->spring, facts->name);
    mark_path(facts, from, O_CREAT);
    if (rename(from, "file") == 0)
        return DONE;
    int error = errno;
    unlink(from);
    errno = error;
    return REFUSED;
}

static int exchange(const struct facts *facts)
{
    const char *mine = text("%s/mine-%s", facts->spring, facts->name);
    mark_path(facts, mine, O_CREAT);
    return done_unless_negative(syscall(SYS_renameat2, AT_FDCWD, mine, AT_FDCWD, "file", 2U /* RENAME_EXCHANGE */));
}

static int whiteout(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, "gone", 4U /* RENAME_WHITEOUT */),
                          "RENAME_WHITEOUT");
}

static int move_the_workspace(const struct facts *facts)
{
    return done_unless_negative(rename(text("%s/nest/room", facts->base), text("%s/nest/moved", facts->base)));
}

static int self_root(const struct facts *facts)
{
    return mark_path(facts, text("/proc/self/root%s/file", facts->own), 0);
}

static int thread_root(const struct facts *facts)
{
    return mark_path(facts, text("/proc/thread-self/root%s/file", facts->own), 0);
}

static int first_root(const struct facts *facts)
{
    return mark_path(facts, text("/proc/1/root%s/file", facts->own), 0);
}

static int launcher_root(const struct facts *facts)
{
    return mark_path(facts, text("/proc/%d/root%s/file", (int)facts->launcher, facts->own), 0);
}

static int victim_root(const struct facts *facts)
{
    return mark_path(facts, text("/proc/%d/root%s/file", (int)facts->victim, facts->own), 0);
}

static int victim_cwd(const struct facts *facts)
{
    return mark_path(facts, text("/proc/%d/cwd/own/%s/file", (int)facts->victim, facts->name), 0);
}

static int victim_descriptor(const struct facts *facts)
{
    return mark_path(facts, text("/proc/%d/fd/%d", (int)facts->victim, facts->victim_file), 0);
}

static int self_cwd(const struct facts *facts)
{
    return mark_path(facts, "/proc/self/cwd/file", 0);
}

static int reopen(const struct facts *facts)
{
    int fd = open("file", O_RDONLY | O_CLOEXEC);
    return mark_path(facts, text("/proc/self/fd/%d", fd), 0);
}

static int reopen_o_path(const struct facts *facts)
{
    int fd = open("file", O_PATH | O_CLOEXEC);
    return mark_path(facts, text("/proc/thread-self/fd/%d", fd), 0);
}

static int reopen_dev_fd(const struct facts *facts)
{
    int fd = open("file", O_RDONLY | O_CLOEXEC);
    return mark_path(facts, text("/dev/fd/%d", fd), O_TRUNC);
}

static int map_file(const struct facts *facts)
{
    int fd = open("big", O_RDONLY | O_CLOEXEC);
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return REFUSED;
    return mark_path(facts, text("/proc/self/map_files/%lx-%lx", (unsigned long)map, (unsigned long)map + 4096), 0);
}

static int newline(const struct facts *facts)
{
    return mark_path(facts, "a\nname", O_CREAT);
}

static int not_utf8(const struct facts *facts)
{
    return mark_path(facts, "\xff\xfe\x80name", O_CREAT);
}

static int longest(const struct facts *facts)
{
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    return mark_path(facts, name, O_CREAT);
}

/* A path longer than PATH_MAX, which no one path can say. */
static int too_deep(const struct facts *facts)
{
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    for (int i = 0; i < 25; i++)
        if (mkdir(name, 0755) != 0 || chdir(name) != 0)
            return REFUSED;
    return mark_path(facts, "bottom", O_CREAT);
}

static int by_directory(const struct facts *facts)
{
    int directory = open(facts->own, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return mark_descriptor(facts, openat(directory, "file", O_WRONLY | O_CLOEXEC));
}

static int climb_from_workspace(const struct facts *facts)
{
    int directory = open(facts->spring, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return mark_descriptor(facts,
                           openat(directory, text("../../../../../../..%s/file", facts->own), O_WRONLY | O_CLOEXEC));
}

static int in_root(const struct facts *facts)
{
    struct open_how how = { .flags = O_WRONLY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
    int directory = open(facts->own, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return mark_descriptor(facts, (int)syscall(SYS_openat2, directory, "/../file", &how, sizeof how));
}

static int changed_root(const struct facts *facts)
{
    if (chroot(facts->own) != 0 || chdir("/") != 0)
        return REFUSED;
    return mark_path(facts, "/file", 0);
}

static int slash(const struct facts *facts)
{
    (void)facts;
    return done_unless_negative(mkdir("new///", 0755));
}

static int into_fifo(const struct facts *facts)
{
    return mark_path(facts, text("%s/victim/fifo", facts->base), O_NONBLOCK);
}

static const struct attack list[] = {
    { "path-plain-write", "own", "writes a file that the user owns", plain_write, NULL, 0 },
    { "path-append", "own", "appends to it by its absolute path", append, NULL, 0 },
    { "path-dotdot", "own", "names it from the workspace with ..", dotdot, NULL, 0 },
    { "path-through-link", "own", "writes it through a symbolic link that lies outside", through_link, NULL, 0 },
    { "path-workspace-link", "own", "writes it through a symbolic link made in the workspace", link_from_workspace,
      NULL, 0 },
    { "path-workspace-dirlink", "own", "creates a file through a link to a directory", directory_link_from_workspace,
      NULL, 0 },
    { "path-hardlink-workspace", "own", "links it into the workspace and writes it there", hard_link_to_workspace, NULL,
      0 },
    { "path-hardlink-descriptor", "own", "the same from an open descriptor", hard_link_by_descriptor, NULL, 0 },
    { "path-rename-out", "own", "moves a file into the workspace", rename_to_workspace, NULL, 0 },
    { "path-rename-dir-out", "own", "moves a directory into the workspace", rename_directory_to_workspace, NULL, 0 },
    { "path-rename-in", "own", "moves a file of the workspace over it", rename_from_workspace, NULL, 0 },
    { "path-exchange", "own", "exchanges it with a file of the workspace", exchange, NULL, 0 },
    { "path-whiteout", "own", "moves it and leaves a whiteout", whiteout, NULL, 0 },
    { "path-move-parent", "nest:", "moves the directory that the workspace lies in", move_the_workspace, NULL, ALONE },
    { "path-self-root", "own", "/proc/self/root", self_root, NULL, 0 },
    { "path-thread-root", "own", "/proc/thread-self/root", thread_root, NULL, 0 },
    { "path-first-root", "own", "/proc/1/root", first_root, NULL, ROOT },
    { "path-launcher-root", "own", "/proc/PID/root of the launcher", launcher_root, NULL, 0 },
    { "path-victim-root", "own", "/proc/PID/root of a process outside", victim_root, NULL, 0 },
    { "path-victim-cwd", "own", "/proc/PID/cwd of a process outside", victim_cwd, NULL, 0 },
    { "path-victim-descriptor", "victim:held", "/proc/PID/fd/N of a process outside", victim_descriptor, NULL, 0 },
    { "path-self-cwd", "own", "/proc/self/cwd", self_cwd, NULL, 0 },
    { "path-reopen", "own", "reopens a descriptor that was opened for reading", reopen, NULL, 0 },
    { "path-reopen-o-path", "own", "reopens an O_PATH descriptor", reopen_o_path, NULL, 0 },
    { "path-reopen-dev-fd", "own", "/dev/fd/N with O_TRUNC", reopen_dev_fd, NULL, 0 },
    { "path-map-files", "own", "/proc/self/map_files", map_file, NULL, ROOT },
    { "path-newline", "own", "a name with a newline", newline, NULL, 0 },
    { "path-not-utf8", "own", "a name that is not UTF-8", not_utf8, NULL, 0 },
    { "path-longest-name", "own", "a name of 255 bytes", longest, NULL, 0 },
    { "path-deep", "own", "directories deeper than a path can say", too_deep, NULL, 0 },
    { "path-directory-descriptor", "own", "openat from an O_PATH descriptor", by_directory, NULL, 0 },
    { "path-climb", "own", "openat with .. from the workspace's descriptor", climb_from_workspace, NULL, 0 },
    { "path-in-root", "own", "openat2 with RESOLVE_IN_ROOT", in_root, NULL, 0 },
    { "path-chroot", "own", "another root directory, and the same file in it", changed_root, NULL, ROOT },
    { "path-slashes", "own", "a directory by a name with trailing slashes", slash, NULL, 0 },
    { "path-fifo", "victim:fifo", "bytes into a fifo that somebody outside reads", into_fifo, NULL, 0 },
    { "path-everywhere", "place:", "an empty file in every place that comes to mind", NULL,
      "for d in / /etc /usr /usr/bin /var /var/tmp /var/spool/cron /var/log /home /root /opt /srv /mnt /run /run/lock "
      "/boot "
      "/dev /dev/shm /dev/mqueue /dev/pts /proc /sys /sys/fs/cgroup /sys/kernel/debug \"$BASE\" \"$BASE/home\" "
      "\"$BASE/nest\"; do "
      "{ echo mark >\"$d/moonsand-mark\"; } 2>/dev/null && found=1; done; [ -n \"$found\" ]",
      0 },
    { "path-shell-tools", "own", "the everyday programs: touch, cp, ln, mv, rm, tee, dd, sed -i, install", NULL,
      "touch new1; cp file new2; ln file new3; ln -s file new4; mv file new5; echo x | tee big; dd if=/dev/zero of=big "
      "bs=1 count=9; sed -i s/c/d/ dir/child; install -m 600 /etc/hostname new6; mkfifo new7; rm -rf dir; true",
      0 },
};

FAMILY(paths_family, "paths", list);
