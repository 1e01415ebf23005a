/* Looking at the world, for the C tests: is a process alive, what is open, how large is this process. And running a part of
 * a test as a host of its own.
 *
 * Such a host is this very program, executed anew: `program host NAME ARGS...`. (A forked child would be told that it must
 * not use the core.) It ends with 0 when all went well, else it prints the line that did not hold. */
#ifndef MOONSAND_TEST_WORLD_H
#define MOONSAND_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* In a host: like an assertion, but for a process that is not the test's. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);           \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Valgrind gives a child of clone(CLONE_VM | CLONE_VFORK) memory of its own, so a failure in it cannot be told. */
static inline bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

static inline int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void sleep_ms(int milliseconds)
{
    struct timespec time = { .tv_sec = milliseconds / 1000, .tv_nsec = (milliseconds % 1000) * 1000000L };
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

static inline const char *const *environment(void)
{
    return (const char *const *)environ;
}

/* Alive: there, and not a zombie. */
static inline bool is_alive(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *state = strrchr(text, ')');
    return state != NULL && state[1] == ' ' && state[2] != 'Z' && state[2] != 'X';
}

static inline bool gone_within(pid_t pid, int milliseconds)
{
    for (int64_t until = now_ms() + milliseconds; now_ms() < until; sleep_ms(2))
        if (!is_alive(pid))
            return true;
    return !is_alive(pid);
}

/* How many processes that are alive have `word` in their command line; each gets `signal`, when that is not 0. Commands of a
 * test carry a word of their own there. */
static inline int signal_with(const char *word, int signal)
{
    int count = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        char path[300], text[4096];
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 0 || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        for (ssize_t i = 0; i < length; i++)
            if (text[i] == '\0')
                text[i] = ' ';
        text[length > 0 ? length : 0] = '\0';
        if (strstr(text, word) == NULL || !is_alive(pid))
            continue;
        count++;
        if (signal != 0)
            kill(pid, signal);
    }
    closedir(processes);
    return count;
}

static inline int count_with(const char *word)
{
    return signal_with(word, 0);
}

static inline bool none_with_within(const char *word, int milliseconds)
{
    for (int64_t until = now_ms() + milliseconds; now_ms() < until; sleep_ms(5))
        if (count_with(word) == 0)
            return true;
    return count_with(word) == 0;
}

/* Children of this process that nobody has reaped. */
static inline bool has_children(void)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static inline int count_descriptors(void)
{
    int count = -1; /* the one that is counting */
    DIR *entries = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.')
            count++;
    closedir(entries);
    return count;
}

/* Resident memory, in KiB. */
static inline long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A directory of this test's own, private. */
static inline const char *make_directory(char path[64])
{
    snprintf(path, 64, "/var/tmp/moonsand-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void remove_tree(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

/* How many entries the directory has; -1 when it is not there. */
static inline int count_entries(const char *path)
{
    DIR *entries = opendir(path);
    if (entries == NULL)
        return -1;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    closedir(entries);
    return count;
}

static inline bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

struct host {
    const char *name;
    int (*run)(char **arguments);
};

/* First thing in main: runs the host that was asked for, if one was. */
static inline void run_host_if_asked(int argc, char **argv, const struct host *hosts, size_t count)
{
    if (argc < 3 || strcmp(argv[1], "host") != 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(hosts[i].name, argv[2]) == 0)
            exit(hosts[i].run(argv + 3));
    exit(99);
}

static inline pid_t start_host(const char *name, const char *first, const char *second)
{
    pid_t pid = fork();
    if (pid == 0) {
        char self[4096];
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        self[length > 0 ? length : 0] = '\0';
        execl(self, self, "host", name, first, second, (char *)NULL);
        _exit(98);
    }
    return pid;
}

/* The wait status of a host, which must end within `milliseconds`. */
static inline int end_of_host(pid_t pid, int milliseconds)
{
    int status = 0;
    for (int64_t until = now_ms() + milliseconds; now_ms() < until; sleep_ms(2))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    fail_msg("the host did not end within %d ms", milliseconds);
    return -1;
}

static inline void host_succeeds(const char *name, const char *first, const char *second, int milliseconds)
{
    int status = end_of_host(start_host(name, first, second), milliseconds);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
