/* Capabilities: capabilities(7). A confined command has none, whoever its user is. */
#ifndef MOONSAND_CAPABILITIES_H
#define MOONSAND_CAPABILITIES_H

#include "failure.h"

/* Empties every set of the calling process for good. Without any capability this is a few calls that change nothing. */
bool capabilities_drop(struct failure *failure);

/* Refuses (EPERM) while the calling process holds a capability other than CAP_SYS_ADMIN, which its runner leaves it for
 * `mounts_make_private` and which it drops, or could gain one by an exec. */
bool capabilities_expect_none(struct failure *failure);

#endif
