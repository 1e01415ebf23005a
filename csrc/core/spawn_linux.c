/* Starting a process on Linux, and signalling it by its pidfd.
 *
 * The child is made with clone(CLONE_VM | CLONE_VFORK | CLONE_PIDFD): it borrows the parent's memory until it executes, so
 * the cost does not grow with the host, and it writes what failed where the parent reads it (no status pipe). In exchange
 * it may only make system calls: it must change nothing in memory but its own stack and `struct child_work`, take no lock,
 * and run no signal handler of the host. Hence all signals are blocked around it, it resets every disposition before it
 * unblocks, and it goes around wrappers of the C library (and of sanitizers) that keep state.
 *
 * Needs Linux 5.4 (waitid on a pidfd). Uses, where they are there: close_range (5.9), signalling a process group by pidfd
 * (6.9), the exit status of a child that somebody else has reaped (6.15). */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h> /* before <sched.h>: its CLONE_PIDFD is not in older C libraries */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

/* The kernel's numbers, for C libraries whose headers are older than the kernel. */
enum { P_PIDFD_NUMBER = 3, PIDFD_SIGNAL_PROCESS_GROUP_FLAG = 1 << 2 };

/* <linux/pidfd.h>: struct pidfd_info, of which any size from the first version on is accepted. */
struct pidfd_facts {
    uint64_t mask;
    uint64_t cgroup_id;
    uint32_t pid, tgid, ppid;
    uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_facts) == 64, "PIDFD_INFO_SIZE_VER0");
#define PIDFD_FACTS_EXIT (UINT64_C(1) << 3)
#define PIDFD_FACTS_REQUEST _IOWR(0xFF, 11, struct pidfd_facts)

/* No sanitizer may instrument what runs on borrowed memory: it would count the child's calls in the parent's thread. */
#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#define BORROWED __attribute__((disable_sanitizer_instrumentation, noinline))
#endif
#endif
#ifndef BORROWED
#define BORROWED __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
#endif

int ms_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) != 0 ? errno : 0;
}

int ms_system_socketpair(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ? errno : 0;
}

/* ThreadSanitizer takes every clone() for a fork(): in the child it switches its own bookkeeping off, and here that is the
 * parent's. glibc has the same function under a second name, which it leaves alone. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#endif
#endif
#ifdef UNDER_THREAD_SANITIZER
int __clone(int (*run)(void *), void *stack, int flags, void *argument, ...);
#define clone __clone
#endif

struct child_work {
    const struct ms_start *start;
    pid_t host;         /* 0: the child need not die with it */
    volatile int stage; /* written by the child when it fails */
    volatile int error;
};

BORROWED static long call(long number, long a, long b, long c, long d)
{
    return syscall(number, a, b, c, d);
}

/* Every disposition to its default: ignored ones would be inherited, and handlers are code of the host. The kernel's struct
 * differs between processors, but all zero is SIG_DFL, no flags, an empty mask on all of them. */
BORROWED static void reset_signals(void)
{
    static const unsigned long default_action[16];
    for (int number = 1; number < _NSIG; number++)
        call(SYS_rt_sigaction, number, (long)default_action, 0, (_NSIG - 1) / 8);
}

BORROWED static void close_from(int first)
{
    if (call(SYS_close_range, first, (long)~0U, 0, 0) == 0)
        return;
    struct rlimit limit;
    if (call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit) != 0)
        limit.rlim_cur = 1024;
    for (int fd = first; (rlim_t)fd < limit.rlim_cur; fd++)
        call(SYS_close, fd, 0, 0, 0);
}

/* Puts `from` at `to`, without close-on-exec. -1 on failure. */
BORROWED static int place(int from, int to)
{
    if (from == to)
        return (int)call(SYS_fcntl, from, F_SETFD, 0, 0);
    return (int)call(SYS_dup3, from, to, 0, 0);
}

BORROWED static int fail(struct child_work *work, enum ms_stage stage)
{
    work->error = errno;
    work->stage = (int)stage;
    call(SYS_exit_group, 127, 0, 0, 0);
    __builtin_unreachable();
}

