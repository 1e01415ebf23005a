/* The one thread that drives every process; see supervisor.h. */
#include "supervisor.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "clock.h"
#include "spill.h"

enum {
    THREAD_STACK = 256 * 1024,
    EVENTS_AT_ONCE = 64,
    /* After work the thread looks again this soon even without a deadline. So a command that starts shortly after another one
     * ended does not have to wake it: its deadlines are mostly later than that. */
    LOOK_AGAIN_MS = 4000,
    EXIT_PATIENCE_MS = 100
};

#define AWAKE INT64_MIN /* as `sleeps_until`: it will look at the deadlines before it sleeps */

static struct {
    pthread_mutex_t lock;
    pthread_rwlock_t fork_guard;
    bool running;
    struct ms_events events;
    struct ms_task *tasks;
    struct ms_task *retired;
    unsigned count;
    struct ms_task **heap; /* by deadline, from slot 1 on */
    uint32_t heap_count, heap_size;
    int64_t sleeps_until;
} supervisor = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .fork_guard = PTHREAD_RWLOCK_INITIALIZER,
    .events = { .queue = -1, .wake = -1 },
    .sleeps_until = AWAKE,
};

static atomic_bool forked; /* this process is a child of one in which the supervisor ran */

bool ms_supervisor_usable(struct ms_error *error)
{
    if (!atomic_load_explicit(&forked, memory_order_relaxed))
        return true;
    ms_error_set(
        error, MS_STAGE_SUPERVISOR, ECANCELED, NULL,
        "moonsand was used before this process was forked; commands belong to the parent, exec or load it anew");
    return false;
}

void ms_fork_guard_enter(void)
{
    pthread_rwlock_rdlock(&supervisor.fork_guard);
}

void ms_fork_guard_leave(void)
{
    pthread_rwlock_unlock(&supervisor.fork_guard);
}

/* --- deadlines: a binary heap ---------------------------------------------------------------------------------------- */

static void heap_put(struct ms_task *task, uint32_t slot)
{
    supervisor.heap[slot] = task;
    task->heap_slot = slot;
}

static void heap_move(struct ms_task *task, uint32_t slot)
{
    for (; slot > 1 && supervisor.heap[slot / 2]->deadline > task->deadline; slot /= 2)
        heap_put(supervisor.heap[slot / 2], slot);
    for (;;) {
        uint32_t child = slot * 2;
        if (child > supervisor.heap_count)
            break;
        if (child < supervisor.heap_count && supervisor.heap[child + 1]->deadline < supervisor.heap[child]->deadline)
            child++;
        if (supervisor.heap[child]->deadline >= task->deadline)
            break;
        heap_put(supervisor.heap[child], slot);
        slot = child;
    }
    heap_put(task, slot);
}

static void heap_set(struct ms_task *task, int64_t when)
{
    uint32_t slot = task->heap_slot;
    task->deadline = when;
    if (when != MS_NEVER) {
        heap_move(task, slot != 0 ? slot : ++supervisor.heap_count);
    } else if (slot != 0) {
        struct ms_task *last = supervisor.heap[supervisor.heap_count--];
        task->heap_slot = 0;
        if (last != task)
            heap_move(last, slot);
    }
}

static bool heap_reserve(void)
{
    if (supervisor.count + 2 <= supervisor.heap_size)
        return true;
    uint32_t size = supervisor.heap_size == 0 ? 32 : supervisor.heap_size * 2;
    struct ms_task **heap = realloc(supervisor.heap, size * sizeof *heap);
    if (heap == NULL)
        return false;
    supervisor.heap = heap;
    supervisor.heap_size = size;
    return true;
}

void ms_supervisor_set_deadline(struct ms_task *task, int64_t when)
{
    pthread_mutex_lock(&supervisor.lock);
    if (task->deadline != when)
        heap_set(task, when);
    bool wake = when < supervisor.sleeps_until;
    if (wake)
        supervisor.sleeps_until = AWAKE;
    pthread_mutex_unlock(&supervisor.lock);
    if (wake)
        ms_events_wake(&supervisor.events);
}

/* --- tasks ----------------------------------------------------------------------------------------------------------- */

static void unlink_task(struct ms_task *task)
{
    if (task->previous != NULL)
        task->previous->next = task->next;
    else
        supervisor.tasks = task->next;
    if (task->next != NULL)
        task->next->previous = task->previous;
    supervisor.count--;
}

int ms_supervisor_add(struct ms_task *task, const struct ms_task_ops *ops)
{
    *task = (struct ms_task){ .ops = ops, .deadline = MS_NEVER };
    pthread_mutex_lock(&supervisor.lock);
    bool room = heap_reserve();
    if (room) {
        task->next = supervisor.tasks;
        if (task->next != NULL)
            task->next->previous = task;
        supervisor.tasks = task;
        supervisor.count++;
    }
    pthread_mutex_unlock(&supervisor.lock);
    return room ? 0 : ENOMEM;
}

void ms_supervisor_retire(struct ms_task *task)
{
    pthread_mutex_lock(&supervisor.lock);
    heap_set(task, MS_NEVER);
    unlink_task(task);
    task->next = supervisor.retired;
    supervisor.retired = task;
    pthread_mutex_unlock(&supervisor.lock);
}

unsigned ms_supervisor_count(void)
{
    pthread_mutex_lock(&supervisor.lock);
    unsigned count = supervisor.count;
    pthread_mutex_unlock(&supervisor.lock);
    return count;
}

