/* Races between the look and the deed: a second process or thread changes what a name, a descriptor or a string means
 * while the first asks for a change of metadata, again and again. In read-only there is nothing to race with, and the
 * canary itself is asked for. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { MILLISECONDS = 200 };

static bool going(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000 < MILLISECONDS;
}

static int inside(const struct facts *facts, const char *what)
{
    return open(text("%s/%s-%s", facts->spring, what, facts->name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
}

/* `turn` in a process of its own, `ask` in this one. */
static int race(const struct facts *facts, void (*turn)(const struct facts *, unsigned),
                void (*ask)(const struct facts *))
{
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t pid = fork();
    if (pid == 0) {
        for (unsigned i = 0; going(&start); i++)
            turn(facts, i);
        _exit(0);
    }
    while (going(&start))
        ask(facts);
    waitpid(pid, NULL, 0);
    turn(facts, 2); /* and once without a race: what it is about must not be allowed either */
    ask(facts);
    errno = 0;
    return REFUSED; /* nobody knows but the witness */
}

static const char *swapped(const struct facts *facts)
{
    return text("%s/swap-%s", facts->spring, facts->name);
}

/* A name that is now a file of the workspace, now a link to the canary. */
static void turn_link(const struct facts *facts, unsigned i)
{
    const char *fresh = text("%s/fresh-%s", facts->spring, facts->name);
    if (i % 2 == 0) {
        if (symlink(under(facts->own, "file"), fresh) != 0 && errno != EEXIST)
            return;
    } else {
        int fd = open(fresh, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd >= 0)
            close(fd);
    }
    rename(fresh, swapped(facts));
}

static void ask_mode(const struct facts *facts)
{
    chmod(swapped(facts), 0751);
}

static void ask_mode_of_link(const struct facts *facts)
{
    syscall(452, AT_FDCWD, swapped(facts), 0751, AT_SYMLINK_NOFOLLOW);
}

static void ask_times(const struct facts *facts)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    utimensat(AT_FDCWD, swapped(facts), past, 0);
}

static void ask_attribute(const struct facts *facts)
{
    setxattr(swapped(facts), "user.mark", "1", 1, 0);
}

static void ask_owner(const struct facts *facts)
{
    if (chown(swapped(facts), getuid(), getgid()) != 0)
        return;
}

static void ask_write(const struct facts *facts)
{
    int fd = open(swapped(facts), O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "mark", 4) < 0) {
            close(fd);
            return;
        }
        close(fd);
    }
}

static int link_and_mode(const struct facts *facts)
{
    return race(facts, turn_link, ask_mode);
}

static int link_and_mode_of_link(const struct facts *facts)
{
    return race(facts, turn_link, ask_mode_of_link);
}

static int link_and_times(const struct facts *facts)
{
    return race(facts, turn_link, ask_times);
}

static int link_and_attribute(const struct facts *facts)
{
    return race(facts, turn_link, ask_attribute);
}

static int link_and_owner(const struct facts *facts)
{
    return race(facts, turn_link, ask_owner);
}

static int link_and_write(const struct facts *facts)
{
    return race(facts, turn_link, ask_write);
}

/* A directory in the middle of the path, now real, now a link to the canary's directory. */
static const char *middle(const struct facts *facts)
{
    return text("%s/middle-%s", facts->spring, facts->name);
}

