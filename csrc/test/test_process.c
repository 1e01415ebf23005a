/* Running commands: section 3 of the design, promise by promise.
 *
 * Most promises are checked three ways: without a launcher, through the fake one of these tests (which misbehaves on
 * request), and through the real one. */
#include "world.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "clock.h"
#include "probe.h"
#include "process.h"
#include "supervisor.h"

enum way { PLAIN, FAKE, REAL };

static const char *word; /* in the command line of everything a test starts */

#define DEFAULTS                                                                                                       \
    .envp = environment(), .stdio = { -1, -1, -1 }, .max_output_bytes = 64000, .max_spill_bytes = 64 << 20,            \
    .grace_ms = 3000

static struct ms_process *start_with(struct ms_process_options options, enum way way, const char *manner,
                                     const char *script, struct ms_error *error)
{
    const char *plain[] = { "/bin/bash", "-c", script, word, NULL };
    const char *fake[] = { MOONSAND_FAKE_LAUNCHER_PATH, manner, "--", "/bin/bash", "-c", script, word, NULL };
    const char *real[] = { MOONSAND_LAUNCHER_PATH, "--report-fd", "3", "--", "/bin/bash", "-c", script, word, NULL };
    options.argv = way == PLAIN ? plain : way == FAKE ? fake : real;
    options.report = way != PLAIN;
    return ms_process_start(&options, error);
}

static struct ms_process *start(struct ms_process_options options, enum way way, const char *script)
{
    struct ms_error error;
    struct ms_process *process = start_with(options, way, "behave", script, &error);
    if (process == NULL) {
        char line[512];
        fprintf(stderr, "not started: %s\n", ms_error_message(&error, line, sizeof line));
    }
    HOLDS(process != NULL);
    return process;
}

static struct ms_process *start_fake(struct ms_process_options options, const char *manner, const char *script)
{
    struct ms_error error;
    struct ms_process *process = start_with(options, FAKE, manner, script, &error);
    HOLDS(process != NULL);
    return process;
}

static struct ms_facts settle_within(struct ms_process *process, int milliseconds)
{
    struct ms_facts facts;
    enum ms_waited waited;
    int64_t until = now_ms() + milliseconds;
    do
        waited = ms_process_wait(process, until - now_ms() > 0 ? until - now_ms() : 0, false);
    while (waited == MS_WAITED_INTERRUPTED);
    ms_process_facts(process, &facts);
    HOLDS(waited == MS_WAITED_SETTLED);
    HOLDS(facts.state == MS_SETTLED);
    return facts;
}

static void wait_for_state(struct ms_process *process, enum ms_process_state state)
{
    struct ms_facts facts;
    for (int64_t until = now_ms() + 5000; now_ms() < until; sleep_ms(1)) {
        ms_process_facts(process, &facts);
        if (facts.state == state)
            return;
    }
    HOLDS(false);
}

static const char *text_of(struct ms_process *process, enum ms_stream stream)
{
    static char text[70000];
    uint64_t next, lost;
    text[ms_process_read(process, stream, 0, text, sizeof text - 1, &next, &lost)] = '\0';
    return text;
}

/* Waits until the command has written `wanted` to its stdout. */
static void wait_for_text(struct ms_process *process, const char *wanted)
{
    for (int64_t until = now_ms() + 5000; strstr(text_of(process, MS_STDOUT), wanted) == NULL; sleep_ms(1))
        HOLDS(now_ms() < until);
}

/* After a test: every process reaped, every descriptor closed, nothing of the test alive. */
static void all_is_gone(void)
{
    for (int64_t until = now_ms() + 3000; ms_supervisor_count() > 0; sleep_ms(1))
        HOLDS(now_ms() < until);
    HOLDS(none_with_within(word, 1000));
    HOLDS(!has_children());
}

#define EACH_WAY(way) for (enum way way = PLAIN; way <= REAL; way++)
#define EACH_LAUNCHER(way) for (enum way way = FAKE; way <= REAL; way++)

/* --- what ended how -------------------------------------------------------------------------------------------------- */

static void output_and_exit_code_arrive(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process =
            start((struct ms_process_options){ DEFAULTS }, way, "echo out; echo err >&2; exit 7");
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.have_status);
        assert_int_equal(facts.wait_status, 7 << 8);
        assert_int_equal(facts.confined, way != PLAIN);
        assert_false(facts.runner_failed || facts.start_failed || facts.timed_out || facts.aborted ||
                     facts.report_lost);
        assert_int_equal(facts.leftovers, 0);
        assert_string_equal(text_of(process, MS_STDOUT), "out\n");
        assert_string_equal(text_of(process, MS_STDERR), "err\n");
        assert_int_equal(facts.stream[MS_STDOUT].bytes, 4);
        assert_int_equal(facts.stream[MS_STDERR].spill_state, MS_SPILL_NOT_NEEDED);
        assert_true(facts.duration_ms >= 0 && facts.duration_ms < 5000);
        ms_process_release(process);
        all_is_gone();
    }
}

static void every_exit_code_stays_the_commands(void **state)
{
    static const int codes[] = { 0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255 };
    (void)state;
    EACH_WAY(way)
    {
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
            char script[32];
            snprintf(script, sizeof script, "exit %d", codes[i]);
            struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, script);
            struct ms_facts facts = settle_within(process, 5000);
            assert_true(facts.have_status);
            assert_int_equal(facts.wait_status, codes[i] << 8);
            assert_false(facts.runner_failed || facts.start_failed);
            ms_process_release(process);
        }
    }
    all_is_gone();
}

static void a_signal_is_the_true_one(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "kill -SEGV $$");
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.have_status && WIFSIGNALED(facts.wait_status));
        assert_int_equal(WTERMSIG(facts.wait_status), SIGSEGV);
        ms_process_release(process);
    }
    all_is_gone();
}

static void stdin_is_the_given_bytes_else_empty(void **state)
{
    size_t size = 3 << 20;
    char *bytes = malloc(size);
    (void)state;
    memset(bytes, 'x', size);
    EACH_WAY(way)
    {
        struct ms_process *process =
            start((struct ms_process_options){ DEFAULTS }, way, "cat | wc -c; readlink /proc/$$/fd/0");
        settle_within(process, 5000);
        assert_string_equal(text_of(process, MS_STDOUT), "0\n/dev/null\n");
        ms_process_release(process);

        process = start((struct ms_process_options){ DEFAULTS, .input = "a\0b", .input_size = 3 }, way, "od -An -c");
        settle_within(process, 5000);
        assert_string_equal(text_of(process, MS_STDOUT), "   a  \\0   b\n");
        ms_process_release(process);

        process = start((struct ms_process_options){ DEFAULTS, .input = "", .input_size = 0 }, way, "wc -c");
        settle_within(process, 5000);
        assert_string_equal(text_of(process, MS_STDOUT), "0\n");
        ms_process_release(process);

        process = start((struct ms_process_options){ DEFAULTS, .input = bytes, .input_size = size }, way, "wc -c");
        settle_within(process, 10000);
        assert_string_equal(text_of(process, MS_STDOUT), "3145728\n");
        ms_process_release(process);

        /* Nobody reads it: neither does the host die of SIGPIPE, nor does the command wait. */
        process = start((struct ms_process_options){ DEFAULTS, .input = bytes, .input_size = size }, way,
                        "exec <&-; sleep 0.05; exit 4");
        assert_int_equal(settle_within(process, 5000).wait_status, 4 << 8);
        ms_process_release(process);
    }
    free(bytes);
    all_is_gone();
}

