/* What the launcher's runner should have established, looked at instead of believed. */
#ifndef MOONSAND_EXPECT_H
#define MOONSAND_EXPECT_H

#include "failure.h"
#include "options.h"

/* Takes this mount namespace out of all peer groups, where the runner has left the capability for it: nothing that is
 * mounted outside from now on appears inside. Whether it worked shows in what `expect_all` finds. */
void expect_private_mounts(void);

/* Checks every expectation of the options; the first that does not hold is the failure. `late_mounts`: whether what is
 * mounted outside from now on may appear inside, as it was mounted there. */
bool expect_all(const struct options *options, bool *late_mounts, struct failure *failure);

#endif
