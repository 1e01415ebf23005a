/* The command's process tree, of which the launcher is the root: every descendant that loses its parent becomes its
 * child (pid 1 of a namespace, or a child subreaper). tree_linux.c and tree_darwin.c. */
#ifndef MOONSAND_TREE_H
#define MOONSAND_TREE_H

#include "failure.h"

#include <sys/types.h>

/* Makes the calling process the tree's root. */
bool tree_adopt(struct failure *failure);

/* Takes what ending the tree will need. Once the command is on its way: looking it up takes the kernel a while. */
void tree_prepare(void);

/* Sends the signal to every descendant there is now, but to nothing else: a pid is signalled only while it is certain
 * to be a descendant's. `command` leads the command's process group. */
void tree_signal(pid_t command, int signal);

/* SIGKILL to every child there is now; how many that were. A killed child's own children become ours, so that calling
 * again until none is left ends the whole tree. */
int tree_kill_children(pid_t command);

#endif