static void descriptors_can_be_passed_through(void **state)
{
    char directory[64], path[80], text[32] = "";
    (void)state;
    snprintf(path, sizeof path, "%s/out", make_directory(directory));
    EACH_WAY(way)
    {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        struct ms_process_options options = { DEFAULTS };
        options.stdio[1] = fd;
        struct ms_process *process = start(options, way, "echo direct; echo err >&2");
        struct ms_facts facts = settle_within(process, 5000);
        assert_int_equal(facts.stream[MS_STDOUT].bytes, 0);
        assert_string_equal(text_of(process, MS_STDERR), "err\n");
        assert_int_equal(pread(fd, text, sizeof text - 1, 0), 7);
        assert_string_equal(text, "direct\n");
        close(fd);
        ms_process_release(process);
    }
    remove_tree(directory);
    all_is_gone();
}

static void a_failed_start_says_why_and_disturbs_nothing(void **state)
{
    struct ms_error error;
    const char *argv[] = { "/nowhere/bash", NULL };
    (void)state;
    if (under_valgrind())
        skip();
    struct ms_process *other = start((struct ms_process_options){ DEFAULTS }, FAKE, "sleep 0.2; echo done");
    int before = count_descriptors();
    struct ms_process_options options = { DEFAULTS, .report = true };
    options.argv = argv;
    assert_null(ms_process_start(&options, &error));
    assert_int_equal(error.stage, MS_STAGE_EXEC);
    assert_int_equal(error.error, ENOENT);
    assert_string_equal(error.path, "/nowhere/bash");
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(settle_within(other, 5000).wait_status, 0);
    assert_string_equal(text_of(other, MS_STDOUT), "done\n");
    ms_process_release(other);
    all_is_gone();
}

static void a_command_that_cannot_be_started_is_no_runner_failure(void **state)
{
    struct ms_error error;
    const char *fake[] = { MOONSAND_FAKE_LAUNCHER_PATH, "--", "/nowhere/bash", NULL };
    const char *real[] = { MOONSAND_LAUNCHER_PATH, "--report-fd", "3", "--", "/nowhere/bash", NULL };
    (void)state;
    EACH_LAUNCHER(way)
    {
        struct ms_process_options options = { DEFAULTS, .report = true };
        options.argv = way == FAKE ? fake : real;
        struct ms_process *process = ms_process_start(&options, &error);
        assert_non_null(process);
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.confined && facts.start_failed);
        assert_false(facts.runner_failed || facts.have_status);
        assert_int_equal(facts.start_stage, MS_STAGE_EXEC);
        assert_int_equal(facts.start_error, ENOENT);
        ms_process_release(process);
    }
    all_is_gone();
}

/* --- runners that fail ----------------------------------------------------------------------------------------------- */

static void a_runner_that_says_failed_failed_with_its_reason(void **state)
{
    (void)state;
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS }, "fail", "echo ran");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.runner_failed);
    assert_false(facts.confined || facts.have_status);
    assert_int_equal(facts.runner_stage, MS_STAGE_LANDLOCK);
    assert_int_equal(facts.runner_error, EOPNOTSUPP);
    ms_process_release(process);
    all_is_gone();
}

static void a_runner_that_ends_without_a_word_failed(void **state)
{
    (void)state;
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS }, "vanish", "echo ran");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.runner_failed);
    assert_false(facts.confined || facts.have_status);
    assert_int_equal(facts.runner_stage, MS_STAGE_NONE);
    assert_true(facts.have_runner_status);
    assert_int_equal(facts.runner_status, 1 << 8);
    assert_string_equal(text_of(process, MS_STDERR), "fake: no permission\n");
    ms_process_release(process);
    all_is_gone();
}

static void a_runner_that_dies_wakes_who_waits_though_a_child_holds_its_report(void **state)
{
    (void)state;
    int64_t before = now_ms();
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS }, "orphan", "echo ran");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(now_ms() - before < 1000);
    assert_true(facts.runner_failed && facts.have_runner_status);
    assert_int_equal(facts.runner_status, 3 << 8);
    ms_process_release(process);
    all_is_gone();
}

static void a_runner_that_hangs_is_given_up_in_time_and_nothing_ran(void **state)
{
    char directory[64], manner[96];
    (void)state;
    struct ms_process *process =
        start_fake((struct ms_process_options){ DEFAULTS, .confine_timeout_ms = 100 }, "mute", "echo ran");
    struct ms_facts facts = settle_within(process, 2000);
    assert_true(facts.runner_failed);
    assert_int_equal(facts.runner_stage, MS_STAGE_SUPERVISOR);
    assert_int_equal(facts.runner_error, ETIMEDOUT);
    assert_true(facts.duration_ms >= 95 && facts.duration_ms < 1000);
    ms_process_release(process);

    /* One that comes too late must not execute after all. */
    snprintf(manner, sizeof manner, "touch=%s/ran", make_directory(directory));
    struct ms_error error;
    const char *argv[] = { MOONSAND_FAKE_LAUNCHER_PATH, "late", manner, "--", "/bin/true", NULL };
    struct ms_process_options options = { DEFAULTS, .report = true, .confine_timeout_ms = 100 };
    options.argv = argv;
    process = ms_process_start(&options, &error);
    assert_non_null(process);
    facts = settle_within(process, 2000);
    assert_true(facts.runner_failed);
    assert_int_equal(facts.runner_error, ETIMEDOUT);
    sleep_ms(400);
    assert_false(exists(manner + 6));
    ms_process_release(process);
    remove_tree(directory);
    all_is_gone();
}

static void a_runner_in_time_is_not_given_up(void **state)
{
    (void)state;
    struct ms_process *process =
        start_fake((struct ms_process_options){ DEFAULTS, .confine_timeout_ms = 2000 }, "late", "echo ran");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.confined && facts.have_status && !facts.runner_failed);
    assert_string_equal(text_of(process, MS_STDOUT), "ran\n");
    ms_process_release(process);
    all_is_gone();
}

