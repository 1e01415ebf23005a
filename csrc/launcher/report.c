/* Records over the report socket. A record is 24 bytes on a socket whose buffer holds thousands, so that a send either
 * takes it whole or the host is gone. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: SO_NOSIGPIPE on the socket says the same */
#endif

bool reporter_open(struct reporter *reporter, int fd)
{
    *reporter = (struct reporter){ .fd = -1 };
    int type;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        return false;
    if (type != SOCK_STREAM) {
        errno = EPROTOTYPE;
        return false;
    }
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return false;
    reporter->fd = fd;
    return true;
}

static void say(const struct reporter *reporter, struct ms_record *records, size_t count)
{
    if (reporter->fd < 0)
        return;
    for (size_t i = 0; i < count; i++)
        records[i].magic = MS_RECORD_MAGIC;
    while (send(reporter->fd, records, count * sizeof *records, MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}

void reporter_say(const struct reporter *reporter, struct ms_record record)
{
    say(reporter, &record, 1);
}

void reporter_say_both(const struct reporter *reporter, struct ms_record first, struct ms_record second)
{
    struct ms_record both[] = { first, second };
    say(reporter, both, 2);
}

enum request_result reporter_read(struct reporter *reporter, struct ms_record *request)
{
    char *at = (char *)&reporter->request + reporter->received;
    ssize_t n = recv(reporter->fd, at, sizeof reporter->request - reporter->received, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? REQUEST_NONE : REQUEST_HOST_GONE;
    if (n == 0)
        return REQUEST_HOST_GONE;
    reporter->received += (unsigned)n;
    if (reporter->received < sizeof reporter->request)
        return REQUEST_NONE;
    reporter->received = 0;
    if (reporter->request.magic != MS_RECORD_MAGIC)
        return REQUEST_HOST_GONE; /* whoever speaks there is not the host */
    *request = reporter->request;
    return REQUEST_READY;
}

bool reporter_ask(const struct reporter *reporter, struct ms_record confined)
{
    if (reporter->fd < 0)
        return true;
    confined.magic = MS_RECORD_MAGIC;
    ssize_t sent;
    while ((sent = send(reporter->fd, &confined, sizeof confined, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        continue;
    return sent == (ssize_t)sizeof confined;
}

const char *stage_word(enum ms_stage stage)
{
    static const char *const words[MS_STAGE_COUNT] = {
        [MS_STAGE_NONE] = "nothing",
        [MS_STAGE_ARGUMENTS] = "arguments",
        [MS_STAGE_PIPE] = "pipe",
        [MS_STAGE_SOCKET] = "report descriptor",
        [MS_STAGE_MEMORY] = "memory",
        [MS_STAGE_FORK] = "fork",
        [MS_STAGE_SESSION] = "session",
        [MS_STAGE_STDIO] = "standard input",
        [MS_STAGE_TERMINAL] = "terminal",
        [MS_STAGE_CHDIR] = "working directory",
        [MS_STAGE_EXEC] = "exec",
        [MS_STAGE_SUPERVISOR] = "supervisor",
        [MS_STAGE_SUBREAPER] = "subreaper",
        [MS_STAGE_NO_NEW_PRIVS] = "no_new_privs",
        [MS_STAGE_CAPABILITIES] = "capabilities",
        [MS_STAGE_LANDLOCK] = "landlock",
        [MS_STAGE_LANDLOCK_RULE] = "landlock rule",
        [MS_STAGE_FENCE] = "fence",
        [MS_STAGE_BROKER] = "broker",
        [MS_STAGE_EXPECT_PID_1] = "expected to be pid 1",
        [MS_STAGE_EXPECT_NO_CAPABILITIES] = "expected no capabilities",
        [MS_STAGE_EXPECT_READ_ONLY] = "expected a read-only tree",
    };
    return (unsigned)stage < MS_STAGE_COUNT ? words[stage] : "unknown";
}