int ms_supervisor_watch(struct ms_source *source, const struct ms_child *child)
{
    if (source->watched)
        return 0;
    int failed = ms_events_watch(&supervisor.events, source, child);
    source->watched = failed == 0;
    return failed;
}

void ms_supervisor_forget(struct ms_source *source, const struct ms_child *child)
{
    if (source->watched)
        ms_events_forget(&supervisor.events, source, child);
    source->watched = false;
}

/* --- the thread ------------------------------------------------------------------------------------------------------ */

static void destroy_retired(void)
{
    pthread_mutex_lock(&supervisor.lock);
    struct ms_task *task = supervisor.retired;
    supervisor.retired = NULL;
    pthread_mutex_unlock(&supervisor.lock);
    while (task != NULL) {
        struct ms_task *next = task->next;
        task->ops->destroy(task);
        task = next;
    }
}

/* Calls what is due. Returns for how long to sleep; from then on earlier deadlines wake. */
static int meet_deadlines(bool was_idle)
{
    pthread_mutex_lock(&supervisor.lock);
    int64_t now = ms_clock();
    while (supervisor.heap_count > 0 && supervisor.heap[1]->deadline <= now) {
        struct ms_task *task = supervisor.heap[1];
        heap_set(task, MS_NEVER);
        pthread_mutex_unlock(&supervisor.lock);
        task->ops->deadline(task, now); /* it cannot be destroyed meanwhile: this thread does that */
        pthread_mutex_lock(&supervisor.lock);
        now = ms_clock();
        was_idle = false;
    }
    int64_t until = supervisor.heap_count > 0 ? supervisor.heap[1]->deadline : MS_NEVER;
    if (!was_idle && until - now > LOOK_AGAIN_MS)
        until = now + LOOK_AGAIN_MS;
    supervisor.sleeps_until = until;
    pthread_mutex_unlock(&supervisor.lock);
    if (until == MS_NEVER)
        return -1;
    return until - now > INT32_MAX ? INT32_MAX : (int)(until - now);
}

static void *run(void *unused)
{
    (void)unused;
    struct ms_source *ready[EVENTS_AT_ONCE];
    bool idle = false;
    for (;;) {
        destroy_retired();
        int timeout = meet_deadlines(idle);
        int count = ms_events_wait(&supervisor.events, ready, EVENTS_AT_ONCE, timeout);
        idle = count == 0;
        pthread_mutex_lock(&supervisor.lock);
        supervisor.sleeps_until = AWAKE;
        pthread_mutex_unlock(&supervisor.lock);
        for (int i = 0; i < count; i++)
            ready[i]->task->ops->event(ready[i]->task, ready[i]);
    }
    return NULL;
}

/* --- fork and exit --------------------------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_rwlock_wrlock(&supervisor.fork_guard);
    pthread_mutex_lock(&supervisor.lock);
    ms_spill_fork_prepare();
}

static void after_fork_in_parent(void)
{
    ms_spill_fork_parent();
    pthread_mutex_unlock(&supervisor.lock);
    pthread_rwlock_unlock(&supervisor.fork_guard);
}

static void after_fork_in_child(void)
{
    if (supervisor.running) {
        for (struct ms_task *task = supervisor.tasks; task != NULL; task = task->next)
            task->ops->forked(task);
        ms_events_close(&supervisor.events);
        atomic_store(&forked, true);
    }
    ms_spill_fork_child();
    pthread_mutex_unlock(&supervisor.lock);
    pthread_rwlock_unlock(&supervisor.fork_guard);
}

/* exit(3) may be called anywhere, even in a signal handler that interrupted a holder of a lock: so be patient, then go. */
static bool lock_patiently(pthread_mutex_t *lock)
{
    for (int i = 0; i < EXIT_PATIENCE_MS; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return true;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return false;
}

static void at_exit(void)
{
    if (atomic_load(&forked))
        return;
    if (lock_patiently(&supervisor.lock)) {
        for (struct ms_task *task = supervisor.tasks; task != NULL; task = task->next)
            task->ops->exiting(task);
        pthread_mutex_unlock(&supervisor.lock);
    }
    ms_spill_end();
}

/* The thread runs until the process ends, so its code must stay, also when a Lua state that loaded it is closed. */
static void stay_loaded(void)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&ms_supervisor_start, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static int start_thread(void)
{
    static bool prepared; /* handlers cannot be taken back: once is enough, also after a failure below */
    if (!prepared) {
        int failed = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        if (failed != 0)
            return failed;
        if (atexit(at_exit) != 0)
            return ENOMEM;
        stay_loaded();
        prepared = true;
    }
    int failed = ms_events_open(&supervisor.events);
    if (failed != 0)
        return failed;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed != 0)
        ms_events_close(&supervisor.events);
    return failed;
}

int ms_supervisor_start(struct ms_error *error)
{
    if (!ms_supervisor_usable(error))
        return -1;
    pthread_mutex_lock(&supervisor.lock);
    int failed = supervisor.running ? 0 : start_thread();
    supervisor.running = failed == 0;
    pthread_mutex_unlock(&supervisor.lock);
    if (failed == 0)
        return 0;
    ms_error_set(error, MS_STAGE_SUPERVISOR, failed, NULL, NULL);
    return -1;
}