static void nonsense_on_the_report_is_a_runner_failure(void **state)
{
    (void)state;
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS }, "nonsense", "echo ran");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.runner_failed);
    assert_int_equal(facts.runner_stage, MS_STAGE_SUPERVISOR);
    assert_int_equal(facts.runner_error, EPROTO);
    ms_process_release(process);
    all_is_gone();
}

static void records_may_come_in_pieces(void **state)
{
    (void)state;
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS }, "dribble", "echo ran; exit 5");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.confined && facts.have_status);
    assert_int_equal(facts.wait_status, 5 << 8);
    assert_int_equal(facts.gaps, MS_GAP_METADATA);
    assert_int_equal(facts.landlock_abi, 7);
    ms_process_release(process);
    all_is_gone();
}

static void a_launcher_that_dies_before_its_last_word_keeps_the_status(void **state)
{
    (void)state;
    struct ms_process *process =
        start_fake((struct ms_process_options){ DEFAULTS }, "die-after-end", "echo ran; exit 5");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.confined && facts.have_status && facts.report_lost);
    assert_int_equal(facts.wait_status, 5 << 8);
    ms_process_release(process);

    process = start((struct ms_process_options){ DEFAULTS }, REAL, "echo ran; exec sleep 50");
    wait_for_text(process, "ran");
    kill(ms_process_pid(process), SIGKILL);
    facts = settle_within(process, 5000);
    assert_true(facts.confined && facts.report_lost && facts.have_status);
    assert_int_equal(facts.wait_status, SIGKILL);
    ms_process_release(process);
    all_is_gone();
}

static void a_runner_that_closes_its_descriptors_is_judged_by_its_own_end(void **state)
{
    (void)state;
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS, .report_optional = true }, "close",
                                            "sleep 0.1; echo ran; exit 6");
    struct ms_facts facts = settle_within(process, 5000);
    assert_true(facts.have_status && !facts.runner_failed && !facts.confined);
    assert_int_equal(facts.wait_status, 6 << 8);
    assert_string_equal(text_of(process, MS_STDOUT), "ran\n");
    ms_process_release(process);
    /* Where the report is no option, its end without a word is a failure. */
    process = start_fake((struct ms_process_options){ DEFAULTS }, "close", "exit 6");
    facts = settle_within(process, 5000);
    assert_true(facts.runner_failed && !facts.have_status);
    ms_process_release(process);
    all_is_gone();
}

static void what_a_command_prints_does_not_make_a_runner_fail(void **state)
{
    (void)state;
    EACH_LAUNCHER(way)
    {
        struct ms_process *process =
            start((struct ms_process_options){ DEFAULTS }, way, "echo 'bwrap: fake' >&2; exit 1");
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.have_status && !facts.runner_failed);
        assert_int_equal(facts.wait_status, 1 << 8);
        ms_process_release(process);
    }
    all_is_gone();
}

/* --- settlement and leftovers ---------------------------------------------------------------------------------------- */

static void a_command_is_over_when_it_is_over_whoever_holds_its_pipes(void **state)
{
    static const char *const scripts[] = {
        "sleep 100 & echo hi",
        "setsid sleep 100 & echo hi",
        "(sleep 100 & ) ; nohup sleep 100 >/dev/null 2>&1 & echo hi",
    };
    (void)state;
    EACH_LAUNCHER(way)
    {
        for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
            char script[256];
            snprintf(script, sizeof script, "export WORD=%s; exec 2>/dev/null; %s", word, scripts[i]);
            int64_t before = now_ms();
            struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, script);
            struct ms_facts facts = settle_within(process, 5000);
            assert_true(now_ms() - before < (SANITIZED || under_valgrind() ? 2000 : 500));
            assert_int_equal(facts.wait_status, 0);
            assert_string_equal(text_of(process, MS_STDOUT), "hi\n");
            assert_true(facts.leftovers >= (i == 2 ? 2 : 1));
            ms_process_release(process);
            all_is_gone();
        }
    }
    struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, PLAIN, "sleep 100 & echo hi");
    assert_int_equal(settle_within(process, 2000).wait_status, 0);
    assert_string_equal(text_of(process, MS_STDOUT), "hi\n");
    ms_process_release(process);
    all_is_gone();
}

static void no_leftover_survives(void **state)
{
    char directory[64], script[400];
    (void)state;
    EACH_LAUNCHER(way)
    {
        snprintf(script, sizeof script,
                 "cd %s; (setsid bash -c 'trap \"\" TERM HUP; echo $$ >a; sleep 60; :' & ) ; sleep 60 & echo $! >b; "
                 "while ! [ -s a -a -s b ]; do sleep 0.01; done; exit 3",
                 make_directory(directory));
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, script);
        struct ms_facts facts = settle_within(process, 5000);
        assert_int_equal(facts.wait_status, 3 << 8);
        assert_true(facts.leftovers >= 2);
        for (const char *name = "ab"; *name != '\0'; name++) {
            char path[80], text[32] = "";
            snprintf(path, sizeof path, "%s/%c", directory, *name);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            assert_true(read(fd, text, sizeof text - 1) > 0);
            close(fd);
            assert_false(is_alive((pid_t)atoi(text)));
        }
        ms_process_release(process);
        remove_tree(directory);
    }
    all_is_gone();
}

static void what_the_pipes_hold_at_settlement_is_collected_first(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        for (int i = 0; i < 50; i++) {
            struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way,
                                               "head -c 30000 /dev/zero; head -c 20000 /dev/zero >&2");
            struct ms_facts facts = settle_within(process, 5000);
            assert_int_equal(facts.stream[MS_STDOUT].bytes, 30000);
            assert_int_equal(facts.stream[MS_STDERR].bytes, 20000);
            ms_process_release(process);
        }
    }
    all_is_gone();
}

/* --- output ---------------------------------------------------------------------------------------------------------- */

static void forty_megabytes_are_in_the_file_byte_for_byte(void **state)
{
    char base[64], directory[64], script[200], path[4096], command[4400];
    (void)state;
    make_directory(base);
    snprintf(script, sizeof script, "head -c 40000000 /dev/urandom | tee %s/copy", make_directory(directory));
    struct ms_process_options options = { DEFAULTS, .spill_base = base };
    struct ms_process *process = start(options, FAKE, script);
    struct ms_facts facts = settle_within(process, 60000);
    assert_int_equal(facts.stream[MS_STDOUT].bytes, 40000000);
    assert_true(facts.stream[MS_STDOUT].truncated);
    assert_int_equal(facts.stream[MS_STDOUT].spill_state, MS_SPILL_COMPLETE);
    assert_true(ms_process_spill_path(process, MS_STDOUT, path, sizeof path) > 0);
    assert_true(strncmp(path, base, strlen(base)) == 0);
    assert_int_equal(ms_process_spill_path(process, MS_STDERR, command, sizeof command), 0);
    snprintf(command, sizeof command, "cmp -s '%s' '%s/copy'", path, directory);
    assert_int_equal(system(command), 0);
    uint64_t next, lost;
    char tail[1000];
    assert_int_equal(ms_process_read(process, MS_STDOUT, 40000000 - 1000, tail, 1000, &next, &lost), 1000);
    assert_int_equal(lost, 0);
    ms_process_release(process);
    assert_true(exists(path));
    remove_tree(base);
    remove_tree(directory);
    all_is_gone();
}

