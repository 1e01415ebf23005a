/* The Landlock ruleset: Documentation/userspace-api/landlock.rst. */
#ifndef MOONSAND_LANDLOCK_H
#define MOONSAND_LANDLOCK_H

#include "failure.h"
#include "options.h"

/* The newest ABI of this kernel, or 0 with errno: ENOSYS (not built), EOPNOTSUPP (built, not enabled at boot). */
int landlock_abi(void);

/* What of the file effects an ABI leaves open: MS_GAP_*. */
uint32_t landlock_gaps(int abi);

/* Builds the ruleset for a command inside another runner, whose mounts do most of the work: what the runner left
 * writable stays so. What is mounted later, what another process offers in a named pipe, and what an inherited descriptor
 * leads back to, is none of it. */
bool landlock_prepare_inside(int *ruleset, int abi, const struct options *options, struct failure *failure);

/* Builds the ruleset for the grants: everything that the ABI governs is handled, the grants alone are allowed. */
bool landlock_prepare(int *ruleset, int abi, const struct options *options, struct failure *failure);

/* Puts the calling process under the ruleset, for good. Wants no_new_privs. */
bool landlock_enter(int ruleset, struct failure *failure);

#endif
