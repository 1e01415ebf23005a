/* Starting the launcher's one child. child_linux.c and child_darwin.c. */
#ifndef MOONSAND_CHILD_H
#define MOONSAND_CHILD_H

#include "failure.h"

#include <stdbool.h>
#include <sys/types.h>

/* What runs in the child: it execs, or fills in the failure and returns. */
typedef void child_body(void *context, struct failure *failure);

/* Runs `body` in a new process, and returns once it has exec'd (its pid), or failed (0, the failure filled in, nothing
 * left of it), or could not be made at all (0, stage fork). */
pid_t child_start(child_body *body, void *context, struct failure *failure);

/* Marks every descriptor from 3 on to be closed by exec. In the child. */
void child_close_inherited(void);

/* Asks for the child's death when the launcher, `parent`, dies. False: it is dead already, and the child should be too. In
 * the child. */
bool child_die_with_parent(pid_t parent);

#endif