static void a_gigabyte_takes_no_memory_and_the_tail_is_right(void **state)
{
    (void)state;
    if (SANITIZED || under_valgrind())
        skip();
    struct ms_process_options options = { DEFAULTS };
    struct ms_process *process = start(options, FAKE, "echo warm");
    settle_within(process, 5000);
    ms_process_release(process);
    all_is_gone();
    long before = resident_kib();
    process = start(options, FAKE, "head -c 1073741817 /dev/zero; echo the end");
    struct ms_facts facts = settle_within(process, 60000);
    assert_true(resident_kib() - before < 2048);
    assert_int_equal(facts.stream[MS_STDOUT].bytes, UINT64_C(1073741817) + 8);
    assert_int_equal(facts.stream[MS_STDOUT].spill_state, MS_SPILL_NONE);
    uint64_t next, lost;
    char *tail = malloc(100000);
    size_t length = ms_process_read(process, MS_STDOUT, 0, tail, 100000, &next, &lost);
    assert_int_equal(length, 64000);
    assert_int_equal(next, facts.stream[MS_STDOUT].bytes);
    assert_int_equal(lost, next - 64000);
    assert_memory_equal(tail + 64000 - 8, "the end\n", 8);
    for (size_t i = 0; i < 64000 - 8; i++)
        if (tail[i] != '\0')
            fail();
    free(tail);
    ms_process_release(process);
    all_is_gone();
}

static void memory_of_many_commands_is_that_of_their_tails(void **state)
{
    enum { MANY = 200, CAP = 20000 };
    struct ms_process *all[MANY];
    (void)state;
    if (SANITIZED || under_valgrind())
        skip();
    struct ms_process_options options = { DEFAULTS };
    options.max_output_bytes = CAP;
    long before = resident_kib();
    for (int i = 0; i < MANY; i++)
        all[i] = start(options, PLAIN, "head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2; exec sleep 60");
    for (int i = 0; i < MANY; i++) {
        struct ms_facts facts;
        for (int64_t until = now_ms() + 20000;; sleep_ms(1)) {
            ms_process_facts(all[i], &facts);
            if (facts.stream[0].bytes == 100000 && facts.stream[1].bytes == 100000)
                break;
            assert_true(now_ms() < until);
        }
    }
    /* 4 MB for 1000 commands is 4 KiB each, on top of two tails. */
    assert_true(resident_kib() - before < MANY * (2 * CAP / 1024 + 4));
    for (int i = 0; i < MANY; i++)
        ms_process_release(all[i]);
    all_is_gone();
}

/* --- termination ----------------------------------------------------------------------------------------------------- */

static void a_command_that_traps_term_gets_its_grace(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way,
                                           "trap 'sleep 0.3; echo cleaned; exit 9' TERM; echo ready; "
                                           "while :; do sleep 0.02; done");
        wait_for_text(process, "ready");
        assert_true(ms_process_terminate(process, 3000));
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.aborted && !facts.timed_out && facts.have_status);
        assert_int_equal(facts.wait_status, 9 << 8);
        assert_string_equal(text_of(process, MS_STDOUT), "ready\ncleaned\n");
        assert_true(facts.duration_ms < 2500);
        ms_process_release(process);
    }
    all_is_gone();
}

static void a_tree_that_ignores_term_is_gone_after_the_grace(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process =
            start((struct ms_process_options){ DEFAULTS }, way,
                  "trap '' TERM; bash -c 'while :; do sleep 0.05; done' & echo ready; while :; do sleep 0.05; done");
        wait_for_text(process, "ready");
        int64_t before = now_ms();
        assert_true(ms_process_terminate(process, 300));
        struct ms_facts facts = settle_within(process, 5000);
        int64_t took = now_ms() - before;
        assert_true(took >= 290 && took < 1500);
        assert_true(facts.aborted);
        assert_int_equal(facts.wait_status & 0x7f, SIGKILL);
        ms_process_release(process);
        all_is_gone();
    }
}

static void a_stopped_tree_dies_too(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process =
            start((struct ms_process_options){ DEFAULTS }, way,
                  "trap '' TERM; bash -c 'kill -STOP $$' & echo ready; kill -STOP $$; while :; do sleep 0.05; done");
        wait_for_text(process, "ready");
        sleep_ms(50);
        assert_true(ms_process_terminate(process, 100));
        settle_within(process, 5000);
        ms_process_release(process);
        all_is_gone();
    }
}

static void termination_is_idempotent_and_the_first_cause_wins(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way,
                                           "trap '' TERM; echo ready; while :; do sleep 0.02; done");
        wait_for_text(process, "ready");
        assert_true(ms_process_terminate(process, 60000));
        assert_false(ms_process_terminate(process, 60000));
        assert_false(ms_process_terminate(process, 100)); /* a shorter grace counts */
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.aborted && !facts.timed_out);
        assert_false(ms_process_terminate(process, 0));
        assert_int_equal(ms_process_signal(process, SIGTERM), ESRCH);
        ms_process_release(process);

        struct ms_process_options options = { DEFAULTS, .timeout_ms = 100 };
        options.grace_ms = 300;
        process = start(options, way, "trap '' TERM; while :; do sleep 0.02; done");
        sleep_ms(200);
        assert_false(ms_process_terminate(process, 1000));
        facts = settle_within(process, 5000);
        assert_true(facts.timed_out && !facts.aborted);
        ms_process_release(process);

        process = start((struct ms_process_options){ DEFAULTS }, way, "exit 0");
        settle_within(process, 5000);
        assert_false(ms_process_terminate(process, 0));
        struct ms_facts after;
        ms_process_facts(process, &after);
        assert_false(after.aborted);
        ms_process_release(process);
    }
    all_is_gone();
}

static void a_command_can_time_out_and_exit_with_0(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process_options options = { DEFAULTS, .timeout_ms = 300 };
        struct ms_process *process = start(options, way, "trap 'exit 0' TERM; while :; do sleep 0.02; done");
        struct ms_facts facts = settle_within(process, 5000);
        assert_true(facts.timed_out && facts.have_status);
        assert_int_equal(facts.wait_status, 0);
        assert_true(facts.duration_ms >= 290);
        ms_process_release(process);
    }
    all_is_gone();
}

