/* The one clock of the core: CLOCK_MONOTONIC in milliseconds. Deadlines and durations are in it, and nothing else is. */
#ifndef MOONSAND_CLOCK_H
#define MOONSAND_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A deadline that never comes. */
#define MS_NEVER INT64_MAX

static inline int64_t ms_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* `ms_clock() + milliseconds`, never overflowing: what is too far away is MS_NEVER. */
static inline int64_t ms_clock_after(int64_t now, int64_t milliseconds)
{
    return milliseconds >= MS_NEVER - now ? MS_NEVER : now + milliseconds;
}

#endif
