/* The adversary: a program that is run inside the sandbox and tries to leave marks outside.
 *
 *   adversary list                        the table: name, family, mark, flags, what; tab-separated
 *   adversary run FACTS NAME...           runs these attacks, each in a process of its own; a line for each: name, outcome
 *   adversary linger NAME                 what an attack leaves running
 *   adversary swap A B SECONDS            exchanges two names, again and again
 *
 * FACTS is a file of NAME=VALUE lines that the driver writes (see `facts_read`). */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS_AN_ATTACK = 8, SECONDS_TO_LINGER = 20, TEXTS = 16 };

static const struct family *const families[] = {
    &paths_family,      &files_family,     &metadata_family, &ioctls_family,    &uring_family,     &foreign_family,
    &namespaces_family, &privilege_family, &handles_family,  &knobs_family,     &processes_family, &descriptors_family,
    &devices_family,    &terminals_family, &ipc_family,      &outliving_family, &races_family,     &nested_family,
};

enum { FAMILIES = sizeof families / sizeof families[0] };

int done_if(bool success)
{
    return success ? DONE : REFUSED;
}

int done_unless_negative(long result)
{
    return result < 0 ? REFUSED : DONE;
}

int absent(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
    return ABSENT;
}

int done_or_absent(long result, const char *feature)
{
    if (result < 0 && (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOTTY || errno == ENODEV))
        return absent("%s: %s", feature, strerror(errno));
    return done_unless_negative(result);
}

const char *text(const char *format, ...)
{
    static char texts[TEXTS][8192];
    static int next;
    char *to = texts[next++ % TEXTS];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to, sizeof texts[0], format, arguments);
    va_end(arguments);
    return to;
}

const char *under(const char *directory, const char *name)
{
    return text("%s/%s", directory, name);
}

int mark_descriptor(const struct facts *facts, int fd)
{
    return done_unless_negative(fd < 0 ? -1 : write(fd, facts->name, strlen(facts->name)));
}

int mark_path(const struct facts *facts, const char *path, int flags)
{
    return mark_descriptor(facts, open(path, O_WRONLY | O_CLOEXEC | flags, 0644));
}

static bool put(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    if (fd >= 0)
        close(fd);
    return good;
}

bool own_namespaces(int flags)
{
    unsigned user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWUSER | flags) != 0)
        return false;
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", text("0 %u 1", user));
    put("/proc/self/gid_map", text("0 %u 1", group));
    if (flags & CLONE_NEWNS)
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return true;
}

void linger(const struct facts *facts)
{
    for (int fd = 0; fd < 64; fd++)
        close(fd);
    execl(facts->program, "moonsand-linger", "linger", facts->name, (char *)NULL);
    _exit(1);
}

static char *read_file(const char *path)
{
    static char content[16384];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, content, sizeof content - 1);
    if (n < 0)
        return NULL;
    close(fd);
    content[n] = '\0';
    return content;
}

static void fact(struct facts *facts, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **value;
    } words[] = {
        { "base", &facts->base },           { "spring", &facts->spring },
        { "workspace", &facts->workspace }, { "program", &facts->program },
        { "queue", &facts->queue },         { "terminal", &facts->terminal },
        { "loop", &facts->loop },           { "launcher", &facts->launcher_program },
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].name, name) == 0)
            *words[i].value = value;
    if (strcmp(name, "victim") == 0)
        facts->victim = (pid_t)atoi(value);
    else if (strcmp(name, "page") == 0)
        facts->page = (uintptr_t)strtoull(value, NULL, 10);
    else if (strcmp(name, "victim_file") == 0)
        facts->victim_file = atoi(value);
    else if (strcmp(name, "segment") == 0)
        facts->segment = atoi(value);
}

static bool facts_read(struct facts *facts, const char *path)
{
    char *rest = read_file(path), *line;
    if (rest == NULL)
        return false;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *equals = strchr(line, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        fact(facts, line, equals + 1);
    }
    facts->launcher = getppid();
    return true;
}

