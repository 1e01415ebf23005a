/* moonsand-launch: starts one command, confined as it was told, as the root of a process tree; says on its report
 * descriptor what becomes of it; and leaves none of the tree behind. Section 4 of the design.
 *
 * In order: read the command line; take the report over; become the tree's root; verify and prepare the confinement;
 * start the command; then wait for three things at once: the tree's processes, the host's requests, and the calls that
 * the fence hands to the broker. When the command has ended, what is left of the tree is killed, unless the host asked
 * for a termination with grace: then what is left has until the host's next word.
 *
 * Exit status: the command's own, 128 + n when signal n ended it; 125 when it was not run because the confinement could
 * not be had, with one line on stderr; 126 or 127 when it could not be started. */
#include "child.h"
#include "confine.h"
#include "environment.h"
#include "failure.h"
#include "options.h"
#include "report.h"
#include "tree.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

extern char **environ;

enum { EXIT_CONFINEMENT = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* How long until another look at a tree that is being killed and is not gone yet. */
enum { KILL_AGAIN_FIRST_MS = 1, KILL_AGAIN_MOST_MS = 64 };

struct launch {
    struct options options;
    struct confinement confinement;
    struct reporter reporter;
    char **environment;
    pid_t host;     /* whose child the launcher is, and must not outlive */
    pid_t launcher; /* itself */
    pid_t command;
    bool ended;
    bool ended_said;
    int status;       /* the command's, once ended */
    int terminal;     /* the descriptor of the terminal that controls this session; -1 without --terminal */
    bool terminating; /* the tree has been asked to end, and has grace */
    bool killing;     /* whatever is left is being killed */
    bool killed;      /* some of it has been */
    bool tree_gone;
    int leftovers;
};

static volatile sig_atomic_t forwarded; /* the signal to pass on to the command, 0 for none */

static void on_signal(int signal)
{
    if (signal != SIGCHLD)
        forwarded = signal;
}

static const int handled[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT };

/* Handled signals stay blocked but for the wait in `watch`: none is lost between a look and the wait. */
static void block_signals(void)
{
    sigset_t set;
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU); /* whoever moves a terminal's foreground from its background would be stopped */
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        sigaddset(&set, handled[i]);
        sigaction(handled[i], &action, NULL);
    }
    sigprocmask(SIG_SETMASK, &set, NULL);
}

/* Nothing of the command has run: says so on stderr and then to the host, which looks at stderr once it is told. */
static int refuse(const struct launch *launch, const struct failure *failure)
{
    const char *path = failure->path;
    if (failure->stage == MS_STAGE_EXEC)
        path = launch->options.argv[0];
    else if (failure->stage == MS_STAGE_CHDIR)
        path = launch->options.directory;
    signal(SIGPIPE, SIG_IGN);
    fprintf(stderr, "moonsand-launch: %s%s%s: %s\n", stage_word(failure->stage), path ? " " : "", path ? path : "",
            strerror(failure->error));
    bool confinement = failure->stage >= MS_STAGE_SUBREAPER;
    reporter_say(&launch->reporter, (struct ms_record){
                                        .kind = confinement ? MS_REPORT_FAILED : MS_REPORT_EXEC_FAILED,
                                        .stage = (uint16_t)failure->stage,
                                        .error = failure->error,
                                    });
    if (failure->stage != MS_STAGE_EXEC)
        return EXIT_CONFINEMENT;
    return failure->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* The terminal among the standard descriptors becomes the one that controls the session of launcher and command. It is one
 * session, because a process group whose parent is in no other group of its session cannot be stopped from its terminal:
 * with the launcher elsewhere, Ctrl-Z would do nothing (POSIX, orphaned process groups). */
static bool take_terminal(struct launch *launch, struct failure *failure)
{
    if (getsid(0) != getpid() && setsid() < 0)
        return fail(failure, MS_STAGE_SESSION, NULL);
    for (int fd = 0; fd <= 2; fd++)
        if (isatty(fd)) {
            launch->terminal = fd;
            return ioctl(fd, TIOCSCTTY, 0) == 0 ? true : fail(failure, MS_STAGE_TERMINAL, NULL);
        }
    errno = ENOTTY;
    return fail(failure, MS_STAGE_TERMINAL, NULL);
}

/* In the child: a session of its own, or with a terminal a process group of its own in the launcher's session. */
static bool stand_alone(const struct launch *launch, struct failure *failure)
{
    if (launch->terminal < 0)
        return setsid() >= 0 ? true : fail(failure, MS_STAGE_SESSION, NULL);
    if (setpgid(0, 0) != 0)
        return fail(failure, MS_STAGE_SESSION, NULL);
    if (!launch->options.background && tcsetpgrp(launch->terminal, getpid()) != 0)
        return fail(failure, MS_STAGE_TERMINAL, NULL);
    return true;
}

/* Continues the command, in its terminal's foreground or out of it. When some other group has the foreground, as under a
 * shell that is the command, it keeps it. */
static void continue_command(const struct launch *launch, bool foreground)
{
    if (launch->ended)
        return;
    if (launch->terminal >= 0) {
        pid_t now = tcgetpgrp(launch->terminal);
        if (foreground && now == getpgrp())
            tcsetpgrp(launch->terminal, launch->command);
        else if (!foreground && now == launch->command)
            tcsetpgrp(launch->terminal, getpgrp());
    }
    kill(-launch->command, SIGCONT);
}

static bool empty_stdin(struct failure *failure)
{
    int fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || (fd != STDIN_FILENO && dup2(fd, STDIN_FILENO) < 0))
        return fail(failure, MS_STAGE_STDIO, "/dev/null");
    if (fd > STDERR_FILENO)
        close(fd);
    return true;
}

