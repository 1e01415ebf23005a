#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "terminal.h"

enum { CHUNK = 65536 };

/* Bytes on their way from one descriptor to another. */
struct channel {
    int from; /* -1: there is no such channel, or it has ended */
    int to;   /* -1: what comes is dropped */
    size_t start, end;
    char bytes[CHUNK];
};

enum { KEYBOARD, SCREEN, INPUT, OUTPUT, ERRORS, CHANNELS };

struct ms_relay {
    struct ms_relay_program program;
    bool has_terminal;
    struct ms_terminal terminal;
    bool wants_keys;    /* the program reads from its terminal, or has from the start on */
    unsigned stops;     /* of the process, that have been seen to */
    sigset_t unblocked; /* the signal mask of every wait */
    int input_back;     /* a regular file whose unread rest is given back at the end, or -1 */
    int pipes[3][2];    /* of INPUT, OUTPUT, ERRORS: the end to read from, the end to write to; -1 */
    struct channel channel[CHANNELS];
};

/* --- signals ------------------------------------------------------------------------------------------------------ */

/* Blocked while the relay runs, but for the wait in `wait_for_something`: none is lost between a look and the wait. */
static const int handled[] = {
    SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH
};

enum { HANDLED = sizeof handled / sizeof handled[0] };

static volatile sig_atomic_t arrived[HANDLED];

struct dispositions {
    struct sigaction before[HANDLED];
    struct sigaction pipe;
    sigset_t mask;
};

static void on_signal(int number)
{
    for (int i = 0; i < HANDLED; i++)
        if (handled[i] == number)
            arrived[i] = 1;
}

static bool has_arrived(int number)
{
    for (int i = 0; i < HANDLED; i++)
        if (handled[i] == number)
            return arrived[i];
    return false;
}

static bool take_signal(int number)
{
    bool arrived_now = has_arrived(number);

    for (int i = 0; arrived_now && i < HANDLED; i++)
        if (handled[i] == number)
            arrived[i] = 0;
    return arrived_now;
}

static void install_handlers(struct dispositions *dispositions)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < HANDLED; i++)
        sigaddset(&set, handled[i]);
    pthread_sigmask(SIG_BLOCK, &set, &dispositions->mask);
    for (int i = 0; i < HANDLED; i++) {
        arrived[i] = 0;
        sigaction(handled[i], NULL, &dispositions->before[i]);
        /* What nohup(1) or a shell told the process to ignore, it ignores; but it must know when it was continued. */
        if (dispositions->before[i].sa_handler != SIG_IGN || handled[i] == SIGCONT || handled[i] == SIGWINCH)
            sigaction(handled[i], &action, NULL);
    }
    sigaction(SIGPIPE, &ignore, &dispositions->pipe); /* an error of write(2) says the same */
}

static void remove_handlers(const struct dispositions *dispositions)
{
    for (int i = 0; i < HANDLED; i++)
        sigaction(handled[i], &dispositions->before[i], NULL);
    sigaction(SIGPIPE, &dispositions->pipe, NULL);
    pthread_sigmask(SIG_SETMASK, &dispositions->mask, NULL);
}

/* Stops this process the way the program stopped. True when it was continued; false, at once, when it was not stopped at
 * all: nobody would continue it (an orphaned process group). A terminal stops a whole process group, so that the user's
 * shell sees the whole job stopped; SIGSTOP is for one process. */
static bool stop_like(int number)
{
    struct sigaction action = { .sa_handler = SIG_DFL }, before;
    sigset_t set, mask;

    take_signal(SIGCONT);
    sigaction(number, NULL, &before);
    if (number != SIGSTOP)
        sigaction(number, &action, NULL);
    kill(number == SIGSTOP ? getpid() : 0, number);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaddset(&set, SIGCONT);
    pthread_sigmask(SIG_UNBLOCK, &set, &mask); /* here it stops, at the latest */
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (number != SIGSTOP)
        sigaction(number, &before, NULL);
    return take_signal(SIGCONT);
}

/* --- which descriptor goes how --------------------------------------------------------------------------------------- */

