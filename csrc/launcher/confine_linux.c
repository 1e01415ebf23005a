/* Linux: Landlock and the fence where the launcher is the runner; verification, and the fence for uid 0, where it stands
 * inside another runner. */
#include "broker.h"
#include "capabilities.h"
#include "confine.h"
#include "expect.h"
#include "fence.h"
#include "landlock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIPE_FILE_SYSTEM 0x50495045 /* PIPEFS_MAGIC */

static struct filter_program program;

/* Where the mounts govern metadata, the broker is there for the device nodes alone. */
static const char *everywhere[] = { "/" };

/* A directory among the grants to write: its metadata may change, so that the fence must ask. */
static bool grants_directory(const struct list *read_write)
{
    struct stat status;
    for (size_t i = 0; i < read_write->count; i++)
        if (stat(read_write->items[i], &status) == 0 && S_ISDIR(status.st_mode))
            return true;
    return false;
}

static bool prepare_landlock(struct confinement *confinement, const struct options *options, struct fence *fence,
                             struct failure *failure)
{
    confinement->abi = landlock_abi();
    if (confinement->abi == 0)
        return fail(failure, MS_STAGE_LANDLOCK, NULL);
    confinement->gaps |= landlock_gaps(confinement->abi);
    if (!landlock_prepare(&confinement->ruleset, confinement->abi, options, failure))
        return false;
    confinement->roots = options->read_write;
    fence->landlock = true;
    fence->file_ioctls = true;
    fence->refusal = EACCES;
    fence->metadata = grants_directory(&options->read_write) ? METADATA_ASKED : METADATA_DENIED;
    fence->guarded = confinement->abi < 6 ? (int32_t)getpid() : 0;
    return true;
}

/* A descriptor from outside the runner's mounts leads back outside: what it is open on can be opened again for writing,
 * and its metadata changed. Pipes without a name, sockets and terminals lead nowhere. */
static bool standard_descriptors_harmless(int from, struct failure *failure)
{
    for (int fd = from; fd <= 2; fd++) {
        struct stat status;
        struct statfs system;
        bool named = fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) ||
                                                 S_ISBLK(status.st_mode) || S_ISLNK(status.st_mode));
        bool fifo =
            !named && S_ISFIFO(status.st_mode) && fstatfs(fd, &system) == 0 && system.f_type != PIPE_FILE_SYSTEM;

        if (named || fifo) {
            errno = EXDEV;
            return fail(failure, MS_STAGE_STDIO, NULL);
        }
    }
    return true;
}

/* Whether a crash makes somebody outside write a file, or leaves one in a fixed place (core(5)). */
static bool core_goes_elsewhere(void)
{
    char first = '|';
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (read(fd, &first, 1) != 1)
            first = '|';
        close(fd);
    }
    return first == '|' || first == '/' || first == '@';
}

/* The places that a runner around this one left writable, as one list. */
static bool gather_writable(struct confinement *confinement, const struct options *options, struct failure *failure)
{
    static const char *places[32];
    const struct list *lists[] = { &options->writable, &options->bound };
    struct list *roots = &confinement->roots;

    *roots = (struct list){ .items = places };
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < lists[list]->count; i++) {
            if (roots->count == sizeof places / sizeof places[0]) {
                errno = E2BIG;
                return fail(failure, MS_STAGE_BROKER, NULL);
            }
            places[roots->count++] = lists[list]->items[i];
        }
    return true;
}

/* Inside another runner, Landlock is a second wall where the kernel has it: a read-only mount stops neither the writing to
 * another process's named pipe nor what an inherited descriptor leads back to. And where mounts that are made later do
 * appear, it governs what they hold, and the broker their metadata. */
static bool prepare_inside(struct confinement *confinement, const struct options *options, struct fence *fence,
                           struct failure *failure)
{
    bool late_mounts = false;
    int abi = landlock_abi();

