/* The one thread that drives every process.
 *
 * Relies on: event.h. Knows tasks (things with sources and one deadline), not processes.
 * Promises: started with the first task, once a host process; blocks every signal; never calls into the caller. It is
 * woken by events, and by a new deadline only when that one is earlier than what it already sleeps for.
 *
 * Locks, outermost first: the fork guard, the lock of one task (its owner's), the supervisor's, the spill registry's. No
 * one ever holds the locks of two tasks.
 *
 * fork(2) in the host: the child gets its own copies of all descriptors closed (so that it does not keep commands alive
 * when the host dies) and may not use the core any more: ms_supervisor_usable says why. exec'ed children never had them.
 *
 * exit(3) of the host: tasks are told to stop what the kernel would not stop by itself, spill directories are removed,
 * nothing is waited for. */
#ifndef MOONSAND_SUPERVISOR_H
#define MOONSAND_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "event.h"

struct ms_task;

/* What the supervisor calls, on its own thread unless said otherwise, without any lock held. */
struct ms_task_ops {
    void (*event)(struct ms_task *task, struct ms_source *source);
    void (*deadline)(struct ms_task *task, int64_t now);
    void (*forked)(struct ms_task *task);  /* in a forked child, on its only thread: close your descriptors */
    void (*exiting)(struct ms_task *task); /* at exit, on the exiting thread */
    void (*destroy)(struct ms_task *task); /* after ms_supervisor_retire: nothing refers to it any more */
};

/* Embedded in what is supervised. The supervisor's own, under its lock. */
struct ms_task {
    const struct ms_task_ops *ops;
    struct ms_task *previous, *next;
    int64_t deadline;   /* MS_NEVER: none */
    uint32_t heap_slot; /* 0: not in the heap */
    bool retired;
};

/* True, or false with `error` filled: this process was forked from one that used the core. Costs no system call. */
bool ms_supervisor_usable(struct ms_error *error);

/* Held while descriptors exist that no task owns yet, so that a fork meets none. Shared among threads. */
void ms_fork_guard_enter(void);
void ms_fork_guard_leave(void);

/* Starts the thread when it does not run yet. 0, or -1 with `error` filled. */
int ms_supervisor_start(struct ms_error *error);

/* From here on the task is seen by fork and exit, and may have sources and a deadline. 0 or an errno (ENOMEM). */
int ms_supervisor_add(struct ms_task *task, const struct ms_task_ops *ops);

/* `when` replaces the task's deadline. After it passed, ops->deadline is called once. */
void ms_supervisor_set_deadline(struct ms_task *task, int64_t when);

/* 0 or an errno; see event.h. Does nothing (0) when it is so already. */
int ms_supervisor_watch(struct ms_source *source, const struct ms_child *child);
void ms_supervisor_forget(struct ms_source *source, const struct ms_child *child);

/* The task has no watched source any more and nobody will use it: it is destroyed when the thread comes around. */
void ms_supervisor_retire(struct ms_task *task);

/* How many tasks there are (retired ones not counted). */
unsigned ms_supervisor_count(void);

#endif
