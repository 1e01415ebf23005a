/* Spill files: where the whole of a stream goes that does not fit its tail in memory.
 *
 * Relies on: a base directory that the caller chose (on disk, where confined commands can read but never write).
 * Promises: below the base each host has one directory of its own, 0700, with a random name, made when the first spill
 * needs it. Its files are 0600 with random names. The base must belong to the effective user, must not be writable by
 * anyone else, and must not be a symbolic link; otherwise there is no spill. All work below it is by *at() calls.
 * What dead hosts left behind is removed when a base is opened; the directories of `keep` hosts only after a day.
 *
 *     BASE/host-<random>/       removed when the host ends
 *     BASE/kept-<random>/       stays for a day: a one-shot command line printed a path into it
 *         .lock                 locked with flock(2) while the host lives
 *         stdout-<random>, stderr-<random>
 */
#ifndef MOONSAND_SPILL_H
#define MOONSAND_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define MS_SPILL_NAME_SIZE 28

struct ms_spill_dir;

/* One spill file. All zero is "no file". */
struct ms_spill {
    struct ms_spill_dir *dir;
    int fd; /* -1 when closed */
    char name[MS_SPILL_NAME_SIZE];
};

/* The directory of this host below `base`. Touches no disk. The same base and `keep` give the same directory, and it
 * lives until the host ends. NULL (errno) without memory, or when `base` is not an absolute path. */
struct ms_spill_dir *ms_spill_dir(const char *base, bool keep);

/* Opens a new file; its directory is made when it is not there. 0 or an errno. */
int ms_spill_create(struct ms_spill *spill, struct ms_spill_dir *dir, const char *prefix);

/* Appends all of it. 0 or an errno; never raises SIGXFSZ, whatever thread it is called on. */
int ms_spill_append(struct ms_spill *spill, struct iovec *parts, int count);

/* Closes it; the file stays until the host ends. */
void ms_spill_close(struct ms_spill *spill);

/* Closes and unlinks it. */
void ms_spill_discard(struct ms_spill *spill);

/* Its absolute path. The length, or 0 when it does not fit in `size` bytes with its NUL. */
size_t ms_spill_path(const struct ms_spill *spill, char *buffer, size_t size);

/* Removes what dead hosts left below `base` (see above). Called when a base is first used; callable at any time. */
void ms_spill_sweep(const char *base);

/* The host ends: removes the directories that are not kept. Called by the supervisor at exit; tests call it. */
void ms_spill_end(void);

/* Around fork(2): see supervisor.h. */
void ms_spill_fork_prepare(void);
void ms_spill_fork_parent(void);
void ms_spill_fork_child(void);

#endif