/* In the child: everything up to the exec. */
static void become_command(void *context, struct failure *failure)
{
    struct launch *launch = context;
    const struct options *options = &launch->options;
    if (!stand_alone(launch, failure))
        return;
    if (options->stdin_null && !empty_stdin(failure))
        return;
    child_close_inherited();
    if (!confinement_enter(&launch->confinement, failure))
        return;
    struct ms_record confined = {
        .kind = MS_REPORT_CONFINED,
        .value = launch->confinement.abi,
        .flags = launch->confinement.gaps,
        .pid = getpid(),
    };
    /* A host that gives up now closes its end of the report, and may kill the launcher: then nothing is executed. */
    if (!child_die_with_parent(launch->launcher) || !reporter_ask(&launch->reporter, confined)) {
        errno = ECANCELED;
        fail(failure, MS_STAGE_SUPERVISOR, NULL);
        return;
    }
    if (options->directory != NULL && chdir(options->directory) != 0) {
        fail(failure, MS_STAGE_CHDIR, options->directory);
        return;
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(options->argv[0], options->argv, launch->environment);
    fail(failure, MS_STAGE_EXEC, options->argv[0]);
}

static void say_ended(struct launch *launch)
{
    struct ms_record ended = { .kind = MS_REPORT_ENDED, .value = launch->status };
    struct ms_record leftovers = { .kind = MS_REPORT_LEFTOVERS, .value = launch->leftovers };
    if (!launch->ended_said && launch->tree_gone)
        reporter_say_both(&launch->reporter, ended, leftovers);
    else if (!launch->ended_said)
        reporter_say(&launch->reporter, ended);
    else if (launch->tree_gone)
        reporter_say(&launch->reporter, leftovers);
    launch->ended_said = true;
}

/* Collects every process that has changed its state, until there is nothing more to collect now. */
static void reap(struct launch *launch)
{
    int status, flags = WNOHANG | (launch->options.terminal ? WUNTRACED : 0);
    pid_t pid;
    while ((pid = waitpid(-1, &status, flags)) > 0) {
        if (WIFSTOPPED(status)) {
            if (pid == launch->command)
                reporter_say(&launch->reporter,
                             (struct ms_record){ .kind = MS_REPORT_STOPPED, .value = WSTOPSIG(status) });
        } else if (pid == launch->command) {
            launch->ended = true;
            launch->status = status;
        } else if (launch->killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
            launch->leftovers++;
        }
    }
    launch->tree_gone = pid < 0 && errno == ECHILD;
    if (launch->ended)
        say_ended(launch);
    /* What the command leaves is stopped at once, unless the tree is already ending with grace. */
    launch->killing = launch->killing || (launch->ended && !launch->terminating);
}

static void signal_command(const struct launch *launch, int signal)
{
    if (!launch->ended) /* not reaped: its group cannot be another's */
        kill(-launch->command, signal);
}

static void obey(struct launch *launch)
{
    struct ms_record request;
    for (;;) {
        switch (reporter_read(&launch->reporter, &request)) {
        case REQUEST_NONE:
            return;
        case REQUEST_HOST_GONE:
            close(launch->reporter.fd);
            launch->reporter.fd = -1;
            launch->killing = true;
            return;
        case REQUEST_READY:
            break;
        }
        if (request.kind == MS_REQUEST_TERMINATE && !launch->terminating && !launch->killing) {
            launch->terminating = true;
            tree_signal(launch->command, SIGTERM);
            tree_signal(launch->command, SIGCONT); /* a stopped process hears TERM only then */
        } else if (request.kind == MS_REQUEST_KILL) {
            launch->killing = true;
        } else if (request.kind == MS_REQUEST_SIGNAL) {
            signal_command(launch, request.value);
        } else if (request.kind == MS_REQUEST_CONTINUE) {
            continue_command(launch, request.value != 0);
        }
    }
}

/* Waits for the next thing to happen, at most `timeout_ms` (-1: as long as it takes), and sees to it. */
static void watch(struct launch *launch, int timeout_ms)
{
    struct pollfd watched[] = {
        { .fd = launch->reporter.fd, .events = POLLIN },
        { .fd = launch->confinement.listener, .events = POLLIN },
    };
    sigset_t none;
    sigemptyset(&none);
#ifdef __linux__
    struct timespec timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
    int ready = ppoll(watched, 2, timeout_ms < 0 ? NULL : &timeout, &none);
#else
    /* No ppoll: a signal that comes between the two calls is seen at the latest a moment later. */
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, &none, &blocked);
    int ready = poll(watched, 2, timeout_ms < 0 || timeout_ms > 20 ? 20 : timeout_ms);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
#endif
    if (forwarded == SIGHUP && getppid() != launch->host)
        launch->killing = true;
    else if (forwarded != 0)
        signal_command(launch, forwarded);
    forwarded = 0;
    if (ready <= 0)
        return;
    if (watched[1].revents & POLLIN) {
        confinement_serve(&launch->confinement);
    } else if (watched[1].revents != 0) { /* nobody is behind the fence any more */
        close(launch->confinement.listener);
        launch->confinement.listener = -1;
    }
    if (watched[0].revents != 0)
        obey(launch);
}

