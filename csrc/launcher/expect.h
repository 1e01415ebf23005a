/* What the launcher's runner should have established, looked at instead of believed. */
#ifndef MOONSAND_EXPECT_H
#define MOONSAND_EXPECT_H

#include "failure.h"
#include "options.h"

/* Checks every expectation of the options; the first that does not hold is the failure. */
bool expect_all(const struct options *options, struct failure *failure);

#endif
