/* Starting a process: what is the same on every system. Checks the request, makes the pipes and the report's socket pair,
 * and explains failures. The process itself is started by ms_system_start. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system.h"

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The child's 0 to MS_REPORT_FD are overwritten one by one, so nothing that is still to be copied may lie there. (A host
 * that closed its own stdin gets pipes at 0.) Consumes `fd`. -1 with errno. */
static int lift(int fd)
{
    if (fd < 0 || fd > MS_REPORT_FD)
        return fd;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, MS_REPORT_FD + 1);
    int saved = errno;
    close(fd);
    errno = saved;
    return lifted;
}

static int lift_both(int ends[2])
{
    ends[0] = lift(ends[0]);
    if (ends[0] < 0) {
        int saved = errno;
        close(ends[1]);
        ends[1] = -1;
        return saved;
    }
    ends[1] = lift(ends[1]);
    if (ends[1] < 0) {
        int saved = errno;
        close_one(&ends[0]);
        return saved;
    }
    return 0;
}

/* One of 0, 1, 2: `*theirs` is what the child gets, `*borrowed` a descriptor of ours to close after the start, `*ours`
 * our end of a pipe. 0 or an errno. */
static int prepare_stdio(int wanted, int index, int *theirs, int *borrowed, int *ours)
{
    *theirs = wanted;
    if (wanted >= 0) {
        if (wanted > MS_REPORT_FD || wanted == index)
            return fcntl(wanted, F_GETFD) < 0 ? errno : 0;
        *theirs = *borrowed = fcntl(wanted, F_DUPFD_CLOEXEC, MS_REPORT_FD + 1);
        return *borrowed < 0 ? errno : 0;
    }
    if (wanted != MS_STDIO_PIPE)
        return 0;
    int ends[2];
    int failed = ms_pipe(ends);
    if (failed == 0)
        failed = lift_both(ends);
    if (failed != 0)
        return failed;
    *ours = ends[index == 0 ? 1 : 0];
    *theirs = *borrowed = ends[index == 0 ? 0 : 1];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

/* execve(2) says ENOENT both for a program that is not there and for a script whose interpreter is not: the difference
 * decides between a wrong path and a broken installation, so look. */
static void explain_exec(const char *program, int number, char *reason, size_t size)
{
    struct stat status;
    reason[0] = '\0';
    if (stat(program, &status) != 0)
        return;
    if (S_ISDIR(status.st_mode)) {
        snprintf(reason, size, "it is a directory");
        return;
    }
    if (number != ENOENT && number != EACCES && number != ENOTDIR && number != ELOOP)
        return;
    char line[256];
    int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    ssize_t length = read(fd, line, sizeof line - 1);
    close(fd);
    if (length < 2)
        return;
    line[length] = '\0';
    if (line[0] == '#' && line[1] == '!') {
        char *interpreter = line + 2 + strspn(line + 2, " \t");
        interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
        if (access(interpreter, X_OK) != 0)
            snprintf(reason, size, "its interpreter %.*s cannot be executed", 200, interpreter);
    } else if (number == ENOENT) {
        snprintf(reason, size, "the program is there, but not its loader");
    }
}

static int refuse(struct ms_error *error, enum ms_stage stage, int number, const char *path, const char *reason)
{
    ms_error_set(error, stage, number, path, reason);
    return -1;
}

int ms_spawn(const struct ms_spawn_request *request, struct ms_spawned *spawned, struct ms_error *error)
{
    *spawned = (struct ms_spawned){ .child = { .pid = -1, .handle = -1 }, .stdio = { -1, -1, -1 }, .report = -1 };
    if (request->argv == NULL || request->argv[0] == NULL || request->envp == NULL)
        return refuse(error, MS_STAGE_ARGUMENTS, EINVAL, NULL, "argv is empty, or there is no environment");
    if (strchr(request->argv[0], '/') == NULL)
        return refuse(error, MS_STAGE_ARGUMENTS, EINVAL, request->argv[0], "argv[0] must be a path with a slash");

    struct ms_start start = { .argv = request->argv,
                              .envp = request->envp,
                              .cwd = request->cwd,
                              .report = -1,
                              .die_with_host = request->die_with_host };
    int borrowed[3] = { -1, -1, -1 };
    enum ms_stage stage = MS_STAGE_NONE;
    int failed = 0;
    for (int i = 0; i < 3 && failed == 0; i++) {
        stage = request->stdio[i] >= 0 ? MS_STAGE_STDIO : MS_STAGE_PIPE;
        failed = prepare_stdio(request->stdio[i], i, &start.stdio[i], &borrowed[i], &spawned->stdio[i]);
    }
    if (failed == 0 && request->report) {
        stage = MS_STAGE_SOCKET;
        int ends[2];
        failed = ms_system_socketpair(ends);
        if (failed == 0)
            failed = lift_both(ends);
        if (failed == 0) {
            spawned->report = ends[0];
            start.report = ends[1];
        }
    }
    if (failed == 0)
        failed = ms_system_start(&start, &spawned->child, &stage);

    for (int i = 0; i < 3; i++)
        close_one(&borrowed[i]);
    close_one(&start.report);
    if (failed == 0)
        return 0;

    for (int i = 0; i < 3; i++)
        close_one(&spawned->stdio[i]);
    close_one(&spawned->report);
    char reason[256] = "";
    const char *path = NULL;
    if (stage == MS_STAGE_CHDIR) {
        path = request->cwd;
    } else if (stage == MS_STAGE_EXEC) {
        path = request->argv[0];
        /* A relative program is relative to the new directory: this process cannot look at it from here. */
        if (path[0] == '/' || request->cwd == NULL)
            explain_exec(path, failed, reason, sizeof reason);
    }
    return refuse(error, stage, failed, path, reason);
}
