/* The command's environment: the launcher's, with what it was told to set and to leave out. */
#ifndef MOONSAND_ENVIRONMENT_H
#define MOONSAND_ENVIRONMENT_H

#include "options.h"

/* A new array for execve, or NULL when there is no memory. Nothing of it is read by the launcher itself. */
char **environment_for_command(const struct options *options, char **environment);

#endif