static void a_launcher_that_does_not_listen_is_killed(void **state)
{
    (void)state;
    struct ms_process *process =
        start_fake((struct ms_process_options){ DEFAULTS }, "deaf", "echo ready; exec sleep 4");
    wait_for_text(process, "ready");
    int64_t before = now_ms();
    assert_true(ms_process_terminate(process, 0));
    struct ms_facts facts = settle_within(process, 6000);
    assert_true(now_ms() - before < 4000);
    assert_true(facts.aborted && facts.report_lost);
    ms_process_release(process);
    assert_true(none_with_within(word, 6000));
    all_is_gone();
}

static void a_start_can_be_aborted(void **state)
{
    (void)state;
    struct ms_process *process = start_fake((struct ms_process_options){ DEFAULTS }, "mute", "echo ran");
    assert_true(ms_process_terminate(process, 0));
    struct ms_facts facts = settle_within(process, 1000);
    assert_true(facts.aborted && !facts.confined && !facts.runner_failed);
    ms_process_release(process);
    all_is_gone();
}

static void a_signal_reaches_the_command(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way,
                                           "trap 'echo got; exit 2' USR1; echo ready; while :; do sleep 0.02; done");
        wait_for_text(process, "ready");
        assert_int_equal(ms_process_signal(process, SIGUSR1), 0);
        struct ms_facts facts = settle_within(process, 5000);
        assert_int_equal(facts.wait_status, 2 << 8);
        assert_false(facts.aborted);
        ms_process_release(process);
    }
    all_is_gone();
}

static void a_forgotten_command_is_killed_and_reaped(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way,
                                           "trap '' TERM; echo ready; while :; do sleep 0.05; done");
        wait_for_text(process, "ready");
        ms_process_release(process);
        all_is_gone();
        ms_process_release(start((struct ms_process_options){ DEFAULTS }, way, "sleep 60 & sleep 60"));
        all_is_gone();
    }
}

/* Ends and terminations that meet: whatever comes first, it settles, and nothing is left. */
static void termination_may_race_with_the_end(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        for (int i = 0; i < 60; i++) {
            struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "exit 0");
            struct timespec time = { .tv_nsec = i * 40000 };
            nanosleep(&time, NULL);
            bool first = ms_process_terminate(process, i % 2 == 0 ? 0 : 1000);
            struct ms_facts facts = settle_within(process, 5000);
            assert_int_equal(facts.aborted, first);
            assert_true(facts.have_status && !facts.runner_failed);
            ms_process_release(process);
        }
    }
    all_is_gone();
}

/* --- while the caller is busy ---------------------------------------------------------------------------------------- */

static void deadlines_fire_and_output_is_drained_while_the_caller_is_busy(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process_options options = { DEFAULTS, .timeout_ms = 500 };
        options.grace_ms = 100;
        struct ms_process *late = start(options, way, "trap '' TERM; while :; do sleep 0.02; done");
        struct ms_process *loud = start((struct ms_process_options){ DEFAULTS }, way, "head -c 10000000 /dev/zero");
        volatile unsigned long work = 0;
        for (int64_t until = now_ms() + 1500; now_ms() < until;)
            for (int i = 0; i < 1000; i++)
                work = work + 1;
        struct ms_facts facts;
        ms_process_facts(late, &facts);
        assert_int_equal(facts.state, MS_SETTLED);
        assert_true(facts.timed_out);
        assert_true(facts.duration_ms >= 590 && facts.duration_ms < (SANITIZED || under_valgrind() ? 1500 : 800));
        ms_process_facts(loud, &facts);
        assert_int_equal(facts.state, MS_SETTLED);
        assert_int_equal(facts.stream[MS_STDOUT].bytes, 10000000);
        ms_process_release(late);
        ms_process_release(loud);
    }
    all_is_gone();
}

static int64_t cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* Descriptors that are readable for ever (a closed pipe, a report that is over, an end that was seen) must not keep the
 * supervisor or a waiting thread busy. */
static void nothing_spins(void **state)
{
    (void)state;
    for (int waiting = 0; waiting < 2; waiting++) {
        struct ms_process *all[] = {
            start((struct ms_process_options){ DEFAULTS }, PLAIN, "exec >&- 2>&-; sleep 0.6"),
            start((struct ms_process_options){ DEFAULTS }, REAL, "exec >&- 2>&-; sleep 0.6"),
            start_fake((struct ms_process_options){ DEFAULTS, .report_optional = true }, "close", "sleep 0.6"),
            start((struct ms_process_options){ DEFAULTS }, REAL, "exit 0"),
            start((struct ms_process_options){ DEFAULTS }, PLAIN, "exit 0"),
        };
        sleep_ms(100);
        int64_t before = cpu_ms();
        if (waiting != 0)
            assert_int_equal(ms_process_wait(all[2], 400, false), MS_WAITED_TIMEOUT);
        else
            sleep_ms(400);
        assert_true(cpu_ms() - before < (under_valgrind() ? 200 : 60));
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            settle_within(all[i], 5000);
            ms_process_release(all[i]);
        }
    }
    all_is_gone();
}

/* --- waiting --------------------------------------------------------------------------------------------------------- */

static void a_wait_ends_with_its_time(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "sleep 60");
        int64_t before = now_ms();
        assert_int_equal(ms_process_wait(process, 100, false), MS_WAITED_TIMEOUT);
        assert_true(now_ms() - before >= 99 && now_ms() - before < 1000);
        assert_int_equal(ms_process_wait(process, 0, false), MS_WAITED_TIMEOUT);
        ms_process_release(process);
    }
    all_is_gone();
}

static void do_nothing(int number)
{
    (void)number;
}

static void a_wait_gives_way_to_a_signal(void **state)
{
    struct sigaction action = { .sa_handler = do_nothing, .sa_flags = SA_RESTART }, before;
    struct itimerval timer = { .it_value = { .tv_usec = 50000 } };
    (void)state;
    sigaction(SIGALRM, &action, &before);
    EACH_WAY(way)
    {
        for (int output = 0; output < 2; output++) {
            struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "sleep 60");
            wait_for_state(process, MS_RUNNING);
            setitimer(ITIMER_REAL, &timer, NULL);
            assert_int_equal(ms_process_wait(process, 5000, output != 0), MS_WAITED_INTERRUPTED);
            ms_process_release(process);
        }
    }
    sigaction(SIGALRM, &before, NULL);
    all_is_gone();
}