static void turn_directory(const struct facts *facts, unsigned i)
{
    const char *real = text("%s/real-%s", facts->spring, facts->name);
    const char *link = text("%s/link-%s", facts->spring, facts->name);
    if (i == 0) {
        mkdir(real, 0755);
        close(open(under(real, "file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        if (symlink(facts->own, link) != 0)
            return;
        rename(real, middle(facts));
    }
    syscall(SYS_renameat2, AT_FDCWD, middle(facts), AT_FDCWD, link, 2U /* RENAME_EXCHANGE */);
}

static void ask_below(const struct facts *facts)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    const char *path = under(middle(facts), "file");
    chmod(path, 0751);
    utimensat(AT_FDCWD, path, past, 0);
    setxattr(path, "user.mark", "1", 1, 0);
}

static int directory_and_metadata(const struct facts *facts)
{
    return race(facts, turn_directory, ask_below);
}

static void ask_below_descriptor(const struct facts *facts)
{
    int directory = open(middle(facts), O_PATH | O_CLOEXEC);
    fchmodat(directory, "file", 0751, 0);
    close(directory);
}

static int directory_and_descriptor(const struct facts *facts)
{
    return race(facts, turn_directory, ask_below_descriptor);
}

/* The working directory moves about while a relative name is asked for. */
static void turn_up(const struct facts *facts, unsigned i)
{
    if (i == 0)
        mkdir(text("%s/deep-%s", facts->spring, facts->name), 0755);
    syscall(SYS_renameat2, AT_FDCWD, text("%s/deep-%s", facts->spring, facts->name), AT_FDCWD,
            text("/tmp/deep-%s", facts->name), 0U);
    syscall(SYS_renameat2, AT_FDCWD, text("/tmp/deep-%s", facts->name), AT_FDCWD,
            text("%s/deep-%s", facts->spring, facts->name), 0U);
}

static void ask_up(const struct facts *facts)
{
    static int directory = -1;
    if (directory < 0)
        directory = open(text("%s/deep-%s", facts->spring, facts->name), O_PATH | O_CLOEXEC);
    fchmodat(directory, text("../../../../own/%s/file", facts->name), 0751, 0);
    fchmodat(directory, text("../../../own/%s/file", facts->name), 0751, 0);
}

static int moving_directory(const struct facts *facts)
{
    fchmodat(AT_FDCWD, text("%s/../../../own/%s/file", facts->spring, facts->name), 0751, 0);
    return race(facts, turn_up, ask_up);
}

/* --- threads: the caller's own memory and descriptors change ---------------------------------------------------------- */

static char shared_path[512];
static const char *outside_path, *inside_path;
static int shared_fd, outside_fd, inside_fd;
static volatile bool stop;

static void *turn_memory(void *unused)
{
    (void)unused;
    while (!stop) {
        memcpy(shared_path, outside_path, strlen(outside_path) + 1);
        memcpy(shared_path, inside_path, strlen(inside_path) + 1);
    }
    return NULL;
}

static void *turn_descriptor(void *unused)
{
    (void)unused;
    while (!stop) {
        dup2(outside_fd, shared_fd);
        dup2(inside_fd, shared_fd);
    }
    return NULL;
}

static int with_thread(void *(*turn)(void *), void (*ask)(void))
{
    struct timespec start;
    pthread_t thread;
    clock_gettime(CLOCK_MONOTONIC, &start);
    stop = false;
    if (pthread_create(&thread, NULL, turn, NULL) != 0)
        return REFUSED;
    while (going(&start))
        ask();
    stop = true;
    pthread_join(thread, NULL);
    errno = 0;
    return REFUSED;
}

static void ask_shared_path(void)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    chmod(shared_path, 0751);
    utimensat(AT_FDCWD, shared_path, past, 0);
    setxattr(shared_path, "user.mark", "1", 1, 0);
}

static void ask_shared_descriptor(void)
{
    const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
    fchmod(shared_fd, 0751);
    futimens(shared_fd, past);
    fsetxattr(shared_fd, "user.mark", "1", 1, 0);
    chmod(text("/proc/self/fd/%d", shared_fd), 0751);
}

static int changing_memory(const struct facts *facts)
{
    int fd = inside(facts, "inside");
    if (fd >= 0)
        close(fd);
    inside_path = text("%s/inside-%s", facts->spring, facts->name);
    outside_path = text("%s/file", facts->own);
    inside_path = strdup(inside_path);
    outside_path = strdup(outside_path);
    return with_thread(turn_memory, ask_shared_path);
}

static int changing_descriptor(const struct facts *facts)
{
    outside_fd = open("file", O_RDONLY | O_CLOEXEC);
    inside_fd = inside(facts, "inside");
    if (inside_fd < 0)
        inside_fd = outside_fd;
    shared_fd = dup(inside_fd);
    return with_thread(turn_descriptor, ask_shared_descriptor);
}

/* The caller ends while its call is under way, and its number may be another's. */
static void ask_and_end(const struct facts *facts)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open("file", O_RDONLY);
        dup2(fd, 20);
        fchmod(20, 0751);
        _exit(0);
    }
    usleep(100);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    (void)facts;
}

static void turn_nothing(const struct facts *facts, unsigned i)
{
    (void)i;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(inside(facts, "inside"), 20);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static int ending_caller(const struct facts *facts)
{
    return race(facts, turn_nothing, ask_and_end);
}

/* An interrupted call is asked again: a signal storm while the broker works. */
static void on_alarm(int number)
{
    (void)number;
}

static void ask_interrupted(const struct facts *facts)
{
    chmod(swapped(facts), 0751);
}

static int interrupted(const struct facts *facts)
{
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    sigaction(SIGVTALRM, &action, NULL);
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM };
    struct itimerspec often = { .it_interval = { .tv_nsec = 50000 }, .it_value = { .tv_nsec = 50000 } };
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
        timer_settime(timer, 0, &often, NULL);
    return race(facts, turn_link, ask_interrupted);
}

static const struct attack list[] = {
    { "race-link-chmod", "own", "a link swapped during chmod", link_and_mode, NULL, 0 },
    { "race-link-fchmodat2", "own", "a link swapped during fchmodat2 that does not follow it", link_and_mode_of_link,
      NULL, UNPROVEN },
    { "race-link-utimensat", "own", "a link swapped during utimensat", link_and_times, NULL, 0 },
    { "race-link-setxattr", "own", "a link swapped during setxattr", link_and_attribute, NULL, 0 },
    { "race-link-chown", "own", "a link swapped during chown", link_and_owner, NULL, 0 },
    { "race-link-write", "own", "a link swapped during open", link_and_write, NULL, 0 },
    { "race-directory", "own", "a directory of the path swapped", directory_and_metadata, NULL, 0 },
    { "race-directory-descriptor", "own", "a directory swapped before fchmodat below it", directory_and_descriptor,
      NULL, 0 },
    { "race-moving-directory", "own", "a directory that moves while .. of it is asked for", moving_directory, NULL, 0 },
    { "race-memory", "own", "the path in memory changed by a thread", changing_memory, NULL, 0 },
    { "race-descriptor", "own", "the descriptor changed by a thread", changing_descriptor, NULL, 0 },
    { "race-caller", "own", "the caller ends, and its number is another's", ending_caller, NULL, 0 },
    { "race-signals", "own", "a call interrupted and asked again", interrupted, NULL, 0 },
};

FAMILY(races_family, "races", list);