/* Until the command has ended and nothing of its tree is left. */
static void attend(struct launch *launch)
{
    int again_ms = KILL_AGAIN_FIRST_MS;
    for (;;) {
        reap(launch);
        if (launch->tree_gone)
            return;
        if (launch->killing) {
            launch->killed = tree_kill_children(launch->command) > 0 || launch->killed;
            watch(launch, again_ms);
            again_ms = again_ms * 2 < KILL_AGAIN_MOST_MS ? again_ms * 2 : KILL_AGAIN_MOST_MS;
        } else {
            watch(launch, -1);
        }
    }
}

static int run(struct launch *launch)
{
    struct failure failure = { 0 };
    if (launch->options.terminal && !take_terminal(launch, &failure))
        return refuse(launch, &failure);
    if (!tree_adopt(&failure) || !confinement_prepare(&launch->confinement, &launch->options, &failure))
        return refuse(launch, &failure);
    launch->command = child_start(become_command, launch, &failure);
    if (launch->command == 0)
        return refuse(launch, &failure);
    tree_prepare();
    attend(launch);
    /* The host has been woken, as likely as not on this processor: it goes first, and the taking down of this process
     * after it. */
    sched_yield();
    return WIFSIGNALED(launch->status) ? 128 + WTERMSIG(launch->status) : WEXITSTATUS(launch->status);
}

int main(int argc, char **argv)
{
    struct launch launch = { .host = getppid(),
                             .launcher = getpid(),
                             .terminal = -1,
                             .reporter = { .fd = -1 },
                             .confinement = { .listener = -1 } };
    const char *lists[options_room(argc, argv)];
    if (!options_parse(&launch.options, lists, argc, argv))
        return EXIT_CONFINEMENT;
    if (launch.options.probe)
        return confinement_probe();
    if (launch.options.report_fd >= 0 && !reporter_open(&launch.reporter, launch.options.report_fd) &&
        !(launch.options.report_optional && errno == EBADF)) {
        fprintf(stderr, "moonsand-launch: report descriptor: %s\n", strerror(errno));
        return EXIT_CONFINEMENT;
    }
    block_signals();
    char *environment[environment_room(&launch.options, environ)];
    environment_for_command(&launch.options, environ, environment);
    launch.environment = environment;
    return run(&launch);
}