BORROWED static int child_main(void *argument)
{
    struct child_work *work = argument;
    const struct ms_start *start = work->start;

    reset_signals();
    if (work->host != 0) {
        call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
        if (call(SYS_getppid, 0, 0, 0, 0) != work->host) /* it died before that */
            call(SYS_exit_group, 127, 0, 0, 0);
    }
    if (call(SYS_setsid, 0, 0, 0, 0) < 0)
        return fail(work, MS_STAGE_SESSION);
    for (int i = 0; i < 3; i++) {
        int from = start->stdio[i];
        if (from == MS_STDIO_NULL)
            from = (int)call(SYS_openat, AT_FDCWD, (long)"/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
        if (from < 0 || place(from, i) < 0)
            return fail(work, MS_STAGE_STDIO);
    }
    if (start->report >= 0 && place(start->report, MS_REPORT_FD) < 0)
        return fail(work, MS_STAGE_SOCKET);
    close_from(start->report >= 0 ? MS_REPORT_FD + 1 : MS_REPORT_FD);
    if (start->cwd != NULL && call(SYS_chdir, (long)start->cwd, 0, 0, 0) != 0)
        return fail(work, MS_STAGE_CHDIR);
    static const unsigned long empty_mask[16];
    call(SYS_rt_sigprocmask, SIG_SETMASK, (long)empty_mask, 0, (_NSIG - 1) / 8);
    call(SYS_execve, (long)start->argv[0], (long)start->argv, (long)start->envp, 0);
    return fail(work, MS_STAGE_EXEC);
}

int ms_system_start(const struct ms_start *start, struct ms_child *child, enum ms_stage *stage)
{
    /* The child needs little more than the frames above; what a signal would need does not count, they are blocked. */
    _Alignas(16) char stack[8192];
    struct child_work work = { .start = start, .host = 0 };
    if (start->die_with_host && call(SYS_gettid, 0, 0, 0, 0) == getpid())
        work.host = getpid();
    sigset_t all, before;
    int pidfd = -1;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &work, &pidfd);
    int failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (pid < 0) {
        *stage = MS_STAGE_FORK;
        return failed;
    }
    *child = (struct ms_child){ .pid = pid, .handle = pidfd };
    if (work.stage == MS_STAGE_NONE)
        return 0;
    siginfo_t ignored;
    while (waitid((idtype_t)P_PIDFD_NUMBER, (id_t)pidfd, &ignored, WEXITED) != 0 && errno == EINTR)
        ;
    close(pidfd);
    *child = (struct ms_child){ .pid = -1, .handle = -1, .reaped = true };
    *stage = (enum ms_stage)work.stage;
    return work.error;
}

static int wait_status_of(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        return (info->si_status & 0xff) << 8;
    return (info->si_status & 0x7f) | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

enum ms_reaped ms_child_reap(struct ms_child *child, int *wait_status)
{
    siginfo_t info = { .si_pid = 0 };
    int failed;
    do
        failed = waitid((idtype_t)P_PIDFD_NUMBER, (id_t)child->handle, &info, WEXITED | WNOHANG | __WALL);
    while (failed != 0 && errno == EINTR);
    if (failed == 0 && info.si_pid == 0)
        return MS_REAP_RUNNING;
    if (failed == 0) {
        child->reaped = true;
        *wait_status = wait_status_of(&info);
        return MS_REAP_ENDED;
    }
    /* ECHILD: the host ignores SIGCHLD, or waits for any child and was faster. */
    if (!ms_child_ended(child))
        return MS_REAP_RUNNING;
    child->reaped = true;
    struct pidfd_facts facts = { .mask = PIDFD_FACTS_EXIT };
    /* The kernel's own call: C libraries disagree about the type of a request. */
    if (syscall(SYS_ioctl, child->handle, PIDFD_FACTS_REQUEST, &facts) == 0 && (facts.mask & PIDFD_FACTS_EXIT) != 0) {
        *wait_status = facts.exit_code;
        return MS_REAP_ENDED;
    }
    return MS_REAP_LOST;
}

/* Is it our child still, running or not yet reaped? Then its number belongs to nobody else. */
static bool is_unreaped(const struct ms_child *child, siginfo_t *info)
{
    int failed;
    if (child->reaped)
        return false;
    *info = (siginfo_t){ .si_pid = 0 };
    do
        failed = waitid((idtype_t)P_PIDFD_NUMBER, (id_t)child->handle, info, WEXITED | WNOHANG | WNOWAIT | __WALL);
    while (failed != 0 && errno == EINTR);
    return failed == 0;
}

bool ms_child_ended(const struct ms_child *child)
{
    siginfo_t info;
    if (is_unreaped(child, &info))
        return info.si_pid != 0;
    /* Somebody else has reaped it, or will: a child whose parent ignores SIGCHLD is nobody's from its exit on. */
    struct pollfd handle = { .fd = child->handle, .events = POLLIN };
    return child->reaped || poll(&handle, 1, 0) == 1;
}

/* `target` is what kill(2) gets when the kernel cannot do it by pidfd: then only as long as the number is surely the child's. */
static int send_signal(const struct ms_child *child, int signal, unsigned flags, pid_t target)
{
    siginfo_t info;
    if (call(SYS_pidfd_send_signal, child->handle, signal, 0, (long)flags) == 0)
        return 0;
    if (errno != ENOSYS && (errno != EINVAL || flags == 0))
        return errno;
    if (!is_unreaped(child, &info))
        return ESRCH;
    return kill(target, signal) != 0 ? errno : 0;
}

int ms_child_signal(const struct ms_child *child, int signal)
{
    return send_signal(child, signal, 0, child->pid);
}

int ms_child_signal_group(const struct ms_child *child, int signal)
{
    /* By pidfd it is right even after the leader was reaped: it stands for this one use of the number, also as a group. */
    return send_signal(child, signal, PIDFD_SIGNAL_PROCESS_GROUP_FLAG, -child->pid);
}

void ms_child_close(struct ms_child *child)
{
    if (child->handle >= 0) {
        int handle = child->handle;
        child->handle = -1;
        close(handle);
    }
}
