/* A launcher for the core's own tests: speaks report.h, confines nothing, and misbehaves on request.
 *
 *     fake_launcher MANNER... -- ARGV...
 *
 * Manners: fail            says FAILED (landlock, EOPNOTSUPP)
 *          vanish          exits with 1 and a word on stderr, and says nothing
 *          mute            says nothing at all and hangs, TERM ignored
 *          late            says CONFINED only after 300 ms; obeys the rule not to execute when that fails
 *          orphan          ends at once, with 3, and leaves a child that holds the report until the host closes it
 *          close           closes the report, then executes ARGV in its own place (a runner that closes descriptors)
 *          nonsense        writes bytes that are no record
 *          dribble         sends its records byte by byte
 *          die-after-end   exits after ENDED, without LEFTOVERS
 *          deaf            reads no request
 *          touch=PATH      makes the file PATH just before it executes
 *          inspect         starts nothing: looks whether it got what a spawned program should get, and nothing else
 *          inspect-report  the same, with a report
 * Without any it behaves: CONFINED, the command in a session of its own, ENDED, leftovers killed, LEFTOVERS. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

static bool dribble;

static bool say(struct ms_record record)
{
    record.magic = MS_RECORD_MAGIC;
    const char *bytes = (const char *)&record;
    size_t step = dribble ? 1 : sizeof record;
    for (size_t done = 0; done < sizeof record; done += step) {
        if (send(MS_REPORT_FD, bytes + done, step, MSG_NOSIGNAL) != (ssize_t)step)
            return false;
        if (dribble)
            usleep(500);
    }
    return true;
}

/* Every process below this one that is not a zombie gets `number`; returns how many there were. A subreaper's children are all
 * there is to look at once their parents are gone, and a stopped or busy one is found again in the next round. */
static int signal_tree(pid_t root, int number)
{
    char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)root, (int)root);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    int count = 0;
    for (char *at = text, *end;; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        count += signal_tree((pid_t)pid, number);
        if (kill((pid_t)pid, number) == 0)
            count++;
    }
    return count;
}

static void kill_all(pid_t command, int *status, bool *ended)
{
    while (signal_tree(getpid(), SIGKILL) > 0) {
        int got;
        for (pid_t pid; (pid = waitpid(-1, &got, WNOHANG)) > 0;)
            if (pid == command) {
                *status = got;
                *ended = true;
            }
        usleep(1000);
    }
}

/* A session of its own, no terminal, no descriptor too many, no signal ignored, handled or blocked. (It is done here and not
 * in a test, because sanitizers install handlers before main.) */
static int inspect(bool report)
{
    if (getsid(0) != getpid() || getpgrp() != getpid() || open("/dev/tty", O_RDWR) >= 0)
        return 1;
    for (int fd = 0; fd < 2048; fd++)
        if ((fcntl(fd, F_GETFD) >= 0) != (fd <= 2 || (fd == MS_REPORT_FD && report)))
            return 2;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < _NSIG; number++) {
        struct sigaction action;
        if (sigismember(&mask, number) == 1)
            return 3;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            return 4;
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool orphan = false, fail = false, vanish = false, mute = false, late = false, closes = false, nonsense = false,
         dies = false, deaf = false;
    const char *touch = NULL;
    int at = 1;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        orphan |= strcmp(argv[at], "orphan") == 0;
        fail |= strcmp(argv[at], "fail") == 0;
        vanish |= strcmp(argv[at], "vanish") == 0;
        mute |= strcmp(argv[at], "mute") == 0;
        late |= strcmp(argv[at], "late") == 0;
        closes |= strcmp(argv[at], "close") == 0;
        nonsense |= strcmp(argv[at], "nonsense") == 0;
        dribble |= strcmp(argv[at], "dribble") == 0;
        dies |= strcmp(argv[at], "die-after-end") == 0;
        deaf |= strcmp(argv[at], "deaf") == 0;
        if (strncmp(argv[at], "touch=", 6) == 0)
            touch = argv[at] + 6;
    }
    char **command = argv + at + 1;
    if (argc > 1 && (strcmp(argv[1], "mute") == 0 || strcmp(argv[1], "nonsense") == 0))
        alarm(30); /* whatever becomes of the test */
    if (argc > 1 && strncmp(argv[1], "inspect", 7) == 0)
        return inspect(strcmp(argv[1], "inspect-report") == 0);

    if (fail) {
        say((struct ms_record){ .kind = MS_REPORT_FAILED, .stage = MS_STAGE_LANDLOCK, .error = EOPNOTSUPP });
        return 125;
    }
    if (orphan) {
        if (fork() != 0)
            return 3;
        char byte;
        (void)!read(MS_REPORT_FD, &byte, 1);
        return 0;
    }
    if (vanish) {
        fprintf(stderr, "fake: no permission\n");
        return 1;
    }
    if (mute) {
        signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    }
    if (nonsense) {
        (void)!write(MS_REPORT_FD, "this is not a record of the report, whatever it is", 50);
        for (;;)
            pause();
    }
    if (closes) {
        close(MS_REPORT_FD);
        execv(command[0], command);
        return 127;
    }
    if (late)
        usleep(300 * 1000);
    if (!say((struct ms_record){ .kind = MS_REPORT_CONFINED, .flags = MS_GAP_METADATA, .value = 7, .pid = 2 }))
        return 125;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    if (pipe(ends) != 0)
        return 125;
    pid_t pid = fork();
    if (pid == 0) {
        close(MS_REPORT_FD);
        close(ends[0]);
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        setsid();
        if (touch != NULL)
            close(open(touch, O_CREAT | O_WRONLY, 0600));
        execv(command[0], command);
        int error = errno;
        (void)!write(ends[1], &error, sizeof error);
        _exit(127);
    }
    close(ends[1]);
    int error;
    if (read(ends[0], &error, sizeof error) == (ssize_t)sizeof error) {
        waitpid(pid, NULL, 0);
        say((struct ms_record){ .kind = MS_REPORT_EXEC_FAILED, .stage = MS_STAGE_EXEC, .error = error });
        return 126;
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int status = 0;
    bool ended = false;
    while (!ended) {
        struct pollfd report = { .fd = deaf ? -1 : MS_REPORT_FD, .events = POLLIN };
        poll(&report, 1, 2);
        if (report.revents != 0) {
            struct ms_record record;
            if (recv(MS_REPORT_FD, &record, sizeof record, MSG_WAITALL) != (ssize_t)sizeof record)
                kill_all(pid, &status, &ended);
            else if (record.kind == MS_REQUEST_TERMINATE) {
                signal_tree(getpid(), SIGTERM);
                signal_tree(getpid(), SIGCONT);
            } else if (record.kind == MS_REQUEST_KILL)
                kill_all(pid, &status, &ended);
            else if (record.kind == MS_REQUEST_SIGNAL)
                kill(-pid, record.value);
        }
        int got;
        for (pid_t gone; (gone = waitpid(-1, &got, WNOHANG)) > 0;)
            if (gone == pid) {
                status = got;
                ended = true;
            }
    }
    say((struct ms_record){ .kind = MS_REPORT_ENDED, .value = status });
    if (dies)
        return 3;
    int leftovers = signal_tree(getpid(), SIGKILL), unused;
    bool also_unused;
    kill_all(-1, &unused, &also_unused);
    say((struct ms_record){ .kind = MS_REPORT_LEFTOVERS, .value = leftovers });
    return 0;
}
