/* How a step of the launcher fails: by name, with its errno, and with the path it was about. */
#ifndef MOONSAND_FAILURE_H
#define MOONSAND_FAILURE_H

#include "../core/report.h"

#include <errno.h>
#include <stdbool.h>

struct failure {
    enum ms_stage stage;
    int error;
    const char *path; /* or NULL */
};

/* For `return fail(...)`: notes the failure with the present errno, and is false. */
static inline bool fail(struct failure *failure, enum ms_stage stage, const char *path)
{
    *failure = (struct failure){ .stage = stage, .error = errno, .path = path };
    return false;
}

#endif
