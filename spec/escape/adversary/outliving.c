/* Outliving the command: a process that is still there when the command is over. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOPPERS = 12, HOP_SECONDS = 3 };

static int settled(void)
{
    usleep(50000);
    return DONE;
}

static int background(const struct facts *facts)
{
    if (fork() == 0)
        linger(facts);
    return settled();
}

static int session(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        linger(facts);
    }
    return settled();
}

static int double_fork(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            linger(facts);
        _exit(0);
    }
    return settled();
}

static int deaf(const struct facts *facts)
{
    if (fork() == 0) {
        for (int i = 1; i < 65; i++)
            signal(i, SIG_IGN);
        setsid();
        linger(facts);
    }
    return settled();
}

static int stopped(const struct facts *facts)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        linger(facts);
    }
    usleep(30000);
    kill(pid, SIGSTOP);
    return settled();
}

static int traced(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        pid_t pid = fork();
        if (pid == 0) {
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            linger(facts);
        }
        int status;
        waitpid(pid, &status, __WALL);
        ptrace(PTRACE_CONT, pid, NULL, NULL);
        linger(facts);
    }
    return settled();
}

static int traced_by_launcher(const struct facts *facts)
{
    if (fork() == 0) {
        usleep(20000);
        setsid();
        if (fork() == 0) {
            while (getppid() != facts->launcher && getppid() != 1)
                usleep(1000);
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            linger(facts);
        }
        _exit(0);
    }
    return settled();
}

static int adopter(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        if (fork() == 0) {
            if (fork() == 0)
                linger(facts);
            _exit(0);
        }
        usleep(20000);
        linger(facts);
    }
    return settled();
}

/* A sibling instead of a child. */
static int sibling(const struct facts *facts)
{
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0UL) == 0) {
        setsid();
        linger(facts);
    }
    return settled();
}

static int sibling_of_command(const struct facts *facts)
{
    if (fork() == 0) {
        if (syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, 0UL) == 0) {
            setsid();
            linger(facts);
        }
        _exit(0);
    }
    return settled();
}

static int nested_namespace(const struct facts *facts)
{
    if (fork() == 0) {
        if (own_namespaces(CLONE_NEWPID) && fork() == 0) {
            for (int i = 1; i < 65; i++)
                signal(i, SIG_IGN);
            setsid();
            linger(facts);
        }
        linger(facts);
    }
    return settled();
}

static int vforked(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        if (vfork() == 0) {
            for (;;)
                pause();
        }
        _exit(0);
    }
    if (fork() == 0)
        linger(facts);
    return settled();
}

/* Never long enough under one pid to be caught: each forks and ends. The last of them stays. */
static int hoppers(const struct facts *facts)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < HOPPERS; i++) {
        if (fork() != 0)
            continue;
        setsid();
        for (;;) {
            pid_t pid = fork();
            if (pid > 0)
                _exit(0);
            clock_gettime(CLOCK_MONOTONIC, &now);
            if (pid == 0 && now.tv_sec - start.tv_sec >= HOP_SECONDS)
                linger(facts);
        }
    }
    return settled();
}

/* Many, so that the last are made while the first are being killed. */
static int crowd(const struct facts *facts)
{
    for (int i = 0; i < 150; i++)
        if (fork() == 0) {
            setsid();
            for (int j = 0; j < 3; j++)
                if (fork() == 0)
                    usleep(200000);
            linger(facts);
        }
    return settled();
}

static int threads(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        static char stack[65536];
        /* A thread whose leader has ended: the group has no living first member, and is still there. */
        if (syscall(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD,
                    stack + sizeof stack - 256, NULL, NULL, 0UL) == 0)
            for (;;)
                sleep(1);
        syscall(SYS_exit, 0);
    }
    if (fork() == 0)
        linger(facts);
    return settled();
}

static int timer(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGALRM);
        sigprocmask(SIG_BLOCK, &set, NULL);
        ualarm(400000, 0);
        int signal;
        sigwait(&set, &signal);
        linger(facts);
    }
    return settled();
}

static int file_exhaustion(const struct facts *facts)
{
    (void)facts;
    return absent("running the machine out of descriptors would hurt everybody");
}

#define LINGER "exec -a moonsand-linger \"$ADVERSARY\" linger \"$NAME\" >/dev/null 2>&1 </dev/null"

static const struct attack list[] = {
    { "outlive-background", "alive:", "a child", background, NULL, 0 },
    { "outlive-setsid", "alive:", "a child in a session of its own", session, NULL, 0 },
    { "outlive-double-fork", "alive:", "a daemon", double_fork, NULL, 0 },
    { "outlive-deaf", "alive:", "a process that ignores every signal", deaf, NULL, 0 },
    { "outlive-stopped", "alive:", "a stopped process", stopped, NULL, 0 },
    { "outlive-traced", "alive:", "a process that another one traces", traced, NULL, 0 },
    { "outlive-traceme", "alive:", "a process whose tracer is the launcher", traced_by_launcher, NULL, 0 },
    { "outlive-subreaper", "alive:", "a process that another one adopts", adopter, NULL, 0 },
    { "outlive-sibling", "alive:", "CLONE_PARENT", sibling, NULL, 0 },
    { "outlive-launcher-child", "alive:", "CLONE_PARENT without a signal at its end", sibling_of_command, NULL, 0 },
    { "outlive-pid-namespace", "alive:", "the first process of a pid namespace", nested_namespace, NULL, 0 },
    { "outlive-vfork", "alive:", "a parent that waits in vfork(2)", vforked, NULL, 0 },
    { "outlive-hoppers", "alive:", "processes that fork and end without pause", hoppers, NULL, ALONE },
    { "outlive-crowd", "alive:", "600 processes at once", crowd, NULL, ALONE },
    { "outlive-thread", "alive:", "a thread whose leader has ended", threads, NULL, 0 },
    { "outlive-timer", "alive:", "a process that acts later", timer, NULL, 0 },
    { "outlive-nohup", "alive:", "nohup and disown", NULL, "nohup bash -c '" LINGER "' >/dev/null 2>&1 & sleep 0.05",
      0 },
    { "outlive-coproc", "alive:", "setsid(1), twice", NULL, "setsid setsid bash -c '" LINGER "' & sleep 0.05", 0 },
    { "outlive-at", "alive:", "at(1)", NULL,
      "command -v at >/dev/null || { echo at is not installed; exit 77; }; echo \"moonsand-linger\" | at now",
      ALONE | UNPROVEN },
    { "outlive-crontab", "alive:", "crontab(1)", NULL,
      "command -v crontab >/dev/null || { echo crontab is not installed; exit 77; }; exit 1", ALONE | UNPROVEN },
    { "outlive-systemd-run", "alive:", "systemd-run(1)", NULL,
      "[ -d /run/systemd/system ] || { echo systemd does not run here; exit 77; }; systemd-run --user "
      "--unit=moonsand-mark sleep 20",
      ALONE | UNPROVEN },
    { "outlive-exhaustion", "alive:", "no descriptors for anybody", file_exhaustion, NULL, ALONE },
};

FAMILY(outliving_family, "outliving", list);
