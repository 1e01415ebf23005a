/* Linux: pid 1 of a namespace reaches everybody with kill(-1), which the kernel walks under a lock. Elsewhere the tree
 * is read from /proc/PID/task/TID/children (proc_tid_children(5)), or from every /proc/PID/stat where the kernel was
 * built without that file.
 *
 * A child's pid cannot be reused before we reap it, so that signalling children by pid is safe. A deeper descendant is
 * held by a pidfd first, and signalled only if its parent is still the one it was found under. */
#include "tree.h"
#include "kernel.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PATH_ROOM = 64, MOST_DEPTH = 256 };

/* The list of our children, opened in good time: later on there may be no descriptor left to open it with. */
static int own_children = -1;

bool tree_adopt(struct failure *failure)
{
    /* Not dumpable: a command of the same user can neither trace this process nor open its descriptors (ptrace(2)). */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return fail(failure, MS_STAGE_SUBREAPER, NULL);
    if (getpid() == 1)
        return true;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return fail(failure, MS_STAGE_SUBREAPER, NULL);
    prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0);
    return true;
}

/* The parent and state in /proc/PID/stat, after the name, which may contain anything. 0: gone. */
static pid_t parent_of(pid_t pid, char *state)
{
    char path[PATH_ROOM], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *after_name = strrchr(text, ')');
    int parent;
    if (after_name == NULL || sscanf(after_name + 1, " %c %d", state, &parent) != 2)
        return 0;
    return (pid_t)parent;
}

void tree_prepare(void)
{
    if (getpid() != 1)
        own_children = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
}

typedef void visit(pid_t child, void *context);

/* Calls back for each pid in a `children` file. */
static void visit_list(int fd, visit *each, void *context)
{
    char text[4096];
    long pid = 0;
    ssize_t n;

    while ((n = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (isdigit((unsigned char)text[i])) {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid != 0) {
                each((pid_t)pid, context);
                pid = 0;
            }
        }
}

/* False: there is no such file. */
static bool visit_file(const char *path, visit *each, void *context)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    visit_list(fd, each, context);
    close(fd);
    return true;
}

static void visit_by_scan(pid_t parent, visit *each, void *context)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return;
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        char state;
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
        if (pid > 0 && parent_of(pid, &state) == parent)
            each(pid, context);
    }
    closedir(proc);
}

/* Children belong to the thread that made them: each thread of the parent is asked. */
static void visit_children(pid_t parent, visit *each, void *context)
{
    char path[PATH_ROOM * 2];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return;
    const struct dirent *entry;
    bool known = true;
    while (known && (entry = readdir(tasks)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)parent, entry->d_name);
        known = visit_file(path, each, context) || access("/proc/thread-self/children", F_OK) == 0;
    }
    closedir(tasks);
    if (!known)
        visit_by_scan(parent, each, context);
}

struct signalling {
    pid_t parent;
    int signal;
    int depth;
};

static void signal_subtree(pid_t pid, void *context)
{
    const struct signalling *above = context;
    if (above->depth == MOST_DEPTH)
        return;
    int held = (int)syscall(SYS_pidfd_open, pid, 0);
    char state;
    if (held < 0) { /* gone; or a kernel before 5.3, where only our own children are certain */
        if (errno == ENOSYS && above->depth == 0)
            kill(pid, above->signal);
        return;
    }
    if (parent_of(pid, &state) == above->parent) {
        struct signalling below = { .parent = pid, .signal = above->signal, .depth = above->depth + 1 };
        visit_children(pid, signal_subtree, &below);
        syscall(SYS_pidfd_send_signal, held, above->signal, NULL, 0);
    }
    close(held);
}

void tree_signal(pid_t command, int signal)
{
    (void)command; /* it is among the descendants */
    if (getpid() == 1) {
        kill(-1, signal);
        return;
    }
    struct signalling all = { .parent = getpid(), .signal = signal };
    visit_children(all.parent, signal_subtree, &all);
}

struct killing {
    int count;
};

static void kill_child(pid_t pid, void *context)
{
    struct killing *killing = context;
    killing->count += kill(pid, SIGKILL) == 0;
}

int tree_kill_children(pid_t command)
{
    (void)command;
    if (getpid() == 1)
        return kill(-1, SIGKILL) == 0;
    struct killing killing = { 0 };
    if (own_children >= 0 && lseek(own_children, 0, SEEK_SET) == 0)
        visit_list(own_children, kill_child, &killing);
    else
        visit_by_scan(getpid(), kill_child, &killing);
    return killing.count;
}