static void a_wait_for_output_sees_it_as_it_comes(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way,
                                           "for i in 1 2 3; do echo $i; sleep 0.15; done; echo e >&2");
        char seen[64] = "";
        uint64_t offset = 0, lost;
        int wakes = 0;
        enum ms_waited waited;
        while ((waited = ms_process_wait(process, 5000, true)) == MS_WAITED_OUTPUT) {
            assert_true(++wakes < 20);
            size_t used = strlen(seen);
            used += ms_process_read(process, MS_STDOUT, offset, seen + used, sizeof seen - 1 - used, &offset, &lost);
            seen[used] = '\0';
            uint64_t unused;
            char error[8];
            ms_process_read(process, MS_STDERR, 0, error, sizeof error, &unused, &lost);
        }
        assert_int_equal(waited, MS_WAITED_SETTLED);
        assert_true(wakes >= 3);
        assert_int_equal(strncmp(seen, "1\n2\n3\n", strlen(seen)), 0);
        assert_string_equal(text_of(process, MS_STDOUT), "1\n2\n3\n");
        ms_process_release(process);
    }
    all_is_gone();
}

static bool is_readable(int fd, int milliseconds)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    return poll(&polled, 1, milliseconds) == 1;
}

static void the_descriptor_is_readable_while_there_is_something_new(void **state)
{
    struct ms_facts facts;
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS, .input = "x\n", .input_size = 2 },
                                           way, "sleep 0.2; echo one; sleep 0.3; echo two; sleep 0.2");
        wait_for_state(process, MS_RUNNING);
        int fd = ms_process_fileno(process);
        assert_true(fd >= 0);
        assert_int_equal(ms_process_fileno(process), fd);
        ms_process_facts(process, &facts);
        assert_false(is_readable(fd, 0));
        assert_true(is_readable(fd, 3000));
        assert_string_equal(text_of(process, MS_STDOUT), "one\n"); /* a read to the end sees it all */
        assert_false(is_readable(fd, 0));
        assert_true(is_readable(fd, 3000));
        ms_process_facts(process, &facts);
        assert_false(is_readable(fd, 0));
        assert_true(is_readable(fd, 3000));
        settle_within(process, 3000);
        assert_false(is_readable(fd, 0));
        ms_process_release(process);
    }
    all_is_gone();
}

static void *wait_in_thread(void *process)
{
    return (void *)(intptr_t)ms_process_wait(process, 5000, false);
}

static void two_threads_may_wait_for_the_same(void **state)
{
    (void)state;
    EACH_WAY(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "sleep 0.2");
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_in_thread, process), 0);
        assert_int_equal(ms_process_wait(process, 20, false), MS_WAITED_TIMEOUT);
        for (int i = 0; i < 3; i++) {
            void *result;
            pthread_join(threads[i], &result);
            assert_int_equal((intptr_t)result, MS_WAITED_SETTLED);
        }
        ms_process_release(process);
    }
    all_is_gone();
}

/* --- many ------------------------------------------------------------------------------------------------------------ */

static void five_hundred_at_once_settle_each_with_its_own_facts(void **state)
{
    enum { MANY = 500 };
    static struct ms_process *all[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++) {
        char script[100];
        snprintf(script, sizeof script, "sleep 1.5; echo %d; exit %d", i, i % 250);
        all[i] =
            start((struct ms_process_options){ DEFAULTS, .timeout_ms = 120000 }, i % 2 == 0 ? REAL : PLAIN, script);
    }
    for (int i = 0; i < MANY; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%d\n", i);
        struct ms_facts facts = settle_within(all[i], 120000);
        assert_int_equal(facts.wait_status, (i % 250) << 8);
        assert_string_equal(text_of(all[i], MS_STDOUT), expected);
        ms_process_release(all[i]);
    }
    all_is_gone();
}

static void *start_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < 30; i++) {
        struct ms_process *process =
            start((struct ms_process_options){ DEFAULTS }, (enum way)(i % 3), "echo x; exit 3");
        struct ms_facts facts = settle_within(process, 20000);
        HOLDS(facts.wait_status == 3 << 8);
        HOLDS(facts.stream[MS_STDOUT].bytes == 2);
        ms_process_release(process);
    }
    return NULL;
}

static void threads_may_start_commands_at_the_same_time(void **state)
{
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    all_is_gone();
}

static int few_descriptors(char **arguments)
{
    (void)arguments;
    struct ms_process *running[64];
    int count = 0;
    struct rlimit limit;
    HOLDS(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 60;
    HOLDS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct ms_error error = { .error = 0 };
    while (count < 64) {
        struct ms_process *process = start_with((struct ms_process_options){ DEFAULTS }, count % 2 == 0 ? REAL : PLAIN,
                                                "", "sleep 0.5; echo fine", &error);
        if (process == NULL)
            break;
        running[count++] = process;
    }
    HOLDS(count >= 5 && count < 30);
    HOLDS(error.error == EMFILE);
    for (int i = 0; i < 200; i++)
        HOLDS(start_with((struct ms_process_options){ DEFAULTS }, REAL, "", "true", &error) == NULL &&
              error.error == EMFILE);
    for (int i = 0; i < count; i++) {
        struct ms_facts facts = settle_within(running[i], 10000);
        HOLDS(facts.have_status && facts.wait_status == 0);
        HOLDS(strcmp(text_of(running[i], MS_STDOUT), "fine\n") == 0);
        ms_process_release(running[i]);
    }
    all_is_gone();
    struct ms_process *again = start((struct ms_process_options){ DEFAULTS }, REAL, "exit 5");
    HOLDS(settle_within(again, 5000).wait_status == 5 << 8);
    ms_process_release(again);
    all_is_gone();
    return 0;
}

static void without_descriptors_what_runs_goes_on_and_the_rest_is_told(void **state)
{
    (void)state;
    host_succeeds("few-descriptors", NULL, NULL, 60000);
}

static void nothing_is_left_open(void **state)
{
    (void)state;
    int before = count_descriptors();
    for (int i = 0; i < 20; i++) {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, (enum way)(i % 3), "echo x");
        ms_process_fileno(process);
        settle_within(process, 5000);
        ms_process_release(process);
    }
    all_is_gone();
    assert_int_equal(count_descriptors(), before);
}

/* --- hosts that behave oddly ----------------------------------------------------------------------------------------- */

static int ignoring_sigchld(char **arguments)
{
    (void)arguments;
    signal(SIGCHLD, SIG_IGN);
    EACH_LAUNCHER(way)
    {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "kill -SEGV $$");
        struct ms_facts facts = settle_within(process, 5000);
        HOLDS(facts.have_status && (facts.wait_status & 0x7f) == SIGSEGV);
        ms_process_release(process);
    }
    struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, PLAIN, "exit 3");
    struct ms_facts facts = settle_within(process, 5000);
    HOLDS(facts.status_lost || (facts.have_status && facts.wait_status == 3 << 8));
    ms_process_release(process);
    all_is_gone();
    return 0;
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

