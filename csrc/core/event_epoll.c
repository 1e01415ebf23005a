/* Waiting for things to happen on Linux: epoll, pidfds, an eventfd to be woken by. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "event.h"

int ms_events_open(struct ms_events *events)
{
    events->queue = epoll_create1(EPOLL_CLOEXEC);
    if (events->queue < 0)
        return errno;
    events->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = NULL } };
    if (events->wake >= 0 && epoll_ctl(events->queue, EPOLL_CTL_ADD, events->wake, &event) == 0)
        return 0;
    int failed = errno;
    ms_events_close(events);
    return failed;
}

void ms_events_close(struct ms_events *events)
{
    if (events->queue >= 0)
        close(events->queue);
    if (events->wake >= 0)
        close(events->wake);
    events->queue = events->wake = -1;
}

int ms_events_watch(struct ms_events *events, struct ms_source *source, const struct ms_child *child)
{
    (void)child; /* the source's descriptor is its pidfd */
    struct epoll_event event = { .events = source->kind == MS_SOURCE_WRITE ? EPOLLOUT : EPOLLIN,
                                 .data = { .ptr = source } };
    return epoll_ctl(events->queue, EPOLL_CTL_ADD, source->fd, &event) != 0 ? errno : 0;
}

/* To close the descriptor would not do: a child of another thread that has not executed yet may still have it open, and
 * then the registration would stay. */
void ms_events_forget(struct ms_events *events, struct ms_source *source, const struct ms_child *child)
{
    (void)child;
    struct epoll_event unused = { .events = 0 };
    epoll_ctl(events->queue, EPOLL_CTL_DEL, source->fd, &unused);
}

int ms_events_wait(struct ms_events *events, struct ms_source **ready, int size, int timeout_ms)
{
    struct epoll_event found[64];
    int count = epoll_wait(events->queue, found, size < 64 ? size : 64, timeout_ms);
    int sources = 0;
    for (int i = 0; i < count; i++) {
        if (found[i].data.ptr != NULL) {
            ready[sources++] = found[i].data.ptr;
        } else {
            uint64_t wakes;
            (void)!read(events->wake, &wakes, sizeof wakes);
        }
    }
    return sources;
}

void ms_events_wake(struct ms_events *events)
{
    uint64_t one = 1;
    (void)!write(events->wake, &one, sizeof one);
}

/* Refused to unprivileged users who have many large pipes (pipe(7), pipe-user-pages-soft). */
void ms_pipe_widen(int fd, int size)
{
    fcntl(fd, F_SETPIPE_SZ, size);
}

int ms_flag_open(int fds[2])
{
    fds[0] = fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fds[0] < 0 ? errno : 0;
}

void ms_flag_raise(const int fds[2])
{
    uint64_t one = 1;
    (void)!write(fds[1], &one, sizeof one);
}

void ms_flag_lower(const int fds[2])
{
    uint64_t count;
    (void)!read(fds[0], &count, sizeof count);
}
