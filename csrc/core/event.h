/* What differs between Linux and macOS in waiting for things to happen, and nothing else.
 *
 * Implemented by event_epoll.c and event_kqueue.c. All of it is level-triggered. Everything may be called from any
 * thread, also while another one waits. A source may be reported once more after it was forgotten (when the waiting
 * thread had already fetched it): so it must stay allocated until that thread has gone around once. */
#ifndef MOONSAND_EVENT_H
#define MOONSAND_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spawn.h"

struct ms_events {
    int queue;
    int wake; /* an eventfd; -1 where the queue itself can be woken */
};

enum ms_source_kind { MS_SOURCE_READ, MS_SOURCE_WRITE, MS_SOURCE_EXIT };

struct ms_task;

/* Something to wait for. `fd` belongs to the owner of the source. */
struct ms_source {
    struct ms_task *task;
    int fd;       /* -1: closed. For MS_SOURCE_EXIT on systems without pidfds: not a descriptor at all */
    uint8_t kind; /* enum ms_source_kind */
    uint8_t role; /* the owner's own */
    bool watched;
};

/* 0 or an errno. */
int ms_events_open(struct ms_events *events);
void ms_events_close(struct ms_events *events);

/* 0 or an errno. For MS_SOURCE_EXIT `child` is the process, otherwise NULL. */
int ms_events_watch(struct ms_events *events, struct ms_source *source, const struct ms_child *child);
void ms_events_forget(struct ms_events *events, struct ms_source *source, const struct ms_child *child);

/* Waits until something happens, at most `timeout_ms` (negative: for ever). Fills `ready` with up to `size` sources and
 * returns their number; 0 after a timeout, a wake-up or a signal. */
int ms_events_wait(struct ms_events *events, struct ms_source **ready, int size, int timeout_ms);

/* Makes the current or the next ms_events_wait return. */
void ms_events_wake(struct ms_events *events);

/* Lets a pipe hold more, where the system can do that. A wish. */
void ms_pipe_widen(int fd, int size);

/* A flag that poll(2) can wait for: `fds[0]` is readable while it is raised. 0 or an errno. */
int ms_flag_open(int fds[2]);
void ms_flag_raise(const int fds[2]);
void ms_flag_lower(const int fds[2]);

#endif
