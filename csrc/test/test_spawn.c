/* Starting a process: what the child has and has not, and what is said when it cannot be started. */
#include "world.h"

#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "spawn.h"

static int try_spawn(const char *program, const char *cwd, struct ms_spawned *spawned, struct ms_error *error)
{
    const char *argv[] = { program, NULL };
    struct ms_spawn_request request = { .argv = argv, .envp = environment(), .cwd = cwd, .stdio = { -1, -1, -1 } };
    return ms_spawn(&request, spawned, error);
}

static int reap(struct ms_child *child)
{
    int status = -1;
    enum ms_reaped reaped;
    while ((reaped = ms_child_reap(child, &status)) == MS_REAP_RUNNING)
        sleep_ms(1);
    ms_child_close(child);
    return reaped == MS_REAP_ENDED ? status : -1;
}

/* Spawning must fail so, and leave nothing behind. */
static void fails_with(const char *program, const char *cwd, enum ms_stage stage, int number, const char *path)
{
    if (under_valgrind())
        skip();
    struct ms_spawned spawned;
    struct ms_error error = { .error = 0 };
    int before = count_descriptors();
    assert_int_equal(try_spawn(program, cwd, &spawned, &error), -1);
    assert_string_equal(ms_stage_name((int)error.stage), ms_stage_name((int)stage));
    assert_int_equal(error.error, number);
    assert_string_equal(error.path, path);
    assert_int_equal(count_descriptors(), before);
    assert_false(has_children());
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    chmod(path, mode);
}

static void a_missing_program_fails_in_exec(void **state)
{
    (void)state;
    fails_with("/nowhere/program", NULL, MS_STAGE_EXEC, ENOENT, "/nowhere/program");
}

static void a_file_without_the_executable_bit_fails_in_exec(void **state)
{
    char directory[64], path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/program", make_directory(directory));
    write_file(path, "#!/bin/sh\n", 0644);
    fails_with(path, NULL, MS_STAGE_EXEC, EACCES, path);
    remove_tree(directory);
}

static void a_directory_is_no_program(void **state)
{
    (void)state;
    fails_with("/etc/", NULL, MS_STAGE_EXEC, EACCES, "/etc/");
}

static void a_file_that_is_no_program_fails_with_enoexec(void **state)
{
    char directory[64], path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/program", make_directory(directory));
    write_file(path, "echo this is no script, it has no first line\n", 0755);
    fails_with(path, NULL, MS_STAGE_EXEC, ENOEXEC, path);
    remove_tree(directory);
}

static void a_missing_interpreter_is_named(void **state)
{
    char directory[64], path[128];
    struct ms_spawned spawned;
    struct ms_error error;
    (void)state;
    if (under_valgrind())
        skip();
    snprintf(path, sizeof path, "%s/program", make_directory(directory));
    write_file(path, "#! /nowhere/interpreter -x\n", 0755);
    assert_int_equal(try_spawn(path, NULL, &spawned, &error), -1);
    assert_int_equal(error.stage, MS_STAGE_EXEC);
    assert_int_equal(error.error, ENOENT);
    assert_non_null(strstr(error.reason, "/nowhere/interpreter"));
    char line[512];
    assert_non_null(strstr(ms_error_message(&error, line, sizeof line), "No such file"));
    remove_tree(directory);
}

static void a_bad_directory_fails_in_chdir(void **state)
{
    (void)state;
    fails_with("/bin/true", "/nowhere", MS_STAGE_CHDIR, ENOENT, "/nowhere");
    fails_with("/bin/true", "/etc/passwd", MS_STAGE_CHDIR, ENOTDIR, "/etc/passwd");
}

static void the_directory_is_judged_before_the_program(void **state)
{
    (void)state;
    fails_with("/nowhere/program", "/nowhere", MS_STAGE_CHDIR, ENOENT, "/nowhere");
}

static void a_program_without_a_slash_is_refused(void **state)
{
    (void)state;
    fails_with("true", NULL, MS_STAGE_ARGUMENTS, EINVAL, "true");
}

static void an_empty_argv_is_refused(void **state)
{
    const char *argv[] = { NULL };
    struct ms_spawn_request request = { .argv = argv, .envp = environment(), .stdio = { -1, -1, -1 } };
    struct ms_spawned spawned;
    struct ms_error error;
    (void)state;
    assert_int_equal(ms_spawn(&request, &spawned, &error), -1);
    assert_int_equal(error.stage, MS_STAGE_ARGUMENTS);
}