static bool is_null_device(const struct stat *status)
{
    struct stat null;

    return S_ISCHR(status->st_mode) && stat("/dev/null", &null) == 0 && status->st_rdev == null.st_rdev;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool failed(struct ms_error *error, enum ms_stage stage)
{
    ms_error_set(error, stage, errno, NULL, NULL);
    return false;
}

static bool open_pipe(int ends[2])
{
    if (pipe(ends) != 0) {
        ends[0] = ends[1] = -1;
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0)
            return false;
    return true;
}

static bool carry_input(struct ms_relay *relay, int user, const struct stat *status, struct ms_error *error)
{
    int *ends = relay->pipes[0];

    if (!open_pipe(ends) || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
        return failed(error, MS_STAGE_PIPE);
    relay->program.stdio[0] = ends[0];
    relay->channel[INPUT].from = user;
    relay->channel[INPUT].to = ends[1];
    if (S_ISREG(status->st_mode))
        relay->input_back = user;
    return true;
}

/* `user` -1: what comes is dropped. */
static bool carry_output(struct ms_relay *relay, int number, int user, struct ms_error *error)
{
    int *ends = relay->pipes[number];
    struct channel *channel = &relay->channel[number == 1 ? OUTPUT : ERRORS];

    if (!open_pipe(ends) || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        return failed(error, MS_STAGE_PIPE);
    relay->program.stdio[number] = ends[1];
    channel->from = ends[0];
    channel->to = user;
    return true;
}

static bool sort_descriptors(struct ms_relay *relay, const int user[3], struct ms_error *error)
{
    struct stat status[3];
    bool open[3], terminal[3];
    int first = -1; /* the user's terminal */

    for (int i = 0; i < 3; i++) {
        open[i] = fstat(user[i], &status[i]) == 0;
        terminal[i] = open[i] && isatty(user[i]) && (first < 0 || status[i].st_rdev == status[first].st_rdev);
        if (terminal[i] && first < 0)
            first = i;
    }
    if (first >= 0) {
        if (ms_terminal_open(&relay->terminal, user[first], error) != 0)
            return false;
        relay->has_terminal = relay->program.terminal = true;
        relay->channel[KEYBOARD].to = relay->terminal.master;
        relay->channel[SCREEN].from = relay->terminal.master;
        relay->channel[SCREEN].to = relay->terminal.screen;
        /* Has the program the terminal for itself? Not when its keys are somebody else's: another part of the same
         * pipeline, or what reads the terminal after the program that was given a stdin of its own. */
        relay->wants_keys = terminal[0] && ms_terminal_foreground(&relay->terminal);
        for (int i = 1; i < 3; i++)
            if (open[i] && (S_ISFIFO(status[i].st_mode) || S_ISSOCK(status[i].st_mode)))
                relay->wants_keys = false;
        relay->program.background = !relay->wants_keys;
    }

    for (int i = 0; i < 3; i++) {
        if (terminal[i]) {
            relay->program.stdio[i] = relay->terminal.program;
        } else if (open[i] && ms_descriptor_is_anonymous(user[i])) {
            relay->program.stdio[i] = user[i];
        } else if (i == 0) {
            if (open[0] && !is_null_device(&status[0]) && !carry_input(relay, user[0], &status[0], error))
                return false;
        } else if (i == 2 && open[1] && open[2] && !terminal[1] && same_file(&status[1], &status[2])) {
            relay->program.stdio[2] = relay->program.stdio[1]; /* one way, so that the order of the two stays */
        } else if (!carry_output(relay, i, open[i] ? user[i] : -1, error)) {
            return false;
        }
    }
    return true;
}

struct ms_relay *ms_relay_open(const int user[3], struct ms_error *error)
{
    struct ms_relay *relay = calloc(1, sizeof *relay);

    if (relay == NULL) {
        ms_error_set(error, MS_STAGE_MEMORY, ENOMEM, NULL, NULL);
        return NULL;
    }
    relay->input_back = -1;
    for (int i = 0; i < 3; i++)
        relay->program.stdio[i] = relay->pipes[i][0] = relay->pipes[i][1] = -1;
    for (int i = 0; i < CHANNELS; i++)
        relay->channel[i].from = relay->channel[i].to = -1;
    if (!sort_descriptors(relay, user, error)) {
        ms_relay_close(relay);
        return NULL;
    }
    return relay;
}

const struct ms_relay_program *ms_relay_program(const struct ms_relay *relay)
{
    return &relay->program;
}

void ms_relay_close(struct ms_relay *relay)
{
    if (relay->has_terminal)
        ms_terminal_close(&relay->terminal);
    for (int i = 0; i < 3; i++)
        for (int end = 0; end < 2; end++)
            if (relay->pipes[i][end] >= 0)
                close(relay->pipes[i][end]);
    free(relay);
}

/* --- moving bytes --------------------------------------------------------------------------------------------------- */

static bool would_block(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* No more comes from there. For a pipe to the program this is its end of file. */
static void end_channel(struct ms_relay *relay, int which)
{
    struct channel *channel = &relay->channel[which];

    channel->from = -1;
    if (which == INPUT && channel->to >= 0) {
        close(relay->pipes[0][1]);
        relay->pipes[0][1] = channel->to = -1;
    }
}

/* There are no keys to be had any more: the program reads the end of its input. */
static void end_keyboard(struct ms_relay *relay)
{
    struct channel *channel = &relay->channel[KEYBOARD];

    channel->from = -1;
    if (channel->end < CHUNK)
        channel->bytes[channel->end++] = ms_terminal_end_of_file(&relay->terminal);
}

/* Output that cannot be written is not read any more either, so that the program learns it as it would from a pipe. */
static void lose_output(struct ms_relay *relay, int which, struct ms_relayed *relayed)
{
    struct channel *channel = &relay->channel[which];

    channel->start = channel->end = 0;
    if (which == SCREEN || which == KEYBOARD) {
        channel->to = -1; /* a terminal that is gone: the signals say so */
        return;
    }
    if (which == INPUT) {
        end_channel(relay, INPUT);
        return;
    }
    if (!relayed->output_lost && errno != EPIPE) {
        relayed->output_lost = true;
        ms_error_set(&relayed->output, MS_STAGE_STDIO, errno, which == OUTPUT ? "stdout" : "stderr", NULL);
    }
    int *ends = relay->pipes[which == OUTPUT ? 1 : 2];

    for (int end = 0; end < 2; end++) {
        close(ends[end]);
        ends[end] = -1;
    }
    channel->from = -1;
}

static void empty_channel(struct ms_relay *relay, int which, struct ms_relayed *relayed)
{
    struct channel *channel = &relay->channel[which];

    if (channel->to < 0) {
        channel->start = channel->end = 0;
        return;
    }

    size_t size = channel->end - channel->start;

    /* A descriptor that is not our own blocks; the less at once, the likelier it has room. */
    if ((which == SCREEN && channel->to == relay->terminal.user) || which == OUTPUT || which == ERRORS)
        size = size < PIPE_BUF ? size : PIPE_BUF;

    ssize_t written = write(channel->to, channel->bytes + channel->start, size);

    if (written >= 0)
        channel->start += (size_t)written;
    else if (!would_block(errno))
        lose_output(relay, which, relayed);
    if (channel->start == channel->end)
        channel->start = channel->end = 0;
}

/* True when something came. */
static bool fill_channel(struct ms_relay *relay, int which)
{
    struct channel *channel = &relay->channel[which];
    ssize_t size = read(channel->from, channel->bytes, CHUNK);

    if (size > 0) {
        channel->start = 0;
        channel->end = (size_t)size;
        return true;
    }
    if (size < 0 && would_block(errno))
        return false;
    if (which != KEYBOARD)
        end_channel(relay, which);
    else if (ms_terminal_foreground(&relay->terminal)) /* else the terminal only refused somebody in the background */
        end_keyboard(relay);
    return false;
}

/* Everything that the program has printed until now. */
static void drain(struct ms_relay *relay, struct ms_relayed *relayed)
{
    for (int which = SCREEN; which < CHANNELS; which++) {
        struct channel *channel = &relay->channel[which];

        if (which == INPUT)
            continue;
        while (channel->end > 0 || (channel->from >= 0 && fill_channel(relay, which))) {
            fd_set writable;

            if (channel->to >= 0) {
                FD_ZERO(&writable);
                FD_SET(channel->to, &writable);
                if (pselect(channel->to + 1, NULL, &writable, NULL, NULL, &relay->unblocked) <= 0) {
                    if (has_arrived(SIGTERM) || has_arrived(SIGHUP))
                        return; /* asked to end, while nobody reads the last words */
                    continue;
                }
            }
            empty_channel(relay, which, relayed);
        }
    }
}

/* What the program has not read of a regular file is there for who reads it next, as without the relay. */
static void give_input_back(struct ms_relay *relay)
{
    struct channel *channel = &relay->channel[INPUT];
    int unread = 0;

    if (relay->input_back < 0 || relay->pipes[0][0] < 0 || ioctl(relay->pipes[0][0], FIONREAD, &unread) != 0)
        return;

    off_t back = (off_t)(channel->end - channel->start) + unread;

    if (back > 0)
        lseek(relay->input_back, -back, SEEK_CUR);
    relay->input_back = -1;
}

/* --- job control ----------------------------------------------------------------------------------------------------- */

static void take_keys(struct ms_relay *relay)
{
    if (relay->wants_keys && ms_terminal_take(&relay->terminal))
        relay->channel[KEYBOARD].from = relay->terminal.keyboard;
}

static void leave_keys(struct ms_relay *relay)
{
    ms_terminal_restore(&relay->terminal);
    if (relay->channel[KEYBOARD].from >= 0)
        relay->channel[KEYBOARD].from = -1;
}

static bool has_keys(const struct ms_relay *relay)
{
    return relay->channel[KEYBOARD].from >= 0;
}

/* After a stop of this process, however it came about: the terminal may be ours, or another's by now. */
static void resume(struct ms_relay *relay, struct ms_process *process)
{
    if (relay->has_terminal) {
        ms_terminal_resize(&relay->terminal);
        take_keys(relay);
    }
    ms_process_continue(process, has_keys(relay));
}

static void on_stopped(struct ms_relay *relay, struct ms_process *process, int number, struct ms_relayed *relayed)
{
    bool for_the_terminal = number == SIGTTIN || number == SIGTTOU;

    drain(relay, relayed);
    if (for_the_terminal && !has_keys(relay)) {
        relay->wants_keys = true;
        take_keys(relay);
        if (has_keys(relay)) { /* all that it was stopped for */
            ms_process_continue(process, true);
            return;
        }
    }
    leave_keys(relay);

    bool continued = stop_like(number);

    resume(relay, process);
    if (for_the_terminal && !continued && !has_keys(relay)) {
        end_keyboard(relay);
        ms_process_continue(process, true);
    }
}

static void obey_signals(struct ms_relay *relay, struct ms_process *process, struct ms_relayed *relayed)
{
    static const int passed_on[] = { SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM };
    static const int ends[] = { SIGTERM, SIGHUP };

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (take_signal(ends[i])) {
            ms_process_terminate(process, relayed->signal == 0 ? -1 : 0);
            relayed->signal = ends[i];
        }
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        if (take_signal(passed_on[i]))
            ms_process_signal(process, passed_on[i]);
    if (take_signal(SIGTSTP)) {
        /* With a terminal of its own the program decides, and its stop is reported. Without, nobody could stop it so. */
        ms_process_signal(process, relay->has_terminal ? SIGTSTP : SIGSTOP);
        if (!relay->has_terminal) {
            stop_like(SIGTSTP);
            ms_process_continue(process, false);
        }
    }
    if (take_signal(SIGWINCH) && relay->has_terminal)
        ms_terminal_resize(&relay->terminal);
    if (take_signal(SIGCONT)) { /* of a stop that the program had no part in */
        if (relay->has_terminal && has_keys(relay) && !ms_terminal_foreground(&relay->terminal))
            leave_keys(relay);
        resume(relay, process);
    }
}

/* --- the loop -------------------------------------------------------------------------------------------------------- */

static void wait_for_something(struct ms_relay *relay, int changes, struct ms_relayed *relayed)
{
    fd_set readable, writable;
    int last = changes;

    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(changes, &readable);
    for (int which = 0; which < CHANNELS; which++) {
        struct channel *channel = &relay->channel[which];
        int fd = channel->end > 0 ? channel->to : channel->from;

        if (fd < 0)
            continue;
        if (which == KEYBOARD && channel->end == 0 && !ms_terminal_foreground(&relay->terminal))
            continue; /* the keys are another's */
        FD_SET(fd, channel->end > 0 ? &writable : &readable);
        last = fd > last ? fd : last;
    }
    if (pselect(last + 1, &readable, &writable, NULL, NULL, &relay->unblocked) <= 0)
        return;
    for (int which = 0; which < CHANNELS; which++) {
        struct channel *channel = &relay->channel[which];

        if (channel->end == 0 && channel->from >= 0 && FD_ISSET(channel->from, &readable))
            fill_channel(relay, which);
        if (channel->end > 0 && (channel->to < 0 || FD_ISSET(channel->to, &writable)))
            empty_channel(relay, which, relayed);
    }
}

static bool selectable(const struct ms_relay *relay, int changes)
{
    int most = changes;

    for (int which = 0; which < CHANNELS; which++) {
        most = relay->channel[which].from > most ? relay->channel[which].from : most;
        most = relay->channel[which].to > most ? relay->channel[which].to : most;
    }
    if (relay->has_terminal)
        most = relay->terminal.keyboard > most ? relay->terminal.keyboard : most;
    return most < FD_SETSIZE;
}

int ms_relay_run(struct ms_relay *relay, struct ms_process *process, struct ms_relayed *relayed, struct ms_error *error)
{
    int changes = ms_process_fileno(process);
    struct dispositions dispositions;
    struct ms_facts facts;

    *relayed = (struct ms_relayed){ 0 };
    if (changes < 0 || !selectable(relay, changes)) {
        ms_error_set(error, MS_STAGE_STDIO, changes < 0 ? errno : EMFILE, NULL, NULL);
        return -1;
    }
    install_handlers(&dispositions);
    relay->unblocked = dispositions.mask;
    relay->stops = 0;
    if (relay->has_terminal) {
        ms_terminal_resize(&relay->terminal);
        take_keys(relay);
    }
    for (;;) {
        ms_process_facts(process, &facts);
        if (facts.state == MS_SETTLED)
            break;
        if (facts.stops != relay->stops) {
            relay->stops = facts.stops;
            on_stopped(relay, process, facts.stop_signal, relayed);
        }
        obey_signals(relay, process, relayed);
        wait_for_something(relay, changes, relayed);
    }
    drain(relay, relayed);
    give_input_back(relay);
    if (relay->has_terminal)
        leave_keys(relay);
    remove_handlers(&dispositions);
    return 0;
}
