/* Waiting for things to happen on macOS: kqueue, EVFILT_PROC for the end of a child, EVFILT_USER to be woken by. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/event.h>
#include <sys/time.h>
#include <unistd.h>

#include "event.h"

int ms_events_open(struct ms_events *events)
{
    events->wake = -1;
    events->queue = kqueue();
    if (events->queue < 0)
        return errno;
    struct kevent change;
    EV_SET(&change, 0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0, NULL);
    if (fcntl(events->queue, F_SETFD, FD_CLOEXEC) == 0 && kevent(events->queue, &change, 1, NULL, 0, NULL) == 0)
        return 0;
    int failed = errno;
    ms_events_close(events);
    return failed;
}

void ms_events_close(struct ms_events *events)
{
    if (events->queue >= 0)
        close(events->queue);
    events->queue = -1;
}

static struct kevent change_for(struct ms_source *source, const struct ms_child *child, uint16_t flags)
{
    struct kevent change;
    switch ((enum ms_source_kind)source->kind) {
    case MS_SOURCE_EXIT:
        EV_SET(&change, (uintptr_t)child->pid, EVFILT_PROC, flags, NOTE_EXIT, 0, source);
        break;
    case MS_SOURCE_WRITE:
        EV_SET(&change, (uintptr_t)source->fd, EVFILT_WRITE, flags, 0, 0, source);
        break;
    case MS_SOURCE_READ:
    default:
        EV_SET(&change, (uintptr_t)source->fd, EVFILT_READ, flags, 0, 0, source);
        break;
    }
    return change;
}

int ms_events_watch(struct ms_events *events, struct ms_source *source, const struct ms_child *child)
{
    struct kevent change = change_for(source, child, EV_ADD);
    if (kevent(events->queue, &change, 1, NULL, 0, NULL) == 0)
        return 0;
    if (errno != ESRCH || source->kind != MS_SOURCE_EXIT)
        return errno;
    /* The child has ended already: kqueue watches no zombies. Its end is delivered through a user event of its own. */
    EV_SET(&change, (uintptr_t)source, EVFILT_USER, EV_ADD | EV_ONESHOT, 0, 0, source);
    if (kevent(events->queue, &change, 1, NULL, 0, NULL) != 0)
        return errno;
    EV_SET(&change, (uintptr_t)source, EVFILT_USER, 0, NOTE_TRIGGER, 0, source);
    return kevent(events->queue, &change, 1, NULL, 0, NULL) != 0 ? errno : 0;
}

void ms_events_forget(struct ms_events *events, struct ms_source *source, const struct ms_child *child)
{
    struct kevent change = change_for(source, child, EV_DELETE);
    if (kevent(events->queue, &change, 1, NULL, 0, NULL) != 0 && source->kind == MS_SOURCE_EXIT) {
        EV_SET(&change, (uintptr_t)source, EVFILT_USER, EV_DELETE, 0, 0, NULL);
        kevent(events->queue, &change, 1, NULL, 0, NULL);
    }
}

int ms_events_wait(struct ms_events *events, struct ms_source **ready, int size, int timeout_ms)
{
    struct kevent found[64];
    struct timespec timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };
    int count = kevent(events->queue, NULL, 0, found, size < 64 ? size : 64, timeout_ms < 0 ? NULL : &timeout);
    int sources = 0;
    for (int i = 0; i < count; i++)
        if (found[i].udata != NULL)
            ready[sources++] = found[i].udata;
    return sources;
}

void ms_events_wake(struct ms_events *events)
{
    struct kevent change;
    EV_SET(&change, 0, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
    kevent(events->queue, &change, 1, NULL, 0, NULL);
}

/* macOS makes a pipe larger by itself, when it is written to. */
void ms_pipe_widen(int fd, int size)
{
    (void)fd;
    (void)size;
}

int ms_flag_open(int fds[2])
{
    if (pipe(fds) != 0)
        return errno;
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

void ms_flag_raise(const int fds[2])
{
    (void)!write(fds[1], "", 1);
}

void ms_flag_lower(const int fds[2])
{
    char bytes[64];
    while (read(fds[0], bytes, sizeof bytes) > 0)
        ;
}
