/* One running command: its group, deadline, escalation, settlement, report.
 *
 * Relies on: spawn.h, capture.h, supervisor.h, and for all facts about a confined command on the report of the launcher
 * (report.h). Thread-safe. Knows nothing of Lua.
 *
 * Promises (design, section 3)
 * - Output is drained, deadlines fire, escalation escalates and children are reaped while the caller does something else.
 * - A command is over when *the command* is over, not when the last holder of its pipes is. What the pipes hold by then is
 *   collected before the state says `settled`.
 * - Two states are never mixed up: the runner failed (nothing ran) and the command failed. A runner failed exactly when the
 *   report never said CONFINED.
 * - No signal is sent to a pid that could have been reused.
 * - When the caller forgets a running command (ms_process_release), it is killed and reaped in the background.
 *
 * The life of one: STARTING, until the report says CONFINED (without a report: until the exec); RUNNING; SETTLED. */
#ifndef MOONSAND_PROCESS_H
#define MOONSAND_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture.h"
#include "error.h"

struct ms_process;

/* All zero but argv and envp is valid, but for stdio, where -1 is the default. Everything is copied as needed: nothing has
 * to stay after ms_process_start. */
struct ms_process_options {
    const char *const *argv; /* exact; argv[0] a path with a slash in it */
    const char *const *envp; /* exact */
    const char *cwd;         /* or NULL: the caller's */
    const void *input;       /* bytes for stdin, through a pipe; NULL: /dev/null (not the same as no bytes) */
    size_t input_size;
    int stdio[3]; /* >= 0: the child gets this descriptor there, and nothing is captured; -1: the default */
    bool report;  /* a socket pair at MS_REPORT_FD; facts come from the launcher */
    bool
        report_optional; /* with `report`: a runner may close it. Then its own end settles the command, and is no failure */
    size_t max_output_bytes;  /* of tail, a stream */
    uint64_t max_spill_bytes; /* 0: no spill */
    const char *spill_base;   /* an absolute path (see spill.h); NULL: no spill */
    bool keep_spill;          /* the spill files stay for a day */
    int64_t timeout_ms;       /* from the start on; 0: none */
    int64_t grace_ms;         /* between SIGTERM and SIGKILL; 0: SIGKILL at once */
    int64_t
        confine_timeout_ms; /* CONFINED must come within it, else the runner failed (MS_STAGE_SUPERVISOR, ETIMEDOUT);
                                   0: none. Only with `report` */
};

/* NULL with `error` filled: nothing was started (or it was killed and reaped again). Everything that runs goes on. */
struct ms_process *ms_process_start(const struct ms_process_options *options, struct ms_error *error);

enum ms_process_state { MS_STARTING, MS_RUNNING, MS_SETTLED };
enum ms_stream { MS_STDOUT, MS_STDERR };

struct ms_stream_facts {
    uint64_t bytes;      /* of the whole stream so far */
    bool truncated;      /* memory does not hold all of them any more */
    uint8_t spill_state; /* enum ms_spill_state; MS_SPILL_COMPLETE: ms_process_spill_path has the path */
    int spill_error;     /* errno, with MS_SPILL_FAILED */
};

struct ms_facts {
    enum ms_process_state state;
    pid_t pid;        /* of what was spawned (the runner); the command's, in its own namespace, is in the report only */
    bool confined;    /* the report said CONFINED: the command was about to be executed */
    uint32_t gaps;    /* MS_GAP_*, valid when confined */
    int landlock_abi; /* 0: no Landlock involved */

    /* The runner failed: nothing ran. Stage and errno are the launcher's when it said them (FAILED); MS_STAGE_SUPERVISOR
     * with ETIMEDOUT when CONFINED did not come in time, with EPROTO when the report was nonsense; MS_STAGE_NONE and 0 when
     * the runner just ended: then `runner_status` and what it printed is all there is. */
    bool runner_failed;
    int runner_stage;
    int runner_error;
    bool have_runner_status; /* the runner's own end is known */
    int runner_status;       /* its wait status */

    /* The confinement stood, the command could not be started. */
    bool start_failed;
    int start_stage;
    int start_error;

    /* How the command ended, as wait(2) gives it. Not there although settled: see runner_failed, start_failed, status_lost. */
    bool have_status;
    int wait_status;
    bool
        status_lost; /* without a report: somebody else reaped the child, and the kernel does not tell its status again */
    bool
        report_lost; /* the launcher vanished (was killed) before it could say the end; wait_status is the runner's own */

    bool timed_out; /* exclusive: the first cause wins */
    bool aborted;
    unsigned leftovers;               /* processes stopped after the command's end */
    unsigned stops;                   /* how often the command was stopped (MS_REPORT_STOPPED) */
    int stop_signal;                  /* by which signal last */
    int64_t started_ms;               /* monotonic */
    int64_t duration_ms;              /* until now, or until the command's end */
    struct ms_stream_facts stream[2]; /* MS_STDOUT, MS_STDERR */
};

/* A snapshot. Lowers the flag of ms_process_fileno. */
void ms_process_facts(struct ms_process *process, struct ms_facts *facts);

enum ms_waited {
    MS_WAITED_SETTLED,
    MS_WAITED_TIMEOUT,
    MS_WAITED_OUTPUT,      /* only when asked for */
    MS_WAITED_INTERRUPTED, /* a signal handler of the caller ran */
    MS_WAITED_FAILED       /* the core is unusable here (after fork), or out of descriptors: errno */
};

/* Waits for settlement, at most `timeout_ms` (negative: for ever). With `output` also returns when there is output that
 * neither ms_process_facts nor a read to its end has seen. A signal that comes just before the wait begins does not
 * interrupt it: who must not miss one waits in slices. */
enum ms_waited ms_process_wait(struct ms_process *process, int64_t timeout_ms, bool output);

/* As ms_capture_read: from stream offset `offset` on, never consuming. */
size_t ms_process_read(struct ms_process *process, enum ms_stream stream, uint64_t offset, void *buffer, size_t size,
                       uint64_t *next, uint64_t *lost);

/* The path of a complete spill file and its length; 0 when there is none (then `buffer` is ""), or it does not fit. */
size_t ms_process_spill_path(struct ms_process *process, enum ms_stream stream, char *buffer, size_t size);

/* SIGTERM to the tree, `grace_ms` later SIGKILL to whatever is left (0: at once; negative: the grace of the options).
 * True the first time; false when it was already asked for (then a shorter grace still counts) or the command is over.
 * The command settles as `aborted`, unless it had timed out before. Does not wait. */
bool ms_process_terminate(struct ms_process *process, int64_t grace_ms);

/* A signal to the command's process group. 0 or an errno; ESRCH when the command is over. */
int ms_process_signal(struct ms_process *process, int signal);

/* Continues a command that was stopped; one with a terminal of its own (the launcher's --terminal) in its foreground, or
 * in its background, where it is stopped again when it reads from it. 0 or an errno; ESRCH when the command is over. */
int ms_process_continue(struct ms_process *process, bool foreground);

/* A descriptor for poll(2), made on first use: readable when there is output or a change of state that ms_process_facts
 * has not seen. Stays the process's own. -1 with errno set. */
int ms_process_fileno(struct ms_process *process);

pid_t ms_process_pid(const struct ms_process *process);

/* The caller needs it no more. What still runs is killed and reaped in the background; spill files stay. After fork, in the
 * child, does nothing. */
void ms_process_release(struct ms_process *process);

#endif
