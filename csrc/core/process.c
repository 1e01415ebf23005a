/* One running command; see process.h.
 *
 * Everything about a process is under its lock. It has up to five sources: the report's socket, the end of the child, the
 * two output pipes, and the input pipe. The supervisor's thread serves them, with one exception: a thread that waits for
 * settlement listens to the report itself (the supervisor forgets that source meanwhile), so that the end of a command
 * wakes the one who waits for it and not first somebody else. As long as anyone listens, neither the socket nor the
 * child's handle is closed: the number could be used again under a poll(2) that is going on. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "spawn.h"
#include "supervisor.h"

#ifndef MSG_NOSIGNAL /* macOS: the socket itself has SO_NOSIGPIPE */
#define MSG_NOSIGNAL 0
#endif

enum {
    READ_BUDGET =
        1024 * 1024, /* of one stream, before the others have their turn; also what is collected at settlement */
    KILL_PATIENCE_MS = 2000, /* between asking the launcher to kill and killing the runner */
    LINGER_MS = 5000,        /* for what should end by itself: leftovers after ENDED, the runner after settlement */
    REAP_AGAIN_MS = 5        /* where a child that has ended may take a moment until it can be reaped */
};

enum source_role { ROLE_REPORT, ROLE_EXIT, ROLE_INPUT, ROLE_STDOUT, ROLE_STDERR };

/* What the caller has not seen yet. */
enum fresh { FRESH_STDOUT = 1 << MS_STDOUT, FRESH_STDERR = 1 << MS_STDERR, FRESH_STATE = 1 << 2 };

/* The times at which something has to happen; MS_NEVER when not. One deadline of the supervisor stands for all. */
enum alarm {
    ALARM_TIMEOUT, /* the command has had its time */
    ALARM_CONFINE, /* CONFINED should have come */
    ALARM_KILL,    /* the grace is over */
    ALARM_HARD,    /* whoever was asked to end did not: kill the runner */
    ALARM_REAP,    /* try to reap again */
    ALARM_COUNT
};

struct ms_process {
    struct ms_task task; /* first: the supervisor's pointer is ours */
    pthread_mutex_t lock;
    struct ms_child child;
    struct ms_source report, exit, input, output[2];
    struct ms_capture capture[2];
    struct ms_facts facts; /* without what is computed for a snapshot: duration, streams */
    int64_t alarms[ALARM_COUNT];
    int64_t deadline; /* the least of them, as the supervisor knows it */
    int64_t grace_ms;
    int64_t ended_ms; /* 0: not yet */
    unsigned char *input_rest;
    size_t input_size, input_done;
    struct ms_record record; /* being read */
    size_t record_size;
    unsigned listeners;
    int flag[2]; /* of ms_process_fileno; -1 until it is asked for */
    bool flag_raised;
    uint8_t fresh;
    bool has_report; /* it was given a socket */
    bool report_optional;
    bool report_spoke; /* a record came */
    bool report_over;  /* nothing more will come */
    bool kill_sent;
    bool released;
};

static struct ms_process *process_of(struct ms_task *task)
{
    return (struct ms_process *)task;
}

/* --- small things ---------------------------------------------------------------------------------------------------- */

static void notify(struct ms_process *process, unsigned what)
{
    process->fresh |= (uint8_t)what;
    if (process->flag[0] >= 0 && !process->flag_raised) {
        process->flag_raised = true;
        ms_flag_raise(process->flag);
    }
}

static void seen(struct ms_process *process, unsigned what)
{
    process->fresh &= (uint8_t)~what;
    if (process->fresh == 0 && process->flag_raised) {
        process->flag_raised = false;
        ms_flag_lower(process->flag);
    }
}

/* The number is forgotten before it is closed: a fork in between then closes one descriptor too few, not somebody else's. */
static void close_fd(int *fd)
{
    int number = *fd;
    *fd = -1;
    if (number >= 0)
        close(number);
}

static void close_source(struct ms_process *process, struct ms_source *source)
{
    if (source->fd < 0)
        return;
    ms_supervisor_forget(source, &process->child);
    close_fd(&source->fd);
}

static void update_deadline(struct ms_process *process)
{
    int64_t least = MS_NEVER;
    for (int i = 0; i < ALARM_COUNT; i++)
        if (process->alarms[i] < least)
            least = process->alarms[i];
    if (least != process->deadline) {
        process->deadline = least;
        ms_supervisor_set_deadline(&process->task, least);
    }
}

static void set_alarm(struct ms_process *process, enum alarm alarm, int64_t when)
{
    process->alarms[alarm] = when;
}