static void arguments_that_are_too_long_fail_in_exec(void **state)
{
    (void)state;
    if (under_valgrind())
        skip();
    size_t size = 8 * 1024 * 1024;
    char *longest = malloc(size);
    memset(longest, 'x', size);
    longest[size - 1] = '\0';
    const char *argv[] = { "/bin/true", longest, NULL };
    struct ms_spawn_request request = { .argv = argv, .envp = environment(), .stdio = { -1, -1, -1 } };
    struct ms_spawned spawned;
    struct ms_error error;
    assert_int_equal(ms_spawn(&request, &spawned, &error), -1);
    assert_int_equal(error.stage, MS_STAGE_EXEC);
    assert_int_equal(error.error, E2BIG);
    free(longest);
}

static void a_descriptor_that_is_not_open_fails_in_stdio(void **state)
{
    const char *argv[] = { "/bin/true", NULL };
    struct ms_spawn_request request = { .argv = argv, .envp = environment(), .stdio = { -1, 900, -1 } };
    struct ms_spawned spawned;
    struct ms_error error;
    (void)state;
    assert_int_equal(ms_spawn(&request, &spawned, &error), -1);
    assert_int_equal(error.stage, MS_STAGE_STDIO);
    assert_int_equal(error.error, EBADF);
}

/* Every number of free descriptors that is too small fails by name and leaks nothing; the first that is enough works. */
static int without_descriptors(char **arguments)
{
    (void)arguments;
    const char *argv[] = { "/bin/true", NULL };
    struct ms_spawn_request request = {
        .argv = argv, .envp = environment(), .stdio = { MS_STDIO_PIPE, MS_STDIO_PIPE, MS_STDIO_PIPE }, .report = true
    };
    bool stages[MS_STAGE_COUNT] = { false };
    for (int fd = 3; fd < 1000; fd++)
        close(fd);
    for (int fd = 0; fd < 20;) /* no gaps: then the limit is the number of spare ones */
        HOLDS((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    int before = count_descriptors();
    for (int spare = 0; spare < 20; spare++) {
        struct rlimit limit, small;
        struct ms_spawned spawned;
        struct ms_error error;
        HOLDS(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        small = limit;
        small.rlim_cur = (rlim_t)(before + spare);
        HOLDS(setrlimit(RLIMIT_NOFILE, &small) == 0);
        int result = ms_spawn(&request, &spawned, &error);
        HOLDS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        if (result == 0) {
            HOLDS(reap(&spawned.child) == 0);
            HOLDS(spare >= 9);
            HOLDS(stages[MS_STAGE_PIPE] && stages[MS_STAGE_SOCKET] && stages[MS_STAGE_FORK]);
            return 0;
        }
        HOLDS(error.error == EMFILE);
        stages[error.stage] = true;
        HOLDS(count_descriptors() == before);
    }
    return 1;
}

static void running_out_of_descriptors_is_an_error_by_name(void **state)
{
    (void)state;
    host_succeeds("without-descriptors", NULL, NULL, 5000);
}

static int without_processes(char **arguments)
{
    (void)arguments;
    struct rlimit before, none;
    struct ms_spawned spawned;
    struct ms_error error;
    struct passwd *nobody = getpwnam("nobody");
    if (geteuid() == 0 &&
        (nobody == NULL || setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
        return 77;
    HOLDS(getrlimit(RLIMIT_NPROC, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    HOLDS(setrlimit(RLIMIT_NPROC, &none) == 0);
    HOLDS(try_spawn("/bin/true", NULL, &spawned, &error) == -1);
    HOLDS(setrlimit(RLIMIT_NPROC, &before) == 0);
    HOLDS(error.stage == MS_STAGE_FORK);
    HOLDS(error.error == EAGAIN);
    return 0;
}

static void a_full_process_table_is_eagain_in_fork(void **state)
{
    (void)state;
    host_succeeds("without-processes", NULL, NULL, 5000);
}

static int without_permission(char **arguments)
{
    struct ms_spawned spawned;
    struct ms_error error;
    struct passwd *nobody = getpwnam("nobody");
    if (geteuid() == 0 &&
        (nobody == NULL || setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
        return 77;
    HOLDS(try_spawn("/bin/true", arguments[0], &spawned, &error) == -1);
    HOLDS(error.stage == MS_STAGE_CHDIR);
    HOLDS(error.error == EACCES);
    return 0;
}

static void a_directory_that_may_not_be_entered_fails_in_chdir(void **state)
{
    char directory[64];
    (void)state;
    make_directory(directory);
    chmod(directory, geteuid() == 0 ? 0700 : 0);
    host_succeeds("without-permission", directory, NULL, 5000);
    chmod(directory, 0700);
    remove_tree(directory);
}

/* --- what the child has ---------------------------------------------------------------------------------------------- */

static void ignore_nothing(int number)
{
    (void)number;
}

/* A host that has made everything as inconvenient as it can. */
static int spoil(char **arguments)
{
    sigset_t all, after;
    bool report = strcmp(arguments[0], "report") == 0;
    for (int i = 0; i < 40; i++)
        HOLDS(dup(2) >= 0); /* without close-on-exec */
    HOLDS(dup2(2, 1500) == 1500 || errno == EBADF || errno == EINVAL);
    for (int number = 1; number < _NSIG; number++)
        signal(number, number % 2 == 0 ? SIG_IGN : ignore_nothing);
    signal(SIGCHLD, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);

    const char *argv[] = { MOONSAND_FAKE_LAUNCHER_PATH, report ? "inspect-report" : "inspect", NULL };
    struct ms_spawn_request request = {
        .argv = argv, .envp = environment(), .stdio = { MS_STDIO_NULL, MS_STDIO_PIPE, 2 }, .report = report
    };
    struct ms_spawned spawned;
    struct ms_error error;
    HOLDS(ms_spawn(&request, &spawned, &error) == 0);
    HOLDS(reap(&spawned.child) == 0);
    sigprocmask(SIG_SETMASK, NULL, &after);
    HOLDS(sigismember(&after, SIGTERM) == 1 && sigismember(&after, SIGUSR2) == 1);
    return 0;
}

static void the_child_is_alone_in_its_session_with_nothing_inherited(void **state)
{
    (void)state;
    host_succeeds("spoil", "plain", NULL, 10000);
    host_succeeds("spoil", "report", NULL, 10000);
}

/* A host without 0, 1, 2: its pipes get those numbers. */
static int closed_stdio(char **arguments)
{
    (void)arguments;
    int saved = fcntl(2, F_DUPFD_CLOEXEC, 500);
    for (int fd = 0; fd < 100; fd++)
        close(fd);
    const char *argv[] = { "/bin/sh", "-c", "read x; echo \"out $x\"; echo err >&2", NULL };
    struct ms_spawn_request request = {
        .argv = argv, .envp = environment(), .stdio = { MS_STDIO_PIPE, MS_STDIO_PIPE, MS_STDIO_PIPE }, .report = true
    };
    struct ms_spawned spawned;
    struct ms_error error;
    int result = ms_spawn(&request, &spawned, &error);
    char out[32] = "", err[32] = "";
    bool written = result == 0 && write(spawned.stdio[0], "hello\n", 6) == 6;
    int status = result == 0 ? reap(&spawned.child) : -1;
    ssize_t out_size = result == 0 ? read(spawned.stdio[1], out, sizeof out - 1) : 0;
    ssize_t err_size = result == 0 ? read(spawned.stdio[2], err, sizeof err - 1) : 0;
    dup2(saved, 2);
    HOLDS(result == 0);
    HOLDS(written);
    HOLDS(status == 0);
    HOLDS(out_size == 10 && strcmp(out, "out hello\n") == 0);
    HOLDS(err_size == 4 && strcmp(err, "err\n") == 0);
    return 0;
}

static void a_host_that_closed_its_stdio_can_spawn(void **state)
{
    (void)state;
    host_succeeds("closed-stdio", NULL, NULL, 5000);
}

static void argv_and_environment_are_exact(void **state)
{
    const char *argv[] = { "/bin/sh", "-c",        "printf '[%s]' \"$@\"; printf '<%s>' \"$A\" \"${PATH-none}\"",
                           "sh",      "$(exit 1)", "a  b",
                           "",        "*\n\\",     NULL };
    const char *envp[] = { "A=x y'z", "PATH=", NULL };
    struct ms_spawn_request request = { .argv = argv, .envp = envp, .stdio = { MS_STDIO_NULL, MS_STDIO_PIPE, 2 } };
    struct ms_spawned spawned;
    struct ms_error error;
    char text[128] = "";
    (void)state;
    assert_int_equal(ms_spawn(&request, &spawned, &error), 0);
    assert_int_equal(reap(&spawned.child), 0);
    assert_true(read(spawned.stdio[1], text, sizeof text - 1) > 0);
    assert_string_equal(text, "[$(exit 1)][a  b][][*\n\\]<x y'z><>");
    close(spawned.stdio[1]);
}

static void descriptors_can_be_passed_in_any_order(void **state)
{
    int ends[2];
    const char *argv[] = { "/bin/sh", "-c", "echo err >&2; echo out; cat <&0 >/dev/null 2>&1 || echo no stdin", NULL };
    char text[64] = "";
    (void)state;
    assert_int_equal(ms_pipe(ends), 0);
    /* 1 and 2 are both the pipe, 0 is /dev/null; then our own 2 at their 1. */
    struct ms_spawn_request request = { .argv = argv,
                                        .envp = environment(),
                                        .stdio = { MS_STDIO_NULL, ends[1], ends[1] } };
    struct ms_spawned spawned;
    struct ms_error error;
    assert_int_equal(ms_spawn(&request, &spawned, &error), 0);
    assert_int_equal(reap(&spawned.child), 0);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 8);
    assert_string_equal(text, "err\nout\n");
    int saved = dup(2);
    assert_int_equal(dup2(ends[1], 2), 2);
    struct ms_spawn_request swapped = { .argv = argv,
                                        .envp = environment(),
                                        .stdio = { MS_STDIO_NULL, 2, MS_STDIO_NULL } };
    int result = ms_spawn(&swapped, &spawned, &error);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(result, 0);
    assert_int_equal(reap(&spawned.child), 0);
    memset(text, 0, sizeof text);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 4);
    assert_string_equal(text, "out\n");
    close(ends[0]);
    close(ends[1]);
}

/* --- the end of a child ---------------------------------------------------------------------------------------------- */

static int spawn_shell(const char *script, struct ms_spawned *spawned)
{
    const char *argv[] = { "/bin/sh", "-c", script, NULL };
    struct ms_spawn_request request = { .argv = argv, .envp = environment(), .stdio = { -1, -1, -1 } };
    struct ms_error error;
    return ms_spawn(&request, spawned, &error);
}

static void a_wait_status_is_exact(void **state)
{
    struct ms_spawned spawned;
    (void)state;
    assert_int_equal(spawn_shell("exit 200", &spawned), 0);
    assert_int_equal(reap(&spawned.child), 200 << 8);
    assert_int_equal(spawn_shell("kill -USR1 $$", &spawned), 0);
    assert_int_equal(reap(&spawned.child), SIGUSR1);
}

/* The status is right, or it is said that it is lost. */
static int status_or_lost(struct ms_child *child)
{
    int status = -1;
    enum ms_reaped reaped;
    for (int64_t until = now_ms() + 3000; (reaped = ms_child_reap(child, &status)) == MS_REAP_RUNNING; sleep_ms(1))
        HOLDS(now_ms() < until);
    ms_child_close(child);
    return reaped == MS_REAP_LOST ? -2 : status;
}

static int ignores_sigchld(char **arguments)
{
    (void)arguments;
    struct ms_spawned spawned;
    signal(SIGCHLD, SIG_IGN);
    HOLDS(spawn_shell("exit 3", &spawned) == 0);
    int status = status_or_lost(&spawned.child);
    HOLDS(status == 3 << 8 || status == -2);
    HOLDS(spawn_shell("kill -SEGV $$", &spawned) == 0);
    status = status_or_lost(&spawned.child);
    HOLDS((status & 0x7f) == SIGSEGV || status == -2);
    struct ms_error error;
    HOLDS(try_spawn("/nowhere/program", NULL, &spawned, &error) == -1 && error.error == ENOENT);
    return 0;
}

static void a_host_that_ignores_sigchld_gets_the_status_or_is_told(void **state)
{
    (void)state;
    host_succeeds("ignores-sigchld", NULL, NULL, 10000);
}

static void *reap_anyone(void *unused)
{
    (void)unused;
    for (;;) {
        if (waitpid(-1, NULL, 0) < 0)
            sleep_ms(1);
    }
    return NULL;
}

static int reaps_anyone(char **arguments)
{
    (void)arguments;
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, reap_anyone, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        struct ms_spawned spawned;
        HOLDS(spawn_shell("exit 3", &spawned) == 0);
        int status = status_or_lost(&spawned.child);
        HOLDS(status == 3 << 8 || status == -2);
        struct ms_error error;
        HOLDS(try_spawn("/nowhere/program", NULL, &spawned, &error) == -1 && error.error == ENOENT);
    }
    return 0;
}

static void a_host_that_reaps_any_child_gets_the_status_or_is_told(void **state)
{
    (void)state;
    host_succeeds("reaps-anyone", NULL, NULL, 20000);
}

static void a_reaped_child_is_never_signalled(void **state)
{
    struct ms_spawned spawned;
    int status;
    (void)state;
    assert_int_equal(spawn_shell("exit 0", &spawned), 0);
    while (ms_child_reap(&spawned.child, &status) == MS_REAP_RUNNING)
        sleep_ms(1);
    assert_int_equal(ms_child_signal(&spawned.child, SIGKILL), ESRCH);
    assert_int_equal(ms_child_signal_group(&spawned.child, SIGKILL), ESRCH);
    ms_child_close(&spawned.child);
}

static void names_of_numbers(void **state)
{
    (void)state;
    assert_string_equal(ms_errno_name(ENOENT), "ENOENT");
    assert_string_equal(ms_errno_name(EAGAIN), "EAGAIN");
    assert_null(ms_errno_name(123456));
    assert_string_equal(ms_signal_name(SIGSEGV), "SIGSEGV");
    assert_null(ms_signal_name(0));
    assert_string_equal(ms_stage_name(MS_STAGE_CHDIR), "chdir");
    assert_string_equal(ms_stage_name(-1), "unknown");
    for (int stage = 0; stage < MS_STAGE_COUNT; stage++)
        assert_string_not_equal(ms_stage_name(stage), "unknown");
}

static const struct host hosts[] = {
    { "without-descriptors", without_descriptors },
    { "without-processes", without_processes },
    { "without-permission", without_permission },
    { "spoil", spoil },
    { "closed-stdio", closed_stdio },
    { "ignores-sigchld", ignores_sigchld },
    { "reaps-anyone", reaps_anyone },
};

int main(int argc, char **argv)
{
    run_host_if_asked(argc, argv, hosts, sizeof hosts / sizeof hosts[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_program_fails_in_exec),
        cmocka_unit_test(a_file_without_the_executable_bit_fails_in_exec),
        cmocka_unit_test(a_directory_is_no_program),
        cmocka_unit_test(a_file_that_is_no_program_fails_with_enoexec),
        cmocka_unit_test(a_missing_interpreter_is_named),
        cmocka_unit_test(a_bad_directory_fails_in_chdir),
        cmocka_unit_test(a_directory_that_may_not_be_entered_fails_in_chdir),
        cmocka_unit_test(the_directory_is_judged_before_the_program),
        cmocka_unit_test(a_program_without_a_slash_is_refused),
        cmocka_unit_test(an_empty_argv_is_refused),
        cmocka_unit_test(arguments_that_are_too_long_fail_in_exec),
        cmocka_unit_test(a_descriptor_that_is_not_open_fails_in_stdio),
        cmocka_unit_test(running_out_of_descriptors_is_an_error_by_name),
        cmocka_unit_test(a_full_process_table_is_eagain_in_fork),
        cmocka_unit_test(the_child_is_alone_in_its_session_with_nothing_inherited),
        cmocka_unit_test(a_host_that_closed_its_stdio_can_spawn),
        cmocka_unit_test(argv_and_environment_are_exact),
        cmocka_unit_test(descriptors_can_be_passed_in_any_order),
        cmocka_unit_test(a_wait_status_is_exact),
        cmocka_unit_test(a_host_that_ignores_sigchld_gets_the_status_or_is_told),
        cmocka_unit_test(a_host_that_reaps_any_child_gets_the_status_or_is_told),
        cmocka_unit_test(a_reaped_child_is_never_signalled),
        cmocka_unit_test(names_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
