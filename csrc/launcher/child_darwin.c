/* macOS: fork, and a pipe that an exec closes; what comes through it is the failure. */
#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(child_body *body, void *context, int status_fd)
{
    struct failure failure = { 0 };
    body(context, &failure);
    failure.path = NULL; /* a pointer of the child's means nothing to the launcher */
    while (write(status_fd, &failure, sizeof failure) < 0 && errno == EINTR)
        continue;
    _exit(125);
}

pid_t child_start(child_body *body, void *context, struct failure *failure)
{
    int ends[2];
    if (pipe(ends) != 0) {
        fail(failure, MS_STAGE_PIPE, NULL);
        return 0;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    if (pid < 0)
        fail(failure, MS_STAGE_FORK, NULL);
    if (pid == 0)
        run(body, context, ends[1]);
    close(ends[1]);
    ssize_t n = -1;
    while (pid > 0 && (n = read(ends[0], failure, sizeof *failure)) < 0 && errno == EINTR)
        continue;
    close(ends[0]);
    if (pid < 0 || n <= 0)
        return pid < 0 ? 0 : pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

void child_close_inherited(void)
{
    for (int fd = 3; fd < getdtablesize(); fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

bool child_die_with_parent(pid_t parent)
{
    /* The kernel has no such signal. A launcher that ends later is noticed by the host. */
    return getppid() == parent;
}