static bool settled(const struct ms_process *process)
{
    return process->facts.state == MS_SETTLED;
}

/* --- settlement ------------------------------------------------------------------------------------------------------ */

static void close_input(struct ms_process *process)
{
    close_source(process, &process->input);
    free(process->input_rest);
    process->input_rest = NULL;
}

static void close_output(struct ms_process *process, int stream)
{
    close_source(process, &process->output[stream]);
    ms_capture_close(&process->capture[stream]);
}

/* What a settled process still has open. As long as anyone but the caller (`own`: 1 when it is a listener) listens, what they
 * may be polling is not closed. */
static void close_rest(struct ms_process *process, unsigned own)
{
    bool alone = process->listeners <= own;
    close_output(process, MS_STDOUT);
    close_output(process, MS_STDERR);
    if (alone)
        close_source(process, &process->report);
    if (alone && process->child.reaped)
        ms_child_close(&process->child);
}

/* The command is over. What its pipes hold by now is its output; whoever else has them open writes to nobody. */
static void settle(struct ms_process *process, unsigned own)
{
    if (settled(process))
        return;
    for (int i = 0; i < 2; i++) {
        if (process->output[i].fd >= 0)
            ms_capture_fill(&process->capture[i], process->output[i].fd, READ_BUDGET);
        ms_capture_close(&process->capture[i]);
    }
    close_input(process);
    for (int i = 0; i < ALARM_COUNT; i++)
        set_alarm(process, (enum alarm)i, MS_NEVER);
    if (process->ended_ms == 0)
        process->ended_ms = ms_clock();
    if (!process->child.reaped) /* the runner is on its way out */
        set_alarm(process, ALARM_HARD, ms_clock_after(process->ended_ms, LINGER_MS));
    process->facts.state = MS_SETTLED;
    if (process->listeners > own && process->report.fd >= 0)
        shutdown(process->report.fd, SHUT_RDWR); /* wakes the others */
    /* A listener that settles it wants to go on: the supervisor closes the rest when it sees the runner's end, and is not
     * woken for less. */
    if (own == 0 || process->child.reaped)
        close_rest(process, own);
    else
        for (int i = 0; i < 2; i++)
            if (process->output[i].fd >= 0)
                ms_supervisor_forget(&process->output[i], &process->child);
    notify(process, FRESH_STATE);
}

/* --- the report ------------------------------------------------------------------------------------------------------ */

static void end_of_report(struct ms_process *process)
{
    process->report_over = true;
    ms_supervisor_forget(&process->report, &process->child); /* it would be readable for ever */
}

static void accept_record(struct ms_process *process, const struct ms_record *record, unsigned own)
{
    struct ms_facts *facts = &process->facts;
    process->report_spoke = true;
    switch (record->kind) {
    case MS_REPORT_FAILED:
        facts->runner_failed = true;
        facts->runner_stage = record->stage;
        facts->runner_error = record->error;
        settle(process, own);
        break;
    case MS_REPORT_CONFINED:
        facts->confined = true;
        facts->gaps = record->flags;
        facts->landlock_abi = record->value;
        facts->state = MS_RUNNING;
        set_alarm(process, ALARM_CONFINE, MS_NEVER);
        notify(process, FRESH_STATE);
        break;
    case MS_REPORT_EXEC_FAILED:
        facts->start_failed = true;
        facts->start_stage = record->stage;
        facts->start_error = record->error;
        settle(process, own);
        break;
    case MS_REPORT_STOPPED:
        facts->stops++;
        facts->stop_signal = record->value;
        notify(process, FRESH_STATE);
        break;
    case MS_REPORT_ENDED:
        facts->have_status = true;
        facts->wait_status = record->value;
        process->ended_ms = ms_clock();
        set_alarm(process, ALARM_TIMEOUT, MS_NEVER);
        if (process->alarms[ALARM_KILL] == MS_NEVER && process->alarms[ALARM_HARD] == MS_NEVER)
            set_alarm(process, ALARM_HARD, ms_clock_after(process->ended_ms, LINGER_MS));
        break;
    case MS_REPORT_LEFTOVERS:
        facts->leftovers = (unsigned)record->value;
        settle(process, own);
        break;
    default: /* a kind of a later build cannot be: both ends are the same build */
        break;
    }
}

/* Somebody who is not our launcher speaks on the socket. Nothing it says counts. */
static void reject_report(struct ms_process *process)
{
    end_of_report(process);
    if (!process->facts.confined) {
        process->facts.runner_stage = MS_STAGE_SUPERVISOR;
        process->facts.runner_error = EPROTO;
    }
    shutdown(process->report.fd, SHUT_RDWR);
    ms_child_signal(&process->child, SIGKILL);
    ms_child_signal_group(&process->child, SIGKILL);
}

