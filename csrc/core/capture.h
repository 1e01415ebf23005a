/* One output stream: a bounded tail in memory, the whole in a spill file.
 *
 * Relies on: the caller's lock (a capture has none), and on a non-blocking descriptor.
 * Promises: the last `limit` bytes are in memory. The first byte that would be lost opens the spill file, and the whole
 * stream goes there, up to `max_spill` bytes; a longer stream discards it. A spill that fails is discarded too, and never
 * costs a byte of the tail. Memory grows with the output, up to a few hundred bytes over the limit (to one page, where the
 * limit is smaller than that). */
#ifndef MOONSAND_CAPTURE_H
#define MOONSAND_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spill.h"

enum ms_spill_state {
    MS_SPILL_NOT_NEEDED, /* everything is in the tail */
    MS_SPILL_COMPLETE,   /* the file holds every byte of the stream so far */
    MS_SPILL_NONE,       /* bytes were lost, and the caller wanted no spill */
    MS_SPILL_TOO_LARGE,  /* bytes were lost: the stream was longer than `max_spill` */
    MS_SPILL_FAILED      /* bytes were lost: `spill_error` says why */
};

struct ms_capture {
    unsigned char *ring;
    size_t size;  /* of the ring, now */
    size_t limit; /* what the tail promises to hold */
    uint64_t total;
    uint64_t max_spill;
    struct ms_spill_dir *spill_dir; /* where a spill would go, or NULL */
    struct ms_spill spill;
    int spill_error;
    uint8_t spill_state;  /* enum ms_spill_state */
    bool widened;         /* the pipe was made larger */
    bool short_of_memory; /* the ring could not grow */
    const char *prefix;   /* of the spill file's name */
};

enum ms_capture_result {
    MS_CAPTURE_DRAINED, /* nothing is left in the pipe for now */
    MS_CAPTURE_MORE,    /* the budget is used up, there may be more */
    MS_CAPTURE_END      /* end of the stream, or an error that ends it */
};

/* `spill` NULL: none. Allocates nothing. */
void ms_capture_init(struct ms_capture *capture, size_t limit, struct ms_spill_dir *spill, uint64_t max_spill,
                     const char *prefix);

/* Reads from `fd` until it would block, ends, or `budget` bytes were read. Straight into the ring. */
enum ms_capture_result ms_capture_fill(struct ms_capture *capture, int fd, size_t budget);

/* The stream is over: the spill file is closed. */
void ms_capture_close(struct ms_capture *capture);

/* Copies up to `size` bytes from stream offset `offset` on. `*next` is the offset after them, `*lost` how many bytes
 * between `offset` and the first one copied are in memory no more. Consumes nothing. `buffer` may be NULL: then only
 * counts (what is there, whatever `size`). */
size_t ms_capture_read(const struct ms_capture *capture, uint64_t offset, void *buffer, size_t size, uint64_t *next,
                       uint64_t *lost);

/* Frees the memory. Leaves a complete spill file where it is. */
void ms_capture_free(struct ms_capture *capture);

#endif
