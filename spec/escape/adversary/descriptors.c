/* Descriptors that the host happened to have open when it started the command: 8 is a directory, 9 a file open for
 * writing; and whatever else is found. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DIRECTORY = 8, HELD = 9, MOST = 1024 };

static int below_directory(const struct facts *facts)
{
    return mark_descriptor(facts, openat(DIRECTORY, text("own/%s/file", facts->name), O_WRONLY | O_CLOEXEC));
}

static int any_directory(const struct facts *facts)
{
    for (int fd = 0; fd < MOST; fd++) {
        int file = openat(fd, text("%s/own/%s/file", fd == DIRECTORY ? "." : "..", facts->name), O_WRONLY | O_CLOEXEC);
        if (file >= 0)
            return mark_descriptor(facts, file);
    }
    errno = EBADF;
    return REFUSED;
}

static int held_file(const struct facts *facts)
{
    return mark_descriptor(facts, HELD);
}

static int any_file(const struct facts *facts)
{
    struct stat status;
    for (int fd = 3; fd < MOST; fd++)
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && mark_descriptor(facts, fd) == DONE)
            return DONE;
    errno = EBADF;
    return REFUSED;
}

static int metadata_of_held(const struct facts *facts)
{
    struct stat status;
    (void)facts;
    if (fstat(HELD, &status) != 0)
        return REFUSED;
    return done_unless_negative(fchmod(HELD, status.st_mode ^ 0111));
}

static int reopened_held(const struct facts *facts)
{
    return mark_path(facts, text("/proc/self/fd/%d", HELD), O_APPEND);
}

/* A descriptor out of a message: somebody outside would have to send it, and the command's own parent is the launcher. */
static int received(const struct facts *facts)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec one = { .iov_base = &byte, .iov_len = 1 };
    for (int fd = 3; fd < MOST; fd++) {
        struct msghdr message = {
            .msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room
        };
        if (recvmsg(fd, &message, MSG_DONTWAIT) > 0 && message.msg_controllen >= sizeof room)
            return mark_descriptor(facts, *(const int *)(const void *)CMSG_DATA(CMSG_FIRSTHDR(&message)));
    }
    errno = EBADF;
    return REFUSED;
}

/* Standard input: a file that was given for reading. */
static int reopened_input(const struct facts *facts)
{
    return mark_path(facts, "/proc/self/fd/0", 0);
}

static int mode_of_input(const struct facts *facts)
{
    struct stat status;
    (void)facts;
    if (fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) {
        errno = EBADF;
        return REFUSED;
    }
    return done_unless_negative(fchmod(STDIN_FILENO, status.st_mode ^ 0111));
}

static int times_of_input(const struct facts *facts)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    struct stat status;
    (void)facts;
    if (fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) {
        errno = EBADF;
        return REFUSED;
    }
    return done_unless_negative(futimens(STDIN_FILENO, past));
}

static const struct attack list[] = {
    { "inherited-directory", "own", "a directory's descriptor that leaked in", below_directory, NULL, 0 },
    { "inherited-any-directory", "own", "any directory's descriptor", any_directory, NULL, 0 },
    { "inherited-file", "held:", "a file's descriptor that leaked in", held_file, NULL, 0 },
    { "inherited-any-file", "held:", "any file's descriptor", any_file, NULL, 0 },
    { "inherited-metadata", "held:", "fchmod(2) of a descriptor that leaked in", metadata_of_held, NULL, 0 },
    { "inherited-reopen", "held:", "a descriptor that leaked in, opened again", reopened_held, NULL, 0 },
    { "inherited-message", "held:", "a descriptor that waits in a socket that leaked in", received, NULL, UNPROVEN },
    { "input-reopen", "input:", "standard input, opened again for writing", reopened_input, NULL, 0 },
    { "input-chmod", "input:", "fchmod(2) of standard input", mode_of_input, NULL, 0 },
    { "input-times", "input:", "futimens(3) of standard input", times_of_input, NULL, 0 },
};

FAMILY(descriptors_family, "descriptors", list);
