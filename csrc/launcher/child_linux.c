/* Linux: the child borrows the launcher's memory and descriptors until it execs (clone(2) with CLONE_VM, CLONE_VFORK and
 * CLONE_FILES). Its failure is thus simply there, and the descriptor that the broker listens on, which only the confined
 * process can make, is in the launcher's hands without being passed. */
#include "child.h"
#include "kernel.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_VM
#define CLONE_VM 0x100
#define CLONE_FILES 0x400
#define CLONE_VFORK 0x4000
int clone(int (*function)(void *), void *stack, int flags, void *argument, ...);
#endif

struct start {
    child_body *body;
    void *context;
    struct failure *failure;
    volatile bool returned;
};

static int in_child(void *argument)
{
    struct start *start = argument;
    start->body(start->context, start->failure);
    start->returned = true;
    _exit(125);
}

pid_t child_start(child_body *body, void *context, struct failure *failure)
{
    static _Alignas(16) char stack[64 * 1024];
    struct start start = { .body = body, .context = context, .failure = failure };
    pid_t pid = clone(in_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &start);
    if (pid < 0) {
        fail(failure, MS_STAGE_FORK, NULL);
        return 0;
    }
    if (!start.returned)
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

void child_close_inherited(void)
{
    if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC_FLAG) == 0)
        return;
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = 3; fd < (most > 0 ? most : 65536); fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

bool child_die_with_parent(pid_t parent)
{
    /* The signal is sent for a death that comes after this call; one that came before shows in who the parent is now. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent;
}
