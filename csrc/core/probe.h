/* Run a runner once, bounded in time and output, and say whether it works.
 *
 * Relies on: process.h. Promises: when it returns, nothing of what it started is alive. */
#ifndef MOONSAND_PROBE_H
#define MOONSAND_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

#define MS_PROBE_OUTPUT 4096

struct ms_probe {
    bool ok;        /* it was started, ended in time, and exited with 0 */
    bool started;   /* false: `error` says why not */
    bool timed_out; /* it was killed for that */
    bool have_status;
    int wait_status;
    size_t stdout_size, stderr_size; /* the last bytes it printed; followed by a NUL that is not counted */
    char stdout_text[MS_PROBE_OUTPUT + 1];
    char stderr_text[MS_PROBE_OUTPUT + 1];
    struct ms_error error;
};

/* argv and envp as for ms_process_start. `timeout_ms` must be positive. Returns probe->ok. Signals do not interrupt it. */
bool ms_probe_run(const char *const *argv, const char *const *envp, int64_t timeout_ms, struct ms_probe *probe);

#endif