/* Takes what the launcher has said so far. */
static void read_report(struct ms_process *process, unsigned own)
{
    unsigned char bytes[8 * sizeof(struct ms_record)];
    while (process->report.fd >= 0 && !process->report_over && !settled(process)) {
        ssize_t got = recv(process->report.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            end_of_report(process);
            return;
        }
        for (size_t done = 0; done < (size_t)got && !settled(process);) {
            size_t missing = sizeof process->record - process->record_size;
            size_t step = (size_t)got - done < missing ? (size_t)got - done : missing;
            memcpy((unsigned char *)&process->record + process->record_size, bytes + done, step);
            process->record_size += step;
            done += step;
            if (process->record_size < sizeof process->record)
                break;
            process->record_size = 0;
            if (process->record.magic != MS_RECORD_MAGIC) {
                reject_report(process);
                return;
            }
            accept_record(process, &process->record, own);
        }
        if ((size_t)got < sizeof bytes) /* it had no more */
            return;
    }
}

/* 0 or an errno. The socket never fills: there are a handful of records a life, and a launcher that reads. */
static int request(struct ms_process *process, enum ms_record_kind kind, int32_t value)
{
    struct ms_record record = { .magic = MS_RECORD_MAGIC, .kind = (uint16_t)kind, .value = value };
    if (process->report.fd < 0 || process->report_over)
        return EPIPE;
    ssize_t sent = send(process->report.fd, &record, sizeof record, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == (ssize_t)sizeof record ? 0 : sent < 0 ? errno : EAGAIN;
}

/* --- the end of the child -------------------------------------------------------------------------------------------- */

static void settle_by_exit(struct ms_process *process, unsigned own)
{
    struct ms_facts *facts = &process->facts;
    bool told = process->has_report && (process->report_spoke || !process->report_optional);
    bool stopped_by_us = facts->aborted || (facts->timed_out && !process->has_report);
    if (!told || (!facts->confined && stopped_by_us)) {
        facts->have_status = facts->have_runner_status;
        facts->wait_status = facts->runner_status;
        facts->status_lost = !facts->have_runner_status;
    } else if (!facts->confined) {
        facts->runner_failed = true;
        if (facts->timed_out && facts->runner_stage == MS_STAGE_NONE) {
            facts->runner_stage = MS_STAGE_SUPERVISOR;
            facts->runner_error = ETIMEDOUT;
        }
    } else {
        facts->report_lost = true;
        if (!facts->have_status) {
            facts->have_status = facts->have_runner_status;
            facts->wait_status = facts->runner_status;
            facts->status_lost = !facts->have_runner_status;
        }
    }
    settle(process, own);
}

static void child_ended(struct ms_process *process, unsigned own)
{
    if (process->child.reaped)
        return;
    /* Without a launcher this is all that can be done about leftovers. The unreaped child keeps the group's number. */
    if (!process->has_report && ms_child_ended(&process->child))
        ms_child_signal_group(&process->child, SIGKILL);
    int status = 0;
    enum ms_reaped reaped = ms_child_reap(&process->child, &status);
    if (reaped == MS_REAP_RUNNING) {
        set_alarm(process, ALARM_REAP, ms_clock_after(ms_clock(), REAP_AGAIN_MS));
        return;
    }
    process->facts.have_runner_status = reaped == MS_REAP_ENDED;
    process->facts.runner_status = status;
    ms_supervisor_forget(&process->exit, &process->child);
    process->exit.fd = -1; /* it was the child's handle */
    set_alarm(process, ALARM_REAP, MS_NEVER);
    set_alarm(process, ALARM_HARD, MS_NEVER);
    read_report(process, own); /* its last words came before its end */
    if (!settled(process))
        settle_by_exit(process, own);
    else
        close_rest(process, own);
}

/* --- termination ----------------------------------------------------------------------------------------------------- */

static void hard_kill(struct ms_process *process)
{
    set_alarm(process, ALARM_HARD, MS_NEVER);
    if (process->child.reaped)
        return;
    ms_child_signal_group(&process->child, SIGKILL);
    ms_child_signal(&process->child, SIGKILL);
}

/* Takes back the permission to start the command. A launcher that finds the report closed does not execute it; one that was
 * faster finds the host gone, and kills its tree. */
static void revoke_start(struct ms_process *process, unsigned own)
{
    set_alarm(process, ALARM_CONFINE, MS_NEVER);
    set_alarm(process, ALARM_HARD, ms_clock_after(ms_clock(), KILL_PATIENCE_MS));
    shutdown(process->report.fd, SHUT_RDWR);
    read_report(process, own);
    if (!settled(process) && !process->facts.confined)
        hard_kill(process);
}

static void kill_now(struct ms_process *process, unsigned own)
{
    set_alarm(process, ALARM_KILL, MS_NEVER);
    if (process->kill_sent)
        return;
    process->kill_sent = true;
    if (process->has_report && !process->report_over && !process->facts.confined) {
        revoke_start(process, own);
    } else if (request(process, MS_REQUEST_KILL, 0) == 0) {
        set_alarm(process, ALARM_HARD, ms_clock_after(ms_clock(), KILL_PATIENCE_MS));
    } else {
        hard_kill(process);
    }
}

static void ask_to_end(struct ms_process *process)
{
    if (request(process, MS_REQUEST_TERMINATE, 0) == 0 || process->child.reaped)
        return;
    ms_child_signal_group(&process->child, SIGTERM);
    ms_child_signal_group(&process->child, SIGCONT);
}

/* `cause` is the fact to set when this is the first cause. True when it is. */
static bool terminate(struct ms_process *process, bool *cause, int64_t grace_ms, unsigned own)
{
    read_report(process, own); /* it may be over already */
    if (!process->has_report && ms_child_ended(&process->child))
        child_ended(process, own);
    if (settled(process))
        return false;
    bool over = process->facts.have_status; /* and its leftovers are being stopped */
    bool first = !over && !process->facts.timed_out && !process->facts.aborted;
    if (first) {
        *cause = true;
        set_alarm(process, ALARM_TIMEOUT, MS_NEVER);
        notify(process, FRESH_STATE);
    }
    if (grace_ms <= 0) {
        kill_now(process, own);
    } else if (!process->kill_sent) {
        int64_t when = ms_clock_after(ms_clock(), grace_ms);
        if (first)
            ask_to_end(process);
        if (when < process->alarms[ALARM_KILL] && !over)
            set_alarm(process, ALARM_KILL, when);
    }
    return first;
}

static void confine_timeout(struct ms_process *process, unsigned own)
{
    read_report(process, own);
    if (settled(process) || process->facts.confined)
        return;
    process->facts.runner_stage = MS_STAGE_SUPERVISOR;
    process->facts.runner_error = ETIMEDOUT;
    if (process->report_over)
        hard_kill(process);
    else
        revoke_start(process, own);
}

/* --- what the supervisor calls --------------------------------------------------------------------------------------- */

static void feed_input(struct ms_process *process)
{
    while (process->input_done < process->input_size) {
        ssize_t written = write(process->input.fd, process->input_rest + process->input_done,
                                process->input_size - process->input_done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (written < 0) /* nobody reads it any more: EPIPE; this thread has SIGPIPE blocked */
            break;
        process->input_done += (size_t)written;
    }
    close_input(process);
}

static void collect_output(struct ms_process *process, int stream)
{
    struct ms_capture *capture = &process->capture[stream];
    uint64_t before = capture->total;
    enum ms_capture_result result = ms_capture_fill(capture, process->output[stream].fd, READ_BUDGET);
    if (capture->total != before)
        notify(process, 1U << stream);
    if (result == MS_CAPTURE_END)
        close_output(process, stream);
}

/* Ends a use of the process: after it, it may be gone. */
static void leave(struct ms_process *process)
{
    update_deadline(process);
    bool over = process->released && settled(process) && process->child.reaped && process->listeners == 0;
    pthread_mutex_unlock(&process->lock);
    if (over)
        ms_supervisor_retire(&process->task);
}

static void on_event(struct ms_task *task, struct ms_source *source)
{
    struct ms_process *process = process_of(task);
    pthread_mutex_lock(&process->lock);
    if (!source->watched) { /* forgotten since it was found ready */
        pthread_mutex_unlock(&process->lock);
        return;
    }
    if (settled(process) && source->kind != MS_SOURCE_EXIT) {
        close_source(process, source);
        leave(process);
        return;
    }
    switch ((enum source_role)source->role) {
    case ROLE_REPORT:
        read_report(process, 0);
        break;
    case ROLE_EXIT:
        child_ended(process, 0);
        break;
    case ROLE_INPUT:
        feed_input(process);
        break;
    case ROLE_STDOUT:
        collect_output(process, MS_STDOUT);
        break;
    case ROLE_STDERR:
        collect_output(process, MS_STDERR);
        break;
    }
    leave(process);
}

static bool due(struct ms_process *process, enum alarm alarm, int64_t now)
{
    if (process->alarms[alarm] > now)
        return false;
    process->alarms[alarm] = MS_NEVER;
    return true;
}

static void on_deadline(struct ms_task *task, int64_t now)
{
    struct ms_process *process = process_of(task);
    pthread_mutex_lock(&process->lock);
    process->deadline = MS_NEVER;
    if (due(process, ALARM_REAP, now))
        child_ended(process, 0);
    if (due(process, ALARM_CONFINE, now))
        confine_timeout(process, 0);
    if (due(process, ALARM_TIMEOUT, now))
        terminate(process, &process->facts.timed_out, process->grace_ms, 0);
    if (due(process, ALARM_KILL, now))
        kill_now(process, 0);
    if (due(process, ALARM_HARD, now))
        hard_kill(process);
    leave(process);
}

static void on_forked(struct ms_task *task)
{
    struct ms_process *process = process_of(task);
    int *fds[] = { &process->report.fd,           &process->child.handle,       &process->input.fd,
                   &process->output[0].fd,        &process->output[1].fd,       &process->flag[0],
                   &process->capture[0].spill.fd, &process->capture[1].spill.fd };
    if (process->flag[1] != process->flag[0])
        close_fd(&process->flag[1]);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        close_fd(fds[i]);
}

static void on_exiting(struct ms_task *task)
{
    struct ms_process *process = process_of(task);
    if (process->has_report || pthread_mutex_trylock(&process->lock) != 0)
        return; /* the kernel closes the socket, and the launcher sees to the rest */
    if (!settled(process) && !process->child.reaped)
        ms_child_signal_group(&process->child, SIGKILL);
    pthread_mutex_unlock(&process->lock);
}

static void on_destroy(struct ms_task *task)
{
    struct ms_process *process = process_of(task);
    for (int i = 0; i < 2; i++)
        ms_capture_free(&process->capture[i]);
    pthread_mutex_destroy(&process->lock);
    free(process);
}

static const struct ms_task_ops task_ops = {
    .event = on_event,
    .deadline = on_deadline,
    .forked = on_forked,
    .exiting = on_exiting,
    .destroy = on_destroy,
};

/* --- start ----------------------------------------------------------------------------------------------------------- */

static void init_source(struct ms_process *process, struct ms_source *source, enum ms_source_kind kind,
                        enum source_role role)
{
    *source = (struct ms_source){ .task = &process->task, .fd = -1, .kind = (uint8_t)kind, .role = (uint8_t)role };
}

static struct ms_process *allocate(const struct ms_process_options *options, struct ms_error *error)
{
    struct ms_spill_dir *spill = NULL;
    if (options->spill_base != NULL && options->max_spill_bytes > 0) {
        spill = ms_spill_dir(options->spill_base, options->keep_spill);
        if (spill == NULL) {
            ms_error_set(error, errno == EINVAL ? MS_STAGE_ARGUMENTS : MS_STAGE_MEMORY, errno, options->spill_base,
                         "the spill base must be an absolute path");
            return NULL;
        }
    }
    struct ms_process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        ms_error_set(error, MS_STAGE_MEMORY, ENOMEM, NULL, NULL);
        return NULL;
    }
    pthread_mutex_init(&process->lock, NULL);
    init_source(process, &process->report, MS_SOURCE_READ, ROLE_REPORT);
    init_source(process, &process->exit, MS_SOURCE_EXIT, ROLE_EXIT);
    init_source(process, &process->input, MS_SOURCE_WRITE, ROLE_INPUT);
    init_source(process, &process->output[MS_STDOUT], MS_SOURCE_READ, ROLE_STDOUT);
    init_source(process, &process->output[MS_STDERR], MS_SOURCE_READ, ROLE_STDERR);
    ms_capture_init(&process->capture[MS_STDOUT], options->max_output_bytes, spill, options->max_spill_bytes,
                    "stdout-");
    ms_capture_init(&process->capture[MS_STDERR], options->max_output_bytes, spill, options->max_spill_bytes,
                    "stderr-");
    process->child = (struct ms_child){ .pid = -1, .handle = -1 };
    process->flag[0] = process->flag[1] = -1;
    process->has_report = options->report;
    process->report_optional = options->report_optional;
    process->grace_ms = options->grace_ms;
    for (int i = 0; i < ALARM_COUNT; i++)
        set_alarm(process, (enum alarm)i, MS_NEVER);
    process->deadline = MS_NEVER;
    return process;
}

/* The input's pipe, filled before anyone could close its other end. What does not fit is copied, for the supervisor to
 * feed. `*theirs` is the read end. */
static int prepare_input(struct ms_process *process, const struct ms_process_options *options, int *theirs)
{
    int ends[2];
    int failed = ms_pipe(ends);
    if (failed != 0)
        return failed;
    *theirs = ends[0];
    process->input.fd = ends[1];
    if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
        return errno;
    const unsigned char *bytes = options->input;
    size_t done = 0;
    while (done < options->input_size) {
        ssize_t written = write(ends[1], bytes + done, options->input_size - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            break;
        done += (size_t)written;
    }
    if (done == options->input_size) {
        close_fd(&process->input.fd);
        return 0;
    }
    process->input_size = options->input_size - done;
    process->input_rest = malloc(process->input_size);
    if (process->input_rest == NULL)
        return ENOMEM;
    memcpy(process->input_rest, bytes + done, process->input_size);
    return 0;
}

static int spawn_child(struct ms_process *process, const struct ms_process_options *options, struct ms_error *error)
{
    int input = -1;
    struct ms_spawn_request wanted = {
        .argv = options->argv,
        .envp = options->envp,
        .cwd = options->cwd,
        .stdio = { options->stdio[0] >= 0 ? options->stdio[0] : MS_STDIO_NULL,
                   options->stdio[1] >= 0 ? options->stdio[1] : MS_STDIO_PIPE,
                   options->stdio[2] >= 0 ? options->stdio[2] : MS_STDIO_PIPE },
        .report = options->report,
        .die_with_host = !options->report,
    };
    if (options->input != NULL && options->stdio[0] < 0) {
        int failed = prepare_input(process, options, &input);
        wanted.stdio[0] = input;
        if (failed != 0) {
            close_fd(&input);
            ms_error_set(error, failed == ENOMEM ? MS_STAGE_MEMORY : MS_STAGE_PIPE, failed, NULL, NULL);
            return -1;
        }
    }
    struct ms_spawned spawned;
    int result = ms_spawn(&wanted, &spawned, error);
    close_fd(&input);
    if (result != 0)
        return -1;
    process->child = spawned.child;
    process->exit.fd = spawned.child.handle;
    process->report.fd = spawned.report;
    process->output[MS_STDOUT].fd = spawned.stdio[1];
    process->output[MS_STDERR].fd = spawned.stdio[2];
    return 0;
}

static int watch_all(struct ms_process *process)
{
    struct ms_source *sources[] = { &process->report, &process->exit, &process->input, &process->output[MS_STDOUT],
                                    &process->output[MS_STDERR] };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (sources[i]->fd < 0 && sources[i]->kind != MS_SOURCE_EXIT)
            continue;
        int failed = ms_supervisor_watch(sources[i], &process->child);
        if (failed != 0)
            return failed;
    }
    return 0;
}

static void free_unstarted(struct ms_process *process)
{
    close_fd(&process->input.fd);
    free(process->input_rest);
    process->input_rest = NULL;
    on_destroy(&process->task);
}

/* It runs, but cannot be supervised. Closing the report ends it with all its tree; otherwise it is killed. */
static void take_back(struct ms_process *process)
{
    int status;
    close_source(process, &process->report);
    for (int64_t until = ms_clock() + KILL_PATIENCE_MS; process->has_report && ms_clock() < until;) {
        if (ms_child_ended(&process->child))
            break;
        poll(NULL, 0, 1);
    }
    ms_child_signal_group(&process->child, SIGKILL);
    while (ms_child_reap(&process->child, &status) == MS_REAP_RUNNING)
        poll(NULL, 0, 1);
    ms_supervisor_forget(&process->exit, &process->child);
    ms_child_close(&process->child);
    close_source(process, &process->output[MS_STDOUT]);
    close_source(process, &process->output[MS_STDERR]);
    close_source(process, &process->input);
}

struct ms_process *ms_process_start(const struct ms_process_options *options, struct ms_error *error)
{
    if (ms_supervisor_start(error) != 0)
        return NULL;
    struct ms_process *process = allocate(options, error);
    if (process == NULL)
        return NULL;

    ms_fork_guard_enter();
    if (spawn_child(process, options, error) != 0) {
        ms_fork_guard_leave();
        free_unstarted(process);
        return NULL;
    }
    struct ms_facts *facts = &process->facts;
    facts->started_ms = ms_clock();
    facts->pid = process->child.pid;
    facts->state = options->report ? MS_STARTING : MS_RUNNING;
    if (options->timeout_ms > 0)
        set_alarm(process, ALARM_TIMEOUT, ms_clock_after(facts->started_ms, options->timeout_ms));
    if (options->report && options->confine_timeout_ms > 0)
        set_alarm(process, ALARM_CONFINE, ms_clock_after(facts->started_ms, options->confine_timeout_ms));

    pthread_mutex_lock(&process->lock);
    int failed = ms_supervisor_add(&process->task, &task_ops);
    bool added = failed == 0;
    if (added)
        failed = watch_all(process);
    ms_fork_guard_leave();
    if (failed == 0) {
        leave(process);
        return process;
    }
    take_back(process);
    ms_error_set(error, MS_STAGE_SUPERVISOR, failed, NULL, NULL);
    free(process->input_rest);
    process->input_rest = NULL;
    pthread_mutex_unlock(&process->lock);
    if (added)
        ms_supervisor_retire(&process->task);
    else
        on_destroy(&process->task);
    return NULL;
}

/* --- what the caller may ask ----------------------------------------------------------------------------------------- */

void ms_process_facts(struct ms_process *process, struct ms_facts *facts)
{
    if (!ms_supervisor_usable(NULL)) {
        *facts = (struct ms_facts){ .state = MS_SETTLED, .pid = -1, .status_lost = true };
        return;
    }
    pthread_mutex_lock(&process->lock);
    *facts = process->facts;
    facts->duration_ms = (process->ended_ms != 0 ? process->ended_ms : ms_clock()) - facts->started_ms;
    for (int i = 0; i < 2; i++) {
        const struct ms_capture *capture = &process->capture[i];
        facts->stream[i] = (struct ms_stream_facts){
            .bytes = capture->total,
            .truncated = capture->total > capture->limit,
            .spill_state = capture->spill_state,
            .spill_error = capture->spill_error,
        };
    }
    seen(process, FRESH_STDOUT | FRESH_STDERR | FRESH_STATE);
    pthread_mutex_unlock(&process->lock);
}

/* Makes the flag when there is none. 0 or an errno. */
static int ensure_flag(struct ms_process *process)
{
    if (process->flag[0] >= 0)
        return 0;
    int failed = ms_flag_open(process->flag);
    if (failed != 0) {
        process->flag[0] = process->flag[1] = -1;
        return failed;
    }
    if (process->fresh != 0) {
        process->flag_raised = true;
        ms_flag_raise(process->flag);
    }
    return 0;
}

/* What a thread that waits for settlement polls, and the supervisor forgets meanwhile: the report; when that is over or was
 * never there, the child's end. -1 where the system has no descriptor for that. */
static int settlement_fd(struct ms_process *process)
{
    bool reported = process->report.fd >= 0 && !process->report_over;
    struct ms_source *source = reported ? &process->report : &process->exit;
    if (source->fd >= 0)
        ms_supervisor_forget(source, &process->child);
    return source->fd;
}

/* The last listener gives its sources back to the supervisor. */
static void stop_listening(struct ms_process *process)
{
    if (--process->listeners > 0)
        return;
    if (process->exit.fd >= 0 && ms_supervisor_watch(&process->exit, &process->child) != 0)
        set_alarm(process, ALARM_REAP, 0); /* then by looking again and again */
    if (settled(process)) {
        if (process->child.reaped)
            close_rest(process, 0);
    } else if (process->report.fd >= 0 && !process->report_over &&
               ms_supervisor_watch(&process->report, &process->child) != 0) {
        hard_kill(process); /* it could end unnoticed otherwise; the child's end is not missed */
    }
}

/* Waits on `fd` without the lock, then looks at what came. 0 or an errno. */
static int listen_once(struct ms_process *process, int fd, int64_t left)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    update_deadline(process);
    pthread_mutex_unlock(&process->lock);
    int ready = poll(&polled, 1, left > INT32_MAX ? INT32_MAX : (int)left);
    int failed = ready < 0 ? errno : 0;
    pthread_mutex_lock(&process->lock);
    if (ready > 0 && fd == process->report.fd)
        read_report(process, 1);
    else if (ready > 0 && fd == process->child.handle)
        child_ended(process, 1);
    return settled(process) ? 0 : failed;
}

