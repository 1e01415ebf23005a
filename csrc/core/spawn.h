/* Start one process, or say exactly which step failed, with what errno, on what path.
 *
 * Relies on: nothing of the supervisor; may be used alone, from any thread.
 * Promises: argv and environment are exact and never interpreted. The new process leads a session and process group of
 * its own, has no controlling terminal, default signal dispositions, an empty signal mask, and no descriptor but 0, 1, 2
 * and (when asked) the report at MS_REPORT_FD. When it returns an error, no process, no zombie and no descriptor stays.
 *
 * What differs between systems is in spawn_linux.c and spawn_darwin.c. */
#ifndef MOONSAND_SPAWN_H
#define MOONSAND_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "error.h"

/* For `stdio`: what the child gets there. A number >= 0 is a descriptor of the caller, passed through. */
enum ms_stdio {
    MS_STDIO_NULL = -1, /* /dev/null */
    MS_STDIO_PIPE = -2  /* a pipe; the caller's end is in `struct ms_spawned` */
};

struct ms_spawn_request {
    const char *const *argv; /* argv[0] is the program, a path with a slash in it; no search is made */
    const char *const *envp;
    const char *cwd;    /* or NULL: the caller's */
    int stdio[3];       /* enum ms_stdio, or a descriptor */
    bool report;        /* a socket pair, the child's end at MS_REPORT_FD */
    bool die_with_host; /* Linux, and only when called on the main thread (see PR_SET_PDEATHSIG in prctl(2): it is about
                           threads): SIGKILL to the child when the host is gone. For what has no report to tell by */
};

/* A child process, as something that can be signalled without ever hitting a stranger. */
struct ms_child {
    pid_t pid;   /* also its process group and session */
    int handle;  /* Linux: a pidfd. -1 where the system has no such thing */
    bool reaped; /* its pid may belong to anyone now */
};

struct ms_spawned {
    struct ms_child child;
    int stdio[3]; /* our ends of the pipes asked for, close-on-exec and non-blocking; else -1 */
    int report;   /* our end of the report, close-on-exec; else -1 */
};

/* A pipe, close-on-exec: read end, write end. 0 or an errno. */
int ms_pipe(int ends[2]);

/* 0, or -1 with `error` filled. */
int ms_spawn(const struct ms_spawn_request *request, struct ms_spawned *spawned, struct ms_error *error);

enum ms_reaped {
    MS_REAP_RUNNING, /* it has not ended */
    MS_REAP_ENDED,   /* it has ended, `wait_status` says how */
    MS_REAP_LOST     /* it has ended, but somebody else took the status and the kernel does not tell it again */
};

/* Reaps the child when it has ended; never blocks. Once it says ENDED or LOST, `child->reaped` is set. */
enum ms_reaped ms_child_reap(struct ms_child *child, int *wait_status);

/* Has it ended? Leaves it unreaped, so that its process group can still be signalled. Never blocks. */
bool ms_child_ended(const struct ms_child *child);

/* Both return 0 or an errno; ESRCH when there is nobody who is surely the one that was meant. */
int ms_child_signal(const struct ms_child *child, int signal);
int ms_child_signal_group(const struct ms_child *child, int signal);

/* Closes the handle. Does not reap, does not signal. */
void ms_child_close(struct ms_child *child);

#endif