static const struct attack *find(const char *name)
{
    for (size_t f = 0; f < FAMILIES; f++)
        for (size_t i = 0; i < families[f]->count; i++)
            if (strcmp(families[f]->attacks[i].name, name) == 0)
                return &families[f]->attacks[i];
    return NULL;
}

static int run_shell(const struct facts *facts, const char *script)
{
    setenv("NAME", facts->name, 1);
    setenv("OWN", facts->own, 1);
    setenv("BASE", facts->base, 1);
    setenv("SPRING", facts->spring, 1);
    setenv("VICTIM", text("%d", (int)facts->victim), 1);
    setenv("ADVERSARY", facts->program, 1);
    setenv("LAUNCHER", facts->launcher_program, 1);
    int status = system(script); // NOLINT(cert-env33-c): a shell is what this is about
    errno = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == ABSENT)
        return ABSENT;
    return done_if(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In a child of its own, which leads a process group, so that what an attack forgets is found by it. */
static void run_here(struct facts *facts, const struct attack *attack, int out)
{
    dup2(out, STDOUT_FILENO);
    facts->name = attack->name;
    facts->own = under(under(facts->base, "own"), attack->name);
    facts->own = strdup(facts->own);
    if (chdir(facts->own) != 0)
        _exit(absent("its canary directory: %s", strerror(errno)));
    alarm(SECONDS_AN_ATTACK);
    umask(022);
    errno = 0;
    int outcome = attack->shell ? run_shell(facts, attack->shell) : attack->run(facts);
    if (outcome == REFUSED)
        printf("%s", errno != 0 ? strerror(errno) : "");
    fflush(stdout);
    _exit(outcome);
}

static void report(const char *name, int status, const char *remark)
{
    const char *word = "ended by a signal";
    if (WIFEXITED(status))
        word = WEXITSTATUS(status) == DONE ? "done" : WEXITSTATUS(status) == ABSENT ? "absent" : "refused";
    char line[1024];
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\n", name, word, remark);
    if (write(STDOUT_FILENO, line, (size_t)n) < 0)
        return;
}

static void run_one(struct facts *facts, const struct attack *attack)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        run_here(facts, attack, ends[1]);
    close(ends[1]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    char remark[512] = "";
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* what an attack left running may hold the other end */
    ssize_t n = read(ends[0], remark, sizeof remark - 1);
    remark[n > 0 ? n : 0] = '\0';
    for (char *c = remark; *c != '\0'; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    close(ends[0]);
    report(attack->name, status, remark);
}

static void print_table(void)
{
    static const char *const words[] = { "alone", "root", "ordinary", "launched", "unproven", "beyond" };
    for (size_t f = 0; f < FAMILIES; f++)
        for (size_t i = 0; i < families[f]->count; i++) {
            const struct attack *attack = &families[f]->attacks[i];
            printf("%s\t%s\t%s\t", attack->name, families[f]->name, attack->mark);
            for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
                if (attack->flags & 1U << w)
                    printf("%s ", words[w]);
            printf("\t%s\n", attack->what);
        }
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "list") == 0) {
        print_table();
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "linger") == 0) {
        sleep(SECONDS_TO_LINGER);
        return 0;
    }
    if (argc == 5 && strcmp(argv[1], "swap") == 0) {
        for (time_t end = time(NULL) + atoi(argv[4]); time(NULL) < end;)
            syscall(SYS_renameat2, AT_FDCWD, argv[2], AT_FDCWD, argv[3], 2U /* RENAME_EXCHANGE */);
        return 0;
    }
    struct facts facts = { 0 };
    if (argc < 4 || strcmp(argv[1], "run") != 0 || !facts_read(&facts, argv[2])) {
        fputs("usage: adversary list | run FACTS NAME... | linger NAME\n", stderr);
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        const struct attack *attack = find(argv[i]);
        if (attack == NULL) {
            fprintf(stderr, "adversary: no attack is called %s\n", argv[i]);
            return 2;
        }
        run_one(&facts, attack);
    }
    return 0;
}