enum ms_waited ms_process_wait(struct ms_process *process, int64_t timeout_ms, bool output)
{
    struct ms_error error;
    if (!ms_supervisor_usable(&error)) {
        errno = error.error;
        return MS_WAITED_FAILED;
    }
    int64_t until = timeout_ms < 0 ? MS_NEVER : ms_clock_after(ms_clock(), timeout_ms);
    enum ms_waited result = MS_WAITED_FAILED;
    int failed = 0;

    pthread_mutex_lock(&process->lock);
    if (!output)
        process->listeners++;
    for (;;) {
        if (settled(process)) {
            result = MS_WAITED_SETTLED;
            break;
        }
        if (output && process->fresh != 0) {
            seen(process, FRESH_STATE);
            result = MS_WAITED_OUTPUT;
            break;
        }
        int64_t left = until == MS_NEVER ? -1 : until - ms_clock();
        if (until != MS_NEVER && left <= 0) {
            result = MS_WAITED_TIMEOUT;
            break;
        }
        int fd = output ? -1 : settlement_fd(process);
        if (fd < 0) {
            failed = ensure_flag(process);
            if (failed != 0)
                break;
            fd = process->flag[0];
        }
        failed = listen_once(process, fd, left);
        if (failed != 0) {
            result = failed == EINTR ? MS_WAITED_INTERRUPTED : MS_WAITED_FAILED;
            break;
        }
    }
    if (!output)
        stop_listening(process);
    leave(process);
    errno = failed;
    return result;
}