static int reaping_anyone(char **arguments)
{
    (void)arguments;
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, reap_anyone, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        EACH_LAUNCHER(way)
        {
            struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, way, "exit 3");
            struct ms_facts facts = settle_within(process, 5000);
            HOLDS(facts.have_status && facts.wait_status == 3 << 8);
            ms_process_release(process);
        }
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, PLAIN, "exit 3");
        struct ms_facts facts = settle_within(process, 5000);
        HOLDS(facts.status_lost || (facts.have_status && facts.wait_status == 3 << 8));
        ms_process_release(process);
    }
    for (int64_t until = now_ms() + 3000; ms_supervisor_count() > 0; sleep_ms(1))
        HOLDS(now_ms() < until);
    return 0;
}

static void a_host_that_ignores_sigchld_loses_no_status(void **state)
{
    (void)state;
    host_succeeds("ignoring-sigchld", NULL, NULL, 20000);
}

static void a_host_that_reaps_any_child_loses_no_status(void **state)
{
    (void)state;
    host_succeeds("reaping-anyone", NULL, NULL, 30000);
}

/* Starts one command each way, waits until they run, says so by making the file, and then does as told. */
static int with_commands(char **arguments)
{
    const char *what = arguments[0], *mark = arguments[1];
    struct ms_process *all[3];
    EACH_WAY(way)
    {
        all[way] = start((struct ms_process_options){ DEFAULTS }, way,
                         "trap '' TERM HUP INT; setsid bash -c 'trap \"\" TERM HUP; sleep 60; :' \"$0\" & "
                         "echo ready; sleep 60; :");
        wait_for_text(all[way], "ready");
    }
    if (strcmp(what, "fork") == 0 && fork() == 0) { /* a child that lives on, with whatever it inherited */
        sleep_ms(4000);
        _exit(0);
    }
    close(open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (strcmp(what, "exit") == 0)
        return 0;
    for (;;)
        pause();
    return 0;
}

static void wait_for_file(const char *path)
{
    for (int64_t until = now_ms() + 10000; !exists(path) && now_ms() < until;)
        sleep_ms(2);
    assert_true(exists(path));
    unlink(path);
}

/* Without a launcher only the child itself is sure to die with its host: the kernel does that. Its own session, which it
 * made on purpose, is what launchers are for. */
static bool no_command_lives(int milliseconds)
{
    for (int64_t until = now_ms() + milliseconds; now_ms() < until; sleep_ms(5))
        if (count_with(word) <= 1)
            return true;
    return false;
}

static void nothing_survives_a_killed_host(void **state)
{
    char directory[64], mark[80];
    (void)state;
    snprintf(mark, sizeof mark, "%s/mark", make_directory(directory));
    pid_t host = start_host("with-commands", "wait", mark);
    wait_for_file(mark);
    assert_true(count_with(word) >= 6);
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    assert_true(no_command_lives(1000));
    signal_with(word, SIGKILL);
    remove_tree(directory);
}

static void nothing_survives_a_host_that_exits_and_the_exit_does_not_hang(void **state)
{
    char directory[64], mark[80];
    (void)state;
    snprintf(mark, sizeof mark, "%s/mark", make_directory(directory));
    int64_t before = now_ms();
    host_succeeds("with-commands", "exit", mark, 10000);
    assert_true(now_ms() - before < 5000);
    assert_true(no_command_lives(1000));
    signal_with(word, SIGKILL);
    remove_tree(directory);
}

static void a_forked_child_that_lives_on_keeps_no_command_alive(void **state)
{
    char directory[64], mark[80];
    (void)state;
    snprintf(mark, sizeof mark, "%s/mark", make_directory(directory));
    pid_t host = start_host("with-commands", "fork", mark);
    wait_for_file(mark);
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    assert_true(no_command_lives(1000));
    signal_with(word, SIGKILL);
    remove_tree(directory);
}

static int forking(char **arguments)
{
    (void)arguments;
    struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, REAL, "sleep 0.5; echo fine; exit 4");
    pid_t pid = fork();
    if (pid == 0) {
        struct ms_error error;
        struct ms_facts facts;
        uint64_t next, lost;
        char text[16];
        HOLDS(!ms_supervisor_usable(&error));
        HOLDS(strstr(error.reason, "fork") != NULL);
        HOLDS(start_with((struct ms_process_options){ DEFAULTS }, REAL, "", "true", &error) == NULL);
        HOLDS(error.stage == MS_STAGE_SUPERVISOR && error.error == ECANCELED);
        HOLDS(ms_process_wait(process, -1, false) == MS_WAITED_FAILED);
        HOLDS(ms_process_fileno(process) == -1);
        HOLDS(!ms_process_terminate(process, 0));
        HOLDS(ms_process_signal(process, SIGKILL) == ECANCELED);
        HOLDS(ms_process_read(process, MS_STDOUT, 0, text, sizeof text, &next, &lost) == 0);
        ms_process_facts(process, &facts);
        HOLDS(ms_process_spill_path(process, MS_STDOUT, text, sizeof text) == 0);
        ms_process_release(process);
        exit(0); /* with all its handlers */
    }
    int status;
    HOLDS(waitpid(pid, &status, 0) == pid);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct ms_facts facts = settle_within(process, 5000);
    HOLDS(facts.wait_status == 4 << 8);
    HOLDS(strcmp(text_of(process, MS_STDOUT), "fine\n") == 0);
    ms_process_release(process);
    all_is_gone();
    return 0;
}

static void after_a_fork_the_child_gets_an_error_and_the_parent_goes_on(void **state)
{
    (void)state;
    host_succeeds("forking", NULL, NULL, 20000);
}

static void *fork_often(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE)) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            waitpid(pid, NULL, 0);
        sleep_ms(1);
    }
    return NULL;
}

static int forking_meanwhile(char **arguments)
{
    (void)arguments;
    bool stop = false;
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, fork_often, &stop) == 0);
    for (int i = 0; i < 60; i++) {
        struct ms_process *process = start((struct ms_process_options){ DEFAULTS }, (enum way)(i % 3), "echo x");
        struct ms_facts facts = settle_within(process, 10000);
        HOLDS(facts.wait_status == 0 && facts.stream[MS_STDOUT].bytes == 2);
        ms_process_release(process);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    all_is_gone();
    return 0;
}

static void another_thread_may_fork_at_any_time(void **state)
{
    (void)state;
    host_succeeds("forking-meanwhile", NULL, NULL, 60000);
}

static int exiting_with_spill(char **arguments)
{
    struct ms_process_options options = { DEFAULTS, .spill_base = arguments[0] };
    struct ms_process *process = start(options, FAKE, "head -c 100000 /dev/zero; sleep 60");
    char path[4096];
    for (int64_t until = now_ms() + 5000; ms_process_spill_path(process, MS_STDOUT, path, sizeof path) == 0;
         sleep_ms(1))
        HOLDS(now_ms() < until);
    HOLDS(exists(path));
    return 0;
}

