/* A program's standard descriptors, when they are the user's: `moonsand exec`.
 *
 * Anonymous pipes and sockets are passed through. A descriptor that leads back to a file of the host is not: the program
 * could open the file again through /proc/self/fd, with other rights, or change its mode, past every confinement. So
 * regular files, devices and named pipes are carried through an anonymous pipe, and the terminal through a
 * pseudo-terminal of the program's own (terminal.h).
 *
 * Relies on: terminal.h, process.h, and on the launcher for job control: it starts the program in the foreground or the
 * background of its terminal, and reports when it stops.
 *
 * Promises
 * - The program meets its terminal as it would without the relay: modes, window size, job control, Ctrl-C, Ctrl-Z, Ctrl-\.
 *   When it stops, the user's terminal is as it was and the caller's process group stops the same way, so that the user's
 *   shell has its prompt; when that is continued, so is the program.
 * - The user's keys are only taken while the program wants them: from the start when it has the terminal for itself, else
 *   (a pipeline, a background job) when it first reads from the terminal or changes its modes.
 * - The user's terminal has its modes back on every way out. What the program printed before its end is not lost.
 * - SIGTERM and SIGHUP end the program with its grace; a second one at once. SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 and SIGALRM are
 *   passed on to it. A signal that was ignored stays ignored.
 *
 * One relay runs at a time in a process: signal handlers are the process's. */
#ifndef MOONSAND_RELAY_H
#define MOONSAND_RELAY_H

#include <stdbool.h>

#include "error.h"
#include "process.h"

struct ms_relay;

/* What the program is to be started with. */
struct ms_relay_program {
    int stdio[3];    /* for ms_process_options; -1: none, that is /dev/null (only ever stdin) */
    bool terminal;   /* the launcher's --terminal: one of these is a terminal */
    bool background; /* the launcher's --background: it may read from it only when the relay says so */
};

/* Looks at the descriptors `user` (0, 1, 2 of a process), and makes what the program gets instead. NULL with `error` filled. */
struct ms_relay *ms_relay_open(const int user[3], struct ms_error *error);

const struct ms_relay_program *ms_relay_program(const struct ms_relay *relay);

struct ms_relayed {
    int signal;             /* the last signal that asked for the program's end (SIGTERM, SIGHUP), or 0 */
    bool output_lost;       /* what the program printed could not be written: */
    struct ms_error output; /* which stream (its path is "stdout" or "stderr"), and why */
};

/* Carries bytes until the process has settled. May be called again, for another process with the same descriptors, as long
 * as none was ever started behind them. 0, or -1 with `error` filled: nothing was carried, the process runs. */
int ms_relay_run(struct ms_relay *relay, struct ms_process *process, struct ms_relayed *relayed,
                 struct ms_error *error);

void ms_relay_close(struct ms_relay *relay);

#endif
