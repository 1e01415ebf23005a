/* What went wrong, in words: tables of names, and one line for people. */
#include "error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

void ms_error_set(struct ms_error *error, enum ms_stage stage, int number, const char *path, const char *reason)
{
    if (error == NULL)
        return;
    error->stage = stage;
    error->error = number;
    snprintf(error->path, sizeof error->path, "%s", path != NULL ? path : "");
    snprintf(error->reason, sizeof error->reason, "%s", reason != NULL ? reason : "");
}

/* strerror_r(3) comes in two incompatible shapes, and strerror(3) is not thread-safe everywhere: _Generic tells the shapes
 * apart without asking which C library this is. */
static const char *posix_text(int failed, const char *buffer)
{
    return failed == 0 ? buffer : "unknown error";
}

static const char *gnu_text(const char *text, const char *buffer)
{
    (void)buffer;
    return text;
}

#define ERROR_TEXT(number, buffer, size)                                                                               \
    _Generic(strerror_r(number, buffer, size), int: posix_text, char *: gnu_text)(strerror_r(number, buffer, size), buffer)

char *ms_error_message(const struct ms_error *error, char *buffer, size_t size)
{
    char text[128];
    snprintf(buffer, size, "%s%s%s: %s%s%s%s", ms_stage_name((int)error->stage), error->path[0] != '\0' ? " " : "",
             error->path, ERROR_TEXT(error->error, text, sizeof text), error->reason[0] != '\0' ? " (" : "",
             error->reason, error->reason[0] != '\0' ? ")" : "");
    return buffer;
}

static const char *const stage_names[MS_STAGE_COUNT] = {
    [MS_STAGE_NONE] = "none",
    [MS_STAGE_ARGUMENTS] = "arguments",
    [MS_STAGE_PIPE] = "pipe",
    [MS_STAGE_SOCKET] = "socket",
    [MS_STAGE_MEMORY] = "memory",
    [MS_STAGE_FORK] = "fork",
    [MS_STAGE_SESSION] = "session",
    [MS_STAGE_STDIO] = "stdio",
    [MS_STAGE_TERMINAL] = "terminal",
    [MS_STAGE_CHDIR] = "chdir",
    [MS_STAGE_EXEC] = "exec",
    [MS_STAGE_SUPERVISOR] = "supervisor",
    [MS_STAGE_SUBREAPER] = "subreaper",
    [MS_STAGE_NO_NEW_PRIVS] = "no_new_privs",
    [MS_STAGE_CAPABILITIES] = "capabilities",
    [MS_STAGE_LANDLOCK] = "landlock",
    [MS_STAGE_LANDLOCK_RULE] = "landlock_rule",
    [MS_STAGE_FENCE] = "fence",
    [MS_STAGE_BROKER] = "broker",
    [MS_STAGE_EXPECT_PID_1] = "expect_pid_1",
    [MS_STAGE_EXPECT_NO_CAPABILITIES] = "expect_no_capabilities",
    [MS_STAGE_EXPECT_READ_ONLY] = "expect_read_only",
};

const char *ms_stage_name(int stage)
{
    if (stage < 0 || stage >= MS_STAGE_COUNT || stage_names[stage] == NULL)
        return "unknown";
    return stage_names[stage];
}

struct named_number {
    int number;
    const char *name;
};

#define NAMED(constant)                                                                                                \
    {                                                                                                                  \
        constant, #constant                                                                                            \
    }

/* The errnos that starting a process, confining it, or writing its output can meet. */
static const struct named_number errno_names[] = {
    NAMED(E2BIG),      NAMED(EACCES),       NAMED(EAGAIN),    NAMED(EBADF),     NAMED(EBUSY),     NAMED(ECHILD),
    NAMED(ECONNRESET), NAMED(ECONNREFUSED), NAMED(EDEADLK),   NAMED(EDOM),      NAMED(EDQUOT),    NAMED(EEXIST),
    NAMED(EFAULT),     NAMED(EFBIG),        NAMED(EILSEQ),    NAMED(EINTR),     NAMED(EINVAL),    NAMED(EIO),
    NAMED(EISDIR),     NAMED(ELOOP),        NAMED(EMFILE),    NAMED(EMLINK),    NAMED(EMSGSIZE),  NAMED(ENAMETOOLONG),
    NAMED(ENFILE),     NAMED(ENOBUFS),      NAMED(ENODEV),    NAMED(ENOENT),    NAMED(ENOEXEC),   NAMED(ENOLCK),
    NAMED(ENOMEM),     NAMED(ENOSPC),       NAMED(ENOSYS),    NAMED(ENOTCONN),  NAMED(ENOTDIR),   NAMED(ENOTEMPTY),
    NAMED(ENOTSUP),    NAMED(ENOTTY),       NAMED(ENXIO),     NAMED(EOVERFLOW), NAMED(EPERM),     NAMED(EPIPE),
    NAMED(EPROTO),     NAMED(ERANGE),       NAMED(EROFS),     NAMED(ESPIPE),    NAMED(ESRCH),     NAMED(ESTALE),
    NAMED(ETIMEDOUT),  NAMED(ETXTBSY),      NAMED(EUSERS),    NAMED(EXDEV),     NAMED(ECANCELED),
#ifdef ELIBBAD
    NAMED(ELIBBAD),
#endif
#ifdef EBADARCH /* macOS: a program for another processor, a Mach-O file that is broken */
    NAMED(EBADARCH),   NAMED(EBADEXEC),     NAMED(EBADMACHO),
#endif
};

static const struct named_number signal_names[] = {
    NAMED(SIGABRT),   NAMED(SIGALRM),   NAMED(SIGBUS),   NAMED(SIGCHLD), NAMED(SIGCONT), NAMED(SIGFPE),
    NAMED(SIGHUP),    NAMED(SIGILL),    NAMED(SIGINT),   NAMED(SIGIO),   NAMED(SIGKILL), NAMED(SIGPIPE),
    NAMED(SIGPROF),   NAMED(SIGQUIT),   NAMED(SIGSEGV),  NAMED(SIGSTOP), NAMED(SIGSYS),  NAMED(SIGTERM),
    NAMED(SIGTRAP),   NAMED(SIGTSTP),   NAMED(SIGTTIN),  NAMED(SIGTTOU), NAMED(SIGURG),  NAMED(SIGUSR1),
    NAMED(SIGUSR2),   NAMED(SIGVTALRM), NAMED(SIGWINCH), NAMED(SIGXCPU), NAMED(SIGXFSZ),
#ifdef SIGSTKFLT
    NAMED(SIGSTKFLT),
#endif
#ifdef SIGPWR
    NAMED(SIGPWR),
#endif
#ifdef SIGEMT
    NAMED(SIGEMT),
#endif
};

static const char *name_of(const struct named_number *table, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].number == number)
            return table[i].name;
    return NULL;
}

const char *ms_errno_name(int number)
{
    return name_of(errno_names, sizeof errno_names / sizeof errno_names[0], number);
}

const char *ms_signal_name(int signal)
{
    return name_of(signal_names, sizeof signal_names / sizeof signal_names[0], signal);
}