static void spill_files_go_with_their_host(void **state)
{
    char base[64];
    (void)state;
    make_directory(base);
    host_succeeds("exiting-with-spill", base, NULL, 10000);
    assert_int_equal(count_entries(base), 0);
    assert_true(none_with_within(word, 1000));
    remove_tree(base);
}

/* --- probe ----------------------------------------------------------------------------------------------------------- */

static void a_probe_says_whether_a_runner_works(void **state)
{
    static struct ms_probe probe;
    const char *good[] = { "/bin/sh", "-c", "echo fine; echo hint >&2", NULL };
    const char *bad[] = { "/bin/sh", "-c", "echo 'no, because' >&2; exit 3", NULL };
    const char *hangs[] = { "/bin/sh", "-c", "trap '' TERM; sleep 60; :", word, NULL };
    const char *missing[] = { "/nowhere/runner", NULL };
    (void)state;
    assert_true(ms_probe_run(good, environment(), 5000, &probe));
    assert_string_equal(probe.stdout_text, "fine\n");
    assert_string_equal(probe.stderr_text, "hint\n");
    assert_false(ms_probe_run(bad, environment(), 5000, &probe));
    assert_true(probe.started && probe.have_status);
    assert_int_equal(probe.wait_status, 3 << 8);
    assert_string_equal(probe.stderr_text, "no, because\n");
    int64_t before = now_ms();
    assert_false(ms_probe_run(hangs, environment(), 200, &probe));
    assert_true(now_ms() - before < 1500);
    assert_true(probe.timed_out);
    all_is_gone();
    if (!under_valgrind()) {
        assert_false(ms_probe_run(missing, environment(), 200, &probe));
        assert_false(probe.started);
        assert_int_equal(probe.error.error, ENOENT);
    }
    all_is_gone();
}

static const struct host hosts[] = {
    { "few-descriptors", few_descriptors },
    { "ignoring-sigchld", ignoring_sigchld },
    { "reaping-anyone", reaping_anyone },
    { "with-commands", with_commands },
    { "forking", forking },
    { "forking-meanwhile", forking_meanwhile },
    { "exiting-with-spill", exiting_with_spill },
};

int main(int argc, char **argv)
{
    char own_word[64];
    snprintf(own_word, sizeof own_word, "moonsand-test-%d", (int)getpid());
    setenv("MOONSAND_TEST_WORD", own_word, 0); /* a host has that of its test */
    word = getenv("MOONSAND_TEST_WORD");
    run_host_if_asked(argc, argv, hosts, sizeof hosts / sizeof hosts[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_exit_code_arrive),
        cmocka_unit_test(every_exit_code_stays_the_commands),
        cmocka_unit_test(a_signal_is_the_true_one),
        cmocka_unit_test(stdin_is_the_given_bytes_else_empty),
        cmocka_unit_test(descriptors_can_be_passed_through),
        cmocka_unit_test(a_failed_start_says_why_and_disturbs_nothing),
        cmocka_unit_test(a_command_that_cannot_be_started_is_no_runner_failure),
        cmocka_unit_test(a_runner_that_says_failed_failed_with_its_reason),
        cmocka_unit_test(a_runner_that_ends_without_a_word_failed),
        cmocka_unit_test(a_runner_that_dies_wakes_who_waits_though_a_child_holds_its_report),
        cmocka_unit_test(a_runner_that_hangs_is_given_up_in_time_and_nothing_ran),
        cmocka_unit_test(a_runner_in_time_is_not_given_up),
        cmocka_unit_test(nonsense_on_the_report_is_a_runner_failure),
        cmocka_unit_test(records_may_come_in_pieces),
        cmocka_unit_test(a_launcher_that_dies_before_its_last_word_keeps_the_status),
        cmocka_unit_test(a_runner_that_closes_its_descriptors_is_judged_by_its_own_end),
        cmocka_unit_test(what_a_command_prints_does_not_make_a_runner_fail),
        cmocka_unit_test(a_command_is_over_when_it_is_over_whoever_holds_its_pipes),
        cmocka_unit_test(no_leftover_survives),
        cmocka_unit_test(what_the_pipes_hold_at_settlement_is_collected_first),
        cmocka_unit_test(forty_megabytes_are_in_the_file_byte_for_byte),
        cmocka_unit_test(a_gigabyte_takes_no_memory_and_the_tail_is_right),
        cmocka_unit_test(memory_of_many_commands_is_that_of_their_tails),
        cmocka_unit_test(a_command_that_traps_term_gets_its_grace),
        cmocka_unit_test(a_tree_that_ignores_term_is_gone_after_the_grace),
        cmocka_unit_test(a_stopped_tree_dies_too),
        cmocka_unit_test(termination_is_idempotent_and_the_first_cause_wins),
        cmocka_unit_test(a_command_can_time_out_and_exit_with_0),
        cmocka_unit_test(a_launcher_that_does_not_listen_is_killed),
        cmocka_unit_test(a_start_can_be_aborted),
        cmocka_unit_test(a_signal_reaches_the_command),
        cmocka_unit_test(a_forgotten_command_is_killed_and_reaped),
        cmocka_unit_test(termination_may_race_with_the_end),
        cmocka_unit_test(deadlines_fire_and_output_is_drained_while_the_caller_is_busy),
        cmocka_unit_test(nothing_spins),
        cmocka_unit_test(a_wait_ends_with_its_time),
        cmocka_unit_test(a_wait_gives_way_to_a_signal),
        cmocka_unit_test(a_wait_for_output_sees_it_as_it_comes),
        cmocka_unit_test(the_descriptor_is_readable_while_there_is_something_new),
        cmocka_unit_test(two_threads_may_wait_for_the_same),
        cmocka_unit_test(five_hundred_at_once_settle_each_with_its_own_facts),
        cmocka_unit_test(threads_may_start_commands_at_the_same_time),
        cmocka_unit_test(without_descriptors_what_runs_goes_on_and_the_rest_is_told),
        cmocka_unit_test(nothing_is_left_open),
        cmocka_unit_test(a_host_that_ignores_sigchld_loses_no_status),
        cmocka_unit_test(a_host_that_reaps_any_child_loses_no_status),
        cmocka_unit_test(nothing_survives_a_killed_host),
        cmocka_unit_test(nothing_survives_a_host_that_exits_and_the_exit_does_not_hang),
        cmocka_unit_test(a_forked_child_that_lives_on_keeps_no_command_alive),
        cmocka_unit_test(after_a_fork_the_child_gets_an_error_and_the_parent_goes_on),
        cmocka_unit_test(another_thread_may_fork_at_any_time),
        cmocka_unit_test(spill_files_go_with_their_host),
        cmocka_unit_test(a_probe_says_whether_a_runner_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
