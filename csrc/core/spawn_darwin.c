/* Starting a process on macOS, and signalling it.
 *
 * fork(2) and a status pipe that closes on exec: the child writes { stage, errno } into it when a step fails. There are no
 * pidfds, so a child is signalled by its number, and only while this process has not reaped it: until then the number
 * belongs to nobody else. A host that reaps any child (waitpid(-1)) takes that certainty away, so before each signal the
 * child is looked at (WNOWAIT). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system.h"

struct failure {
    int stage;
    int error;
};

static int close_on_exec(int ends[2])
{
    if (fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0)
        return 0;
    int failed = errno;
    close(ends[0]);
    close(ends[1]);
    return failed;
}

int ms_pipe(int ends[2])
{
    return pipe(ends) != 0 ? errno : close_on_exec(ends);
}

int ms_system_socketpair(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return errno;
    int failed = close_on_exec(ends);
    int on = 1;
    if (failed == 0) /* there is no MSG_NOSIGNAL */
        (void)setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
    return failed;
}

static int place(int from, int to)
{
    return from == to ? fcntl(from, F_SETFD, 0) : dup2(from, to);
}

static void fail(int status_fd, enum ms_stage stage)
{
    struct failure failure = { .stage = (int)stage, .error = errno };
    (void)!write(status_fd, &failure, sizeof failure);
    _exit(127);
}

static void child_main(const struct ms_start *start, int status_fd)
{
    struct sigaction default_action = { .sa_handler = SIG_DFL };
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &default_action, NULL);
    if (setsid() < 0)
        fail(status_fd, MS_STAGE_SESSION);
    for (int i = 0; i < 3; i++) {
        int from = start->stdio[i];
        if (from == MS_STDIO_NULL)
            from = open("/dev/null", i == 0 ? O_RDONLY : O_WRONLY);
        if (from < 0 || place(from, i) < 0)
            fail(status_fd, MS_STAGE_STDIO);
    }
    if (start->report >= 0 && place(start->report, MS_REPORT_FD) < 0)
        fail(status_fd, MS_STAGE_SOCKET);
    int limit = getdtablesize();
    for (int fd = start->report >= 0 ? MS_REPORT_FD + 1 : MS_REPORT_FD; fd < limit; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (start->cwd != NULL && chdir(start->cwd) != 0)
        fail(status_fd, MS_STAGE_CHDIR);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(start->argv[0], (char *const *)(uintptr_t)start->argv, (char *const *)(uintptr_t)start->envp);
    fail(status_fd, MS_STAGE_EXEC);
}

int ms_system_start(const struct ms_start *start, struct ms_child *child, enum ms_stage *stage)
{
    int ends[2];
    *stage = MS_STAGE_PIPE;
    int failed = ms_pipe(ends);
    if (failed != 0)
        return failed;
    if (ends[1] <= MS_REPORT_FD) { /* where the child puts its own */
        int lifted = fcntl(ends[1], F_DUPFD_CLOEXEC, MS_REPORT_FD + 1);
        failed = errno;
        close(ends[1]);
        ends[1] = lifted;
        if (lifted < 0) {
            close(ends[0]);
            return failed;
        }
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        child_main(start, ends[1]);
    failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        *stage = MS_STAGE_FORK;
        return failed;
    }
    struct failure failure;
    ssize_t got;
    do
        got = read(ends[0], &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    close(ends[0]);
    *child = (struct ms_child){ .pid = pid, .handle = -1 };
    if (got != (ssize_t)sizeof failure)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *child = (struct ms_child){ .pid = -1, .handle = -1, .reaped = true };
    *stage = (enum ms_stage)failure.stage;
    return failure.error;
}

enum ms_reaped ms_child_reap(struct ms_child *child, int *wait_status)
{
    pid_t pid;
    do
        pid = waitpid(child->pid, wait_status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    if (pid == 0)
        return MS_REAP_RUNNING;
    child->reaped = true;
    return pid == child->pid ? MS_REAP_ENDED : MS_REAP_LOST;
}

bool ms_child_ended(const struct ms_child *child)
{
    siginfo_t info = { .si_pid = 0 };
    if (child->reaped)
        return true;
    int failed;
    do
        failed = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (failed != 0 && errno == EINTR);
    return failed != 0 || info.si_pid != 0;
}

/* Is the number surely still the child's? */
static bool still_ours(const struct ms_child *child)
{
    siginfo_t info;
    return !child->reaped && waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int ms_child_signal(const struct ms_child *child, int signal)
{
    if (!still_ours(child))
        return ESRCH;
    return kill(child->pid, signal) != 0 ? errno : 0;
}

int ms_child_signal_group(const struct ms_child *child, int signal)
{
    if (!still_ours(child))
        return ESRCH;
    return kill(-child->pid, signal) != 0 ? errno : 0;
}

void ms_child_close(struct ms_child *child)
{
    (void)child;
}