    if (options->expectations & EXPECT_READ_ONLY)
        expect_private_mounts();
    if (!expect_all(options, &late_mounts, failure))
        return false;
    if (options->expectations != 0 && !standard_descriptors_harmless(options->stdin_null ? 1 : 0, failure))
        return false;
    if (!(options->expectations & EXPECT_READ_ONLY))
        return true;
    if (late_mounts && abi > 0) {
        fence->metadata = METADATA_ASKED;
        fence->file_ioctls = true;
        if (!gather_writable(confinement, options, failure))
            return false;
    } else if (late_mounts) {
        confinement->gaps |= MS_GAP_LATE_MOUNT;
    }
    return abi == 0 || landlock_prepare_inside(&confinement->ruleset, abi, options, failure);
}

bool confinement_prepare(struct confinement *confinement, const struct options *options, struct failure *failure)
{
    *confinement = (struct confinement){ .wanted = options_confine(options), .ruleset = -1, .listener = -1 };
    if (!confinement->wanted)
        return true;
    /* uid 0 owns the device nodes that a runner must leave writable: a mount cannot keep their metadata, the broker can. */
    bool user_zero = geteuid() == 0 || getuid() == 0;
    struct fence fence = {
        .metadata = user_zero ? METADATA_ASKED : METADATA_FREE,
        .user_zero = user_zero,
        .refusal = EROFS,
    };
    bool landlock = options->read_only.count > 0 || options->read_write.count > 0;
    confinement->roots = (struct list){ .items = everywhere, .count = 1 };
    confinement->no_core = core_goes_elsewhere();
    if (landlock ? !expect_all(options, &(bool){ false }, failure) ||
                       !prepare_landlock(confinement, options, &fence, failure)
                 : !prepare_inside(confinement, options, &fence, failure))
        return false;
    confinement->brokered = fence.metadata == METADATA_ASKED;
    if (!fence_build(&fence, &program, failure))
        return false;
    /* The broker must not be able to do more than the command could by itself. */
    return capabilities_drop(failure);
}

bool confinement_enter(struct confinement *confinement, struct failure *failure)
{
    /* A limit of one byte, and not of none, is what also keeps the kernel from starting a handler (core(5)). */
    const struct rlimit no_core = { .rlim_cur = 1, .rlim_max = 1 };

    if (!confinement->wanted)
        return true;
    if (confinement->no_core)
        setrlimit(RLIMIT_CORE, &no_core); /* lowering a limit is always allowed; a lower one is as good */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail(failure, MS_STAGE_NO_NEW_PRIVS, NULL);
    if (confinement->ruleset >= 0 && !landlock_enter(confinement->ruleset, failure))
        return false;
    return fence_enter(&program, confinement->brokered ? &confinement->listener : NULL, failure);
}

void confinement_serve(struct confinement *confinement)
{
    if (broker_serve(confinement->listener, &confinement->roots, confinement->abi > 0 ? EACCES : EROFS))
        return;
    close(confinement->listener);
    confinement->listener = -1;
}

static int unusable(const char *what, int error)
{
    fprintf(stderr, "moonsand-launch: %s: %s\n", what, strerror(error));
    return 125;
}

int confinement_probe(void)
{
    const char *root[] = { "/" };
    struct options options = { .read_only = { .items = root, .count = 1 }, .report_fd = -1 };
    struct confinement confinement;
    struct failure failure = { 0 };
    if (!confinement_prepare(&confinement, &options, &failure) || !confinement_enter(&confinement, &failure))
        return unusable("landlock", failure.error);
    /* The proof, and not only the kernel's word: what was just forbidden fails. */
    if (open("/dev/null", O_WRONLY | O_CLOEXEC) >= 0 || errno != EACCES)
        return unusable("landlock", ENOTSUP);
    if (fchmod(STDERR_FILENO, 0600) == 0 || errno != EACCES)
        return unusable("fence", ENOTSUP);
    printf("landlock: %s (abi %d)\n", confinement.gaps ? "partial" : "full", confinement.abi);
    return fflush(stdout) == 0 ? 0 : 125;
}
