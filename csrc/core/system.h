/* What spawn.c needs from the system it runs on: spawn_linux.c or spawn_darwin.c. Private to these three. */
#ifndef MOONSAND_SYSTEM_H
#define MOONSAND_SYSTEM_H

#include "spawn.h"

/* Everything the child needs, prepared by the parent: the child itself only makes system calls. */
struct ms_start {
    const char *const *argv;
    const char *const *envp;
    const char *cwd;
    int stdio[3]; /* the child's ends: each above MS_REPORT_FD, or already where it belongs; or MS_STDIO_NULL */
    int report;   /* above MS_REPORT_FD, or -1 */
    bool die_with_host;
};

/* Both ends close-on-exec. 0 or an errno. The first end is the caller's. (ms_pipe is the system's, too.) */
int ms_system_socketpair(int ends[2]);

/* Starts the process. 0, or the errno with `*stage` set; then no process and no zombie is left. */
int ms_system_start(const struct ms_start *start, struct ms_child *child, enum ms_stage *stage);

#endif
