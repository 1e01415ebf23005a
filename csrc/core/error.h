/* What went wrong, as data: which step, which errno, on which path. And the words for the numbers.
 *
 * Relies on nothing. Nobody parses a text to find out what failed (design, section 3, spawn): the stage and the errno
 * decide, the message is for people. */
#ifndef MOONSAND_ERROR_H
#define MOONSAND_ERROR_H

#include <limits.h>
#include <stddef.h>

#include "report.h"

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

struct ms_error {
    enum ms_stage stage;
    int error;           /* errno; never 0 in an error that was returned */
    char path[PATH_MAX]; /* what the step was about (program, directory, file), or "" */
    char reason[256];    /* what the errno alone does not say, or "" */
};

/* Fills `error` (which may be NULL). `path` and `reason` may be NULL. A path that is too long is cut. */
void ms_error_set(struct ms_error *error, enum ms_stage stage, int number, const char *path, const char *reason);

/* One line for people: "exec /bin/nothing: No such file or directory". Always ends in a NUL; returns `buffer`. */
char *ms_error_message(const struct ms_error *error, char *buffer, size_t size);

/* "exec", "chdir", "landlock_rule", ...; "unknown" for what is no stage. Never NULL. */
const char *ms_stage_name(int stage);

/* "ENOENT" for ENOENT. NULL for a number that has no name here. */
const char *ms_errno_name(int number);

/* "SIGSEGV" for SIGSEGV, "SIGRTMIN+3" style names are not made: NULL for a number that has no name here. */
const char *ms_signal_name(int signal);

#endif
