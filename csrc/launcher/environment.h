/* The command's environment: the launcher's, with what it was told to set and to leave out. */
#ifndef MOONSAND_ENVIRONMENT_H
#define MOONSAND_ENVIRONMENT_H

#include "options.h"

/* How many pointers `environment_for_command` writes at the most. */
size_t environment_room(const struct options *options, char **environment);

/* Fills `result` for execve. Nothing of the environment is read by the launcher itself. */
void environment_for_command(const struct options *options, char **environment, char **result);

#endif
