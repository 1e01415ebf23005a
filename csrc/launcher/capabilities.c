/* What it takes to be without capabilities for good: the bounding set first (dropping from it needs one that the last
 * step gives up), then the ambient set, then the other three. no_new_privs, set elsewhere, keeps an exec from giving
 * any back. */
#include "capabilities.h"
#include "kernel.h"

#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif

static bool get(struct capability_sets sets[2]) {
    struct capability_header header = {.version = CAPABILITY_VERSION};
    return syscall(SYS_capget, &header, sets) == 0;
}

static bool empty(const struct capability_sets sets[2]) {
    uint32_t any = 0;
    for (int i = 0; i < 2; i++)
        any |= sets[i].effective | sets[i].permitted | sets[i].inheritable;
    return any == 0;
}

bool capabilities_drop(struct failure *failure) {
    struct capability_sets sets[2];
    if (!get(sets))
        return fail(failure, MS_STAGE_CAPABILITIES, NULL);
    if (empty(sets))
        return true; /* no permitted capability: the bounding set bounds nothing under no_new_privs */
    for (unsigned long c = 0; c <= CAPABILITY_LAST; c++)
        if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0) {
            if (errno == EINVAL)
                break; /* past the last one that this kernel knows */
            if (errno != EPERM) /* no CAP_SETPCAP: the set stays, and no_new_privs makes it idle */
                return fail(failure, MS_STAGE_CAPABILITIES, NULL);
        }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct capability_header header = {.version = CAPABILITY_VERSION};
    struct capability_sets none[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capset, &header, none) != 0)
        return fail(failure, MS_STAGE_CAPABILITIES, NULL);
    return true;
}

bool capabilities_expect_none(struct failure *failure) {
    struct capability_sets sets[2];
    if (!get(sets))
        return fail(failure, MS_STAGE_EXPECT_NO_CAPABILITIES, NULL);
    if (!empty(sets) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        errno = EPERM;
        return fail(failure, MS_STAGE_EXPECT_NO_CAPABILITIES, NULL);
    }
    return true;
}
