/* The fence: system calls that change file metadata, or open a way around the confinement, which neither Landlock nor
 * a mount can govern. A seccomp filter (seccomp(2)), built from a table. */
#ifndef MOONSAND_FENCE_H
#define MOONSAND_FENCE_H

#include "failure.h"
#include "kernel.h"

#include <stdint.h>

enum metadata {
    METADATA_FREE,   /* the runner governs it (a read-only mount does) */
    METADATA_DENIED, /* nobody may change any */
    METADATA_ASKED,  /* the broker decides call by call */
};

struct fence {
    enum metadata metadata;
    bool landlock;    /* also close what goes past Landlock's hooks */
    bool file_ioctls; /* also what file systems change through ioctls on a descriptor opened for reading */
    bool user_zero;   /* also close what only uid 0 could do with a new user namespace */
    int refusal;      /* the errno of what is denied: the runner's own, EACCES or EROFS */
    int32_t guarded;  /* a pid that must not be signalled from inside; 0: none */
};

/* The filter's instructions stay valid until the next call: there is one fence in a launcher. False: it is longer than a
 * filter's branches reach (E2BIG). */
bool fence_build(const struct fence *fence, struct filter_program *program, struct failure *failure);

/* Puts the calling process behind it, for good. With `listener`, the descriptor that the broker listens on goes there. */
bool fence_enter(const struct filter_program *program, int *listener, struct failure *failure);

#endif