size_t ms_process_read(struct ms_process *process, enum ms_stream stream, uint64_t offset, void *buffer, size_t size,
                       uint64_t *next, uint64_t *lost)
{
    *next = offset;
    *lost = 0;
    if (!ms_supervisor_usable(NULL))
        return 0;
    pthread_mutex_lock(&process->lock);
    size_t length = ms_capture_read(&process->capture[stream], offset, buffer, size, next, lost);
    if (buffer != NULL && *next == process->capture[stream].total)
        seen(process, 1U << stream);
    pthread_mutex_unlock(&process->lock);
    return length;
}

size_t ms_process_spill_path(struct ms_process *process, enum ms_stream stream, char *buffer, size_t size)
{
    size_t length = 0;
    if (ms_supervisor_usable(NULL)) {
        pthread_mutex_lock(&process->lock);
        if (process->capture[stream].spill_state == MS_SPILL_COMPLETE)
            length = ms_spill_path(&process->capture[stream].spill, buffer, size);
        pthread_mutex_unlock(&process->lock);
    }
    if (length == 0 && size > 0)
        buffer[0] = '\0';
    return length;
}

bool ms_process_terminate(struct ms_process *process, int64_t grace_ms)
{
    if (!ms_supervisor_usable(NULL))
        return false;
    pthread_mutex_lock(&process->lock);
    bool first = terminate(process, &process->facts.aborted, grace_ms < 0 ? process->grace_ms : grace_ms, 0);
    leave(process);
    return first;
}

