/* macOS: the launcher stands inside Seatbelt (sandbox-exec), which confines; it adds nothing, and looks whether the
 * kernel says that this process is sandboxed. Grants need Landlock, which is Linux. */
#include "confine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* libsystem_sandbox: 1 when the process is under any profile; with an operation, when that is denied. */
extern int sandbox_check(pid_t pid, const char *operation, int filter, ...);

bool confinement_prepare(struct confinement *confinement, const struct options *options, struct failure *failure)
{
    *confinement = (struct confinement){ .wanted = options_confine(options), .ruleset = -1, .listener = -1 };
    if (!confinement->wanted)
        return true;
    if (options->read_only.count > 0 || options->read_write.count > 0) {
        errno = ENOTSUP;
        return fail(failure, MS_STAGE_LANDLOCK, NULL);
    }
    if (options->expectations & EXPECT_PID_1) {
        errno = ENOTSUP;
        return fail(failure, MS_STAGE_EXPECT_PID_1, NULL);
    }
    if ((options->expectations & EXPECT_READ_ONLY) && sandbox_check(getpid(), NULL, 0) != 1) {
        errno = EPERM;
        return fail(failure, MS_STAGE_EXPECT_READ_ONLY, NULL);
    }
    if (!(options->expectations & EXPECT_READ_ONLY))
        confinement->gaps |= MS_GAP_UNCHECKED;
    return true;
}

bool confinement_enter(struct confinement *confinement, struct failure *failure)
{
    (void)confinement;
    (void)failure;
    return true;
}

void confinement_serve(struct confinement *confinement)
{
    (void)confinement;
}

int confinement_probe(void)
{
    fprintf(stderr, "moonsand-launch: landlock: %s\n", strerror(ENOTSUP));
    return 125;
}
