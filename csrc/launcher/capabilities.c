/* What it takes to be without capabilities for good: the three sets emptied, the ambient one with them, and no_new_privs, set
 * elsewhere, under which an exec adds nothing to the permitted set, whatever the file or the user id. The bounding set is
 * then idle; dropping it takes a system call for each of forty capabilities. */
#include "capabilities.h"
#include "kernel.h"

#include <sys/prctl.h>
#include <unistd.h>

#define FOR_MOUNTS (UINT32_C(1) << 21) /* CAP_SYS_ADMIN */

static bool get(struct capability_sets sets[2])
{
    struct capability_header header = { .version = CAPABILITY_VERSION };
    return syscall(SYS_capget, &header, sets) == 0;
}

static bool empty(const struct capability_sets sets[2])
{
    uint32_t any = 0;
    for (int i = 0; i < 2; i++)
        any |= sets[i].effective | sets[i].permitted | sets[i].inheritable;
    return any == 0;
}

bool capabilities_drop(struct failure *failure)
{
    struct capability_sets sets[2];
    if (!get(sets))
        return fail(failure, MS_STAGE_CAPABILITIES, NULL);
    if (empty(sets))
        return true;
    struct capability_header header = { .version = CAPABILITY_VERSION };
    struct capability_sets none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    if (syscall(SYS_capset, &header, none) != 0)
        return fail(failure, MS_STAGE_CAPABILITIES, NULL);
    return true;
}

bool capabilities_expect_none(struct failure *failure)
{
    struct capability_sets sets[2];

    if (!get(sets))
        return fail(failure, MS_STAGE_EXPECT_NO_CAPABILITIES, NULL);
    sets[0].effective &= ~FOR_MOUNTS;
    sets[0].permitted &= ~FOR_MOUNTS;
    sets[0].inheritable &= ~FOR_MOUNTS;
    if (!empty(sets) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        errno = EPERM;
        return fail(failure, MS_STAGE_EXPECT_NO_CAPABILITIES, NULL);
    }
    return true;
}
