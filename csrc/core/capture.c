/* One output stream: see capture.h.
 *
 * The byte at stream offset N lives at ring[N % size]. While the ring still grows the stream fits in it, so nothing has
 * wrapped and it can be moved as it is. The ring is a little larger than the tail it promises: so it can be seen that
 * something is about to be lost while all of it is still here to be spilled. */
#include "capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "event.h"

enum {
    FIRST_SIZE = 4096,
    SLACK = 512,           /* over the limit; at least one byte is needed */
    PIPE_SIZE = 64 * 1024, /* what a pipe holds, unless made larger */
    WIDE_PIPE = 256 * 1024
};

void ms_capture_init(struct ms_capture *capture, size_t limit, struct ms_spill_dir *spill, uint64_t max_spill,
                     const char *prefix)
{
    *capture = (struct ms_capture){
        .limit = limit,
        .max_spill = max_spill,
        .spill_dir = max_spill > 0 ? spill : NULL,
        .spill = { .fd = -1 },
        .spill_state = MS_SPILL_NOT_NEEDED,
        .prefix = prefix,
    };
}

static size_t ring_limit(const struct ms_capture *capture)
{
    return capture->limit + SLACK > FIRST_SIZE ? capture->limit + SLACK : FIRST_SIZE;
}

/* Doubles the ring, up to its limit. False without memory. */
static bool grow(struct ms_capture *capture)
{
    size_t most = ring_limit(capture);
    size_t size = capture->size == 0 ? FIRST_SIZE : capture->size * 2;
    if (size > most || most - size < size / 4) /* rather one step than two */
        size = most;
    unsigned char *ring = realloc(capture->ring, size);
    if (ring == NULL)
        return false;
    capture->ring = ring;
    capture->size = size;
    return true;
}

/* The ring's bytes from stream offset `from` to `to` in at most two parts. */
static int parts_of(const struct ms_capture *capture, uint64_t from, uint64_t to, struct iovec parts[2])
{
    size_t length = (size_t)(to - from);
    size_t start = (size_t)(from % capture->size);
    size_t first = capture->size - start < length ? capture->size - start : length;
    parts[0] = (struct iovec){ .iov_base = capture->ring + start, .iov_len = first };
    parts[1] = (struct iovec){ .iov_base = capture->ring, .iov_len = length - first };
    return length > first ? 2 : 1;
}

static void give_up_spill(struct ms_capture *capture, enum ms_spill_state why, int error)
{
    ms_spill_discard(&capture->spill);
    capture->spill_state = (uint8_t)why;
    capture->spill_error = error;
}

/* After bytes came in: `before` was the total until then. All bytes from `before` on are in the ring, and, as long as
 * nothing was lost, those before it too. */
static void spill_new(struct ms_capture *capture, uint64_t before)
{
    if (capture->spill_state == MS_SPILL_NOT_NEEDED) {
        if (capture->total <= capture->limit)
            return;
        before = 0;
        if (capture->spill_dir == NULL) {
            capture->spill_state = MS_SPILL_NONE;
            return;
        }
        capture->spill_state = MS_SPILL_COMPLETE;
        int failed = 0;
        if (capture->total <= capture->max_spill)
            failed = ms_spill_create(&capture->spill, capture->spill_dir, capture->prefix);
        if (failed != 0)
            give_up_spill(capture, MS_SPILL_FAILED, failed);
    }
    if (capture->spill_state != MS_SPILL_COMPLETE)
        return;
    if (capture->total > capture->max_spill) {
        give_up_spill(capture, MS_SPILL_TOO_LARGE, 0);
        return;
    }
    struct iovec parts[2];
    int count = parts_of(capture, before, capture->total, parts);
    int failed = ms_spill_append(&capture->spill, parts, count);
    if (failed != 0)
        give_up_spill(capture, MS_SPILL_FAILED, failed);
}

/* Out of memory: the tail promises what it has, the rest is lost to it. The command must not block for that. */
static void settle_for_less(struct ms_capture *capture)
{
    capture->limit = capture->size > SLACK ? capture->size - SLACK : 0;
    if (capture->size == 0) {
        give_up_spill(capture, MS_SPILL_FAILED, ENOMEM);
        return;
    }
    spill_new(capture, capture->total);
}

/* Where the next bytes go: at most two parts. Returns their size. */
static size_t room_for_more(struct ms_capture *capture, struct iovec parts[2], int *count)
{
    if (capture->total >= capture->size && capture->size < ring_limit(capture) && !capture->short_of_memory &&
        !grow(capture)) {
        capture->short_of_memory = true;
        settle_for_less(capture);
    }
    if (capture->size == 0) {
        static unsigned char nowhere[4096]; /* never read */
        parts[0] = (struct iovec){ .iov_base = nowhere, .iov_len = sizeof nowhere };
        *count = 1;
        return sizeof nowhere;
    }
    size_t room = capture->total < capture->size ? capture->size - (size_t)capture->total : capture->size;
    *count = parts_of(capture, capture->total, capture->total + room, parts);
    return room;
}

enum ms_capture_result ms_capture_fill(struct ms_capture *capture, int fd, size_t budget)
{
    size_t taken = 0;
    while (taken < budget) {
        struct iovec parts[2];
        int count;
        size_t room = room_for_more(capture, parts, &count);
        ssize_t got = readv(fd, parts, count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? MS_CAPTURE_DRAINED : MS_CAPTURE_END;
        if (got == 0)
            return MS_CAPTURE_END;
        uint64_t before = capture->total;
        capture->total += (uint64_t)got;
        taken += (size_t)got;
        spill_new(capture, before);
        if (!capture->widened && capture->total >= PIPE_SIZE) {
            /* Longer than a pipe: larger pieces mean fewer changes between the two processes. */
            capture->widened = true;
            ms_pipe_widen(fd, WIDE_PIPE);
        }
        if ((size_t)got < room) /* a pipe gives all it has */
            return MS_CAPTURE_DRAINED;
    }
    return MS_CAPTURE_MORE;
}

void ms_capture_close(struct ms_capture *capture)
{
    ms_spill_close(&capture->spill);
}

size_t ms_capture_read(const struct ms_capture *capture, uint64_t offset, void *buffer, size_t size, uint64_t *next,
                       uint64_t *lost)
{
    uint64_t kept = capture->total < capture->limit ? capture->total : capture->limit;
    uint64_t first = capture->total - kept;
    *lost = offset < first ? first - offset : 0;
    if (offset < first)
        offset = first;
    if (offset > capture->total)
        offset = capture->total;
    size_t length = (size_t)(capture->total - offset);
    if (buffer != NULL && length > size)
        length = size;
    *next = offset + length;
    if (buffer != NULL && length > 0) {
        struct iovec parts[2];
        int count = parts_of(capture, offset, *next, parts);
        memcpy(buffer, parts[0].iov_base, parts[0].iov_len);
        if (count == 2)
            memcpy((unsigned char *)buffer + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    }
    return length;
}

void ms_capture_free(struct ms_capture *capture)
{
    ms_capture_close(capture);
    free(capture->ring);
    capture->ring = NULL;
    capture->size = 0;
    capture->limit = 0;
}