/* Through the launcher, as a request of `kind` with `value`; where there is none, `signal` to the group. */
static int ask(struct ms_process *process, enum ms_record_kind kind, int value, int signal)
{
    if (!ms_supervisor_usable(NULL))
        return ECANCELED;
    pthread_mutex_lock(&process->lock);
    int failed;
    if (settled(process) || process->facts.have_status)
        failed = ESRCH;
    else if (process->has_report && !(process->report_optional && process->report_over))
        failed = request(process, kind, value);
    else
        failed = ms_child_signal_group(&process->child, signal);
    pthread_mutex_unlock(&process->lock);
    return failed;
}

int ms_process_signal(struct ms_process *process, int signal)
{
    return ask(process, MS_REQUEST_SIGNAL, signal, signal);
}

int ms_process_continue(struct ms_process *process, bool foreground)
{
    return ask(process, MS_REQUEST_CONTINUE, foreground, SIGCONT);
}

int ms_process_fileno(struct ms_process *process)
{
    struct ms_error error;
    if (!ms_supervisor_usable(&error)) {
        errno = error.error;
        return -1;
    }
    pthread_mutex_lock(&process->lock);
    int failed = ensure_flag(process);
    int fd = process->flag[0];
    pthread_mutex_unlock(&process->lock);
    if (failed != 0)
        errno = failed;
    return fd;
}

pid_t ms_process_pid(const struct ms_process *process)
{
    return process->facts.pid;
}

void ms_process_release(struct ms_process *process)
{
    if (process == NULL || !ms_supervisor_usable(NULL))
        return;
    pthread_mutex_lock(&process->lock);
    terminate(process, &process->facts.aborted, 0, 0);
    process->released = true;
    if (process->flag[1] != process->flag[0])
        close_fd(&process->flag[1]);
    close_fd(&process->flag[0]);
    for (int i = 0; i < 2 && settled(process); i++)
        ms_capture_free(&process->capture[i]);
    leave(process);
}
