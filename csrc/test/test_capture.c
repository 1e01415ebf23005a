/* One output stream: the tail, the spill file, and what happens when the file cannot be had. */
#include "world.h"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "capture.h"
#include "spawn.h"

/* The byte at offset N of the streams of these tests: every window of a few bytes is different from its neighbours. */
static unsigned char byte_at(uint64_t offset)
{
    uint64_t x = (offset + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned char)(x >> 56);
}

static void make_bytes(unsigned char *bytes, uint64_t from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(from + i);
}

struct stream {
    struct ms_capture capture;
    int ends[2];
};

static void open_stream(struct stream *stream, size_t limit, const char *spill_base, uint64_t max_spill)
{
    struct ms_spill_dir *dir = spill_base != NULL ? ms_spill_dir(spill_base, false) : NULL;
    ms_capture_init(&stream->capture, limit, dir, max_spill, "stdout-");
    HOLDS(ms_pipe(stream->ends) == 0);
    HOLDS(fcntl(stream->ends[0], F_SETFL, O_NONBLOCK) == 0);
}

/* Writes the next `size` bytes of the stream in pieces and takes them in. */
static void feed(struct stream *stream, size_t size)
{
    static unsigned char bytes[32768];
    while (size > 0) {
        size_t piece = size < sizeof bytes ? size : sizeof bytes;
        make_bytes(bytes, stream->capture.total, piece);
        HOLDS(write(stream->ends[1], bytes, piece) == (ssize_t)piece);
        HOLDS(ms_capture_fill(&stream->capture, stream->ends[0], 1 << 20) == MS_CAPTURE_DRAINED);
        size -= piece;
    }
}

static void close_stream(struct stream *stream)
{
    close(stream->ends[0]);
    close(stream->ends[1]);
    ms_capture_free(&stream->capture);
}

/* From every offset that is asked for, the capture gives what the stream had there. */
static bool reads_right_from(const struct ms_capture *capture, uint64_t offset, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    uint64_t next, lost, kept = capture->total < capture->limit ? capture->total : capture->limit;
    uint64_t first = capture->total - kept;
    size_t length = ms_capture_read(capture, offset, bytes, size, &next, &lost);
    uint64_t start = offset < first ? first : offset > capture->total ? capture->total : offset;
    bool right = lost == (offset < first ? first - offset : 0) && next == start + length &&
                 length == (capture->total - start < size ? (size_t)(capture->total - start) : size);
    for (size_t i = 0; i < length && right; i++)
        right = bytes[i] == byte_at(start + i);
    free(bytes);
    return right;
}

static bool file_is_the_stream(const char *path, uint64_t total)
{
    static unsigned char bytes[65536], expected[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    uint64_t offset = 0;
    ssize_t got;
    bool same = true;
    while (same && (got = read(fd, bytes, sizeof bytes)) > 0) {
        make_bytes(expected, offset, (size_t)got);
        same = memcmp(bytes, expected, (size_t)got) == 0;
        offset += (uint64_t)got;
    }
    close(fd);
    return same && offset == total;
}

static void what_fits_stays_in_memory_and_makes_no_file(void **state)
{
    char base[64];
    struct stream stream;
    (void)state;
    make_directory(base);
    open_stream(&stream, 1000, base, 1 << 20);
    feed(&stream, 1000);
    assert_int_equal(stream.capture.total, 1000);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_NOT_NEEDED);
    assert_true(reads_right_from(&stream.capture, 0, 5000));
    assert_int_equal(count_entries(base), 0);
    close_stream(&stream);
    remove_tree(base);
}

static void the_first_byte_too_many_opens_the_file_and_the_whole_stream_goes_there(void **state)
{
    char base[64], path[4096];
    struct stream stream;
    (void)state;
    make_directory(base);
    open_stream(&stream, 1000, base, 1 << 20);
    feed(&stream, 1000);
    feed(&stream, 1);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_COMPLETE);
    assert_true(ms_spill_path(&stream.capture.spill, path, sizeof path) > 0);
    assert_true(file_is_the_stream(path, 1001));
    feed(&stream, 100000);
    assert_true(file_is_the_stream(path, 101001));
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    *strrchr(path, '/') = '\0';
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    close_stream(&stream);
    remove_tree(base);
}

static void reads_are_by_offset_and_consume_nothing(void **state)
{
    struct stream stream;
    unsigned seed = 7;
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t limit = (size_t)rand_r(&seed) % 20000;
        open_stream(&stream, limit, NULL, 0);
        int pieces = rand_r(&seed) % 12;
        for (int i = 0; i < pieces; i++) {
            feed(&stream, 1 + (size_t)rand_r(&seed) % 9000);
            for (int look = 0; look < 5; look++) {
                uint64_t offset = (uint64_t)rand_r(&seed) % (stream.capture.total + 100);
                assert_true(reads_right_from(&stream.capture, offset, 1 + (size_t)rand_r(&seed) % 30000));
            }
            assert_true(reads_right_from(&stream.capture, 0, 100000));
        }
        assert_int_equal(stream.capture.spill_state,
                         stream.capture.total > limit ? MS_SPILL_NONE : MS_SPILL_NOT_NEEDED);
        assert_true(stream.capture.size <= (limit + 512 > 4096 ? limit + 512 : 4096));
        close_stream(&stream);
    }
}

static void a_null_buffer_counts(void **state)
{
    struct stream stream;
    uint64_t next, lost;
    (void)state;
    open_stream(&stream, 5000, NULL, 0);
    assert_int_equal(ms_capture_read(&stream.capture, 0, NULL, 0, &next, &lost), 0);
    feed(&stream, 7000);
    assert_int_equal(ms_capture_read(&stream.capture, 0, NULL, 0, &next, &lost), 5000);
    assert_int_equal(lost, 2000);
    assert_int_equal(next, 7000);
    close_stream(&stream);
}

static void memory_comes_only_with_output(void **state)
{
    struct stream stream;
    (void)state;
    open_stream(&stream, 64000, NULL, 0);
    assert_null(stream.capture.ring);
    feed(&stream, 10);
    assert_true(stream.capture.size <= 4096);
    feed(&stream, 10000);
    assert_true(stream.capture.size <= 16384);
    feed(&stream, 1000000);
    assert_true(stream.capture.size <= 64512);
    close_stream(&stream);
}

static void a_stream_longer_than_the_spill_may_be_discards_it_and_says_so(void **state)
{
    char base[64], path[4096];
    struct stream stream;
    (void)state;
    make_directory(base);
    open_stream(&stream, 1000, base, 50000);
    feed(&stream, 50000);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_COMPLETE);
    assert_true(ms_spill_path(&stream.capture.spill, path, sizeof path) > 0);
    feed(&stream, 1);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_TOO_LARGE);
    assert_false(exists(path));
    feed(&stream, 70000);
    assert_true(reads_right_from(&stream.capture, 0, 5000));
    close_stream(&stream);
    /* Not even begun when it cannot fit. */
    open_stream(&stream, 1000, base, 1000);
    feed(&stream, 1001);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_TOO_LARGE);
    close_stream(&stream);
    remove_tree(base);
}

static void a_base_that_is_not_ours_alone_is_refused(void **state)
{
    char base[64], link[80], file[80];
    struct stream stream;
    (void)state;
    make_directory(base);
    chmod(base, 0770);
    open_stream(&stream, 10, base, 1000);
    feed(&stream, 100);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_FAILED);
    assert_int_equal(stream.capture.spill_error, EPERM);
    assert_true(reads_right_from(&stream.capture, 0, 100));
    close_stream(&stream);
    chmod(base, 0700);

    snprintf(link, sizeof link, "%s-link", base);
    assert_int_equal(symlink(base, link), 0);
    open_stream(&stream, 10, link, 1000);
    feed(&stream, 100);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_FAILED);
    close_stream(&stream);
    unlink(link);

    snprintf(file, sizeof file, "%s/file", base);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    open_stream(&stream, 10, file, 1000);
    feed(&stream, 100);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_FAILED);
    assert_int_equal(stream.capture.spill_error, ENOTDIR);
    close_stream(&stream);
    assert_int_equal(count_entries(base), 1);
    remove_tree(base);
}

static void a_base_that_belongs_to_somebody_else_is_refused(void **state)
{
    char base[64];
    struct stream stream;
    (void)state;
    struct passwd *nobody = getpwnam("nobody");
    if (geteuid() != 0 || nobody == NULL)
        skip();
    make_directory(base);
    assert_int_equal(chown(base, nobody->pw_uid, nobody->pw_gid), 0);
    open_stream(&stream, 10, base, 1000);
    feed(&stream, 100);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_FAILED);
    assert_int_equal(stream.capture.spill_error, EPERM);
    close_stream(&stream);
    remove_tree(base);
}

static void a_missing_base_is_made_private_whatever_the_umask(void **state)
{
    char parent[64], base[128], path[4096];
    struct stream stream;
    struct stat status;
    (void)state;
    make_directory(parent);
    snprintf(base, sizeof base, "%s/some/where", parent);
    mode_t before = umask(0);
    open_stream(&stream, 10, base, 1000);
    feed(&stream, 100);
    umask(before);
    assert_int_equal(stream.capture.spill_state, MS_SPILL_COMPLETE);
    assert_int_equal(stat(base, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    assert_true(ms_spill_path(&stream.capture.spill, path, sizeof path) > 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    close_stream(&stream);
    remove_tree(parent);
}

/* --- a full disk and its kin ----------------------------------------------------------------------------------------- */

static int full_disk(char **arguments)
{
    const char *base = arguments[0];
    struct stream stream;
    char path[4096];
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", base, "tmpfs", 0, "size=1m,mode=700") != 0)
        return 77;
    open_stream(&stream, 64000, base, 64 << 20);
    feed(&stream, 500000);
    HOLDS(stream.capture.spill_state == MS_SPILL_COMPLETE);
    HOLDS(ms_spill_path(&stream.capture.spill, path, sizeof path) > 0);
    HOLDS(file_is_the_stream(path, 500000));
    feed(&stream, 3000000);
    HOLDS(stream.capture.spill_state == MS_SPILL_FAILED);
    HOLDS(stream.capture.spill_error == ENOSPC);
    HOLDS(!exists(path));
    HOLDS(reads_right_from(&stream.capture, 0, 100000));
    HOLDS(stream.capture.total == 3500000);
    /* The space is free again, for the next command. */
    close_stream(&stream);
    open_stream(&stream, 64000, base, 64 << 20);
    feed(&stream, 500000);
    HOLDS(stream.capture.spill_state == MS_SPILL_COMPLETE);
    close_stream(&stream);
    ms_spill_end();
    HOLDS(count_entries(base) == 0);
    return 0;
}

static void a_full_disk_costs_the_file_and_not_the_tail(void **state)
{
    char base[64];
    (void)state;
    make_directory(base);
    host_succeeds("full-disk", base, NULL, 20000);
    remove_tree(base);
}

static int file_size_limit(char **arguments)
{
    struct rlimit limit = { 100000, 100000 };
    struct stream stream;
    HOLDS(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    open_stream(&stream, 1000, arguments[0], 64 << 20);
    feed(&stream, 400000);
    HOLDS(stream.capture.spill_state == MS_SPILL_FAILED);
    HOLDS(stream.capture.spill_error == EFBIG);
    HOLDS(reads_right_from(&stream.capture, 0, 100000));
    close_stream(&stream);
    return 0;
}

static void a_file_size_limit_does_not_kill_the_host(void **state)
{
    char base[64];
    (void)state;
    make_directory(base);
    host_succeeds("file-size-limit", base, NULL, 10000);
    remove_tree(base);
}

static int little_memory(char **arguments)
{
    struct rlimit limit;
    struct stream stream;
    char path[4096];
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    HOLDS(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    HOLDS(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + (8 << 20));
    HOLDS(setrlimit(RLIMIT_AS, &limit) == 0);
    open_stream(&stream, 512 << 20, arguments[0], 64 << 20);
    feed(&stream, 30 << 20);
    HOLDS(stream.capture.short_of_memory);
    HOLDS(stream.capture.total == 30 << 20);
    HOLDS(stream.capture.limit > 1 << 20 && stream.capture.limit < 16 << 20);
    HOLDS(stream.capture.spill_state == MS_SPILL_COMPLETE);
    HOLDS(ms_spill_path(&stream.capture.spill, path, sizeof path) > 0);
    HOLDS(file_is_the_stream(path, 30 << 20));
    HOLDS(reads_right_from(&stream.capture, (30 << 20) - 100000, 100000));
    close_stream(&stream);
    ms_spill_end();
    return 0;
}

static void without_memory_the_tail_is_shorter_and_the_file_whole(void **state)
{
    char base[64];
    (void)state;
    if (SANITIZED || under_valgrind())
        skip();
    make_directory(base);
    host_succeeds("little-memory", base, NULL, 10000);
    remove_tree(base);
}

/* --- the directories of hosts ---------------------------------------------------------------------------------------- */

/* Spills once, says so by making the file arguments[1], and then ends as asked: "end" or "wait" (to be killed). */
static int spiller(char **arguments, bool keep, bool wait)
{
    struct stream stream = { .ends = { -1, -1 } };
    ms_capture_init(&stream.capture, 10, ms_spill_dir(arguments[0], keep), 1000, "stdout-");
    HOLDS(ms_pipe(stream.ends) == 0);
    HOLDS(fcntl(stream.ends[0], F_SETFL, O_NONBLOCK) == 0);
    feed(&stream, 100);
    HOLDS(stream.capture.spill_state == MS_SPILL_COMPLETE);
    close(open(arguments[1], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    while (wait)
        pause();
    close_stream(&stream);
    ms_spill_end();
    return 0;
}

static int spill_and_end(char **arguments)
{
    return spiller(arguments, false, false);
}

static int spill_and_keep(char **arguments)
{
    return spiller(arguments, true, false);
}

static int spill_and_wait(char **arguments)
{
    return spiller(arguments, false, true);
}

static void wait_for_file(const char *path)
{
    for (int64_t until = now_ms() + 5000; !exists(path) && now_ms() < until;)
        sleep_ms(2);
    assert_true(exists(path));
    unlink(path);
}

static void a_host_removes_its_directory_when_it_ends(void **state)
{
    char base[64], mark[80];
    (void)state;
    snprintf(mark, sizeof mark, "%s.mark", make_directory(base));
    host_succeeds("spill-and-end", base, mark, 5000);
    assert_int_equal(count_entries(base), 0);
    unlink(mark);
    remove_tree(base);
}

static void the_directory_of_a_dead_host_is_swept_and_that_of_a_living_one_is_not(void **state)
{
    char base[64], mark[80];
    (void)state;
    snprintf(mark, sizeof mark, "%s.mark", make_directory(base));
    pid_t host = start_host("spill-and-wait", base, mark);
    wait_for_file(mark);
    assert_int_equal(count_entries(base), 1);
    ms_spill_sweep(base);
    assert_int_equal(count_entries(base), 1);
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    ms_spill_sweep(base);
    assert_int_equal(count_entries(base), 0);
    remove_tree(base);
}

/* The one directory in `base`. */
static void only_entry(const char *base, char path[400])
{
    DIR *entries = opendir(base);
    path[0] = '\0';
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.')
            snprintf(path, 400, "%s/%s", base, entry->d_name);
    closedir(entries);
}

static void what_a_one_shot_command_line_printed_stays_for_a_day(void **state)
{
    char base[64], mark[80], path[400];
    (void)state;
    snprintf(mark, sizeof mark, "%s.mark", make_directory(base));
    host_succeeds("spill-and-keep", base, mark, 5000);
    ms_spill_sweep(base);
    assert_int_equal(count_entries(base), 1);
    only_entry(base, path);
    assert_true(count_entries(path) >= 1);
    struct timespec hours[2] = { { .tv_sec = time(NULL) - 23 * 3600 }, { .tv_sec = time(NULL) - 23 * 3600 } };
    utimensat(AT_FDCWD, path, hours, 0);
    ms_spill_sweep(base);
    assert_int_equal(count_entries(base), 1);
    hours[0].tv_sec = hours[1].tv_sec = time(NULL) - 25 * 3600;
    utimensat(AT_FDCWD, path, hours, 0);
    ms_spill_sweep(base);
    assert_int_equal(count_entries(base), 0);
    unlink(mark);
    remove_tree(base);
}

static void a_sweep_touches_nothing_that_is_not_its_own(void **state)
{
    char base[64], path[128], outside[80];
    (void)state;
    make_directory(base);
    snprintf(outside, sizeof outside, "%s-outside", base);
    assert_int_equal(mkdir(outside, 0700), 0);
    snprintf(path, sizeof path, "%s/file", outside);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    snprintf(path, sizeof path, "%s/host-link", base);
    assert_int_equal(symlink(outside, path), 0);
    snprintf(path, sizeof path, "%s/mine", base);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/host-justmade", base); /* no lock yet, and young */
    assert_int_equal(mkdir(path, 0700), 0);
    ms_spill_sweep(base);
    assert_int_equal(count_entries(base), 3);
    assert_int_equal(count_entries(outside), 1);
    remove_tree(base);
    remove_tree(outside);
}

static const struct host hosts[] = {
    { "little-memory", little_memory }, { "full-disk", full_disk },           { "file-size-limit", file_size_limit },
    { "spill-and-end", spill_and_end }, { "spill-and-keep", spill_and_keep }, { "spill-and-wait", spill_and_wait },
};

int main(int argc, char **argv)
{
    run_host_if_asked(argc, argv, hosts, sizeof hosts / sizeof hosts[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_stays_in_memory_and_makes_no_file),
        cmocka_unit_test(the_first_byte_too_many_opens_the_file_and_the_whole_stream_goes_there),
        cmocka_unit_test(reads_are_by_offset_and_consume_nothing),
        cmocka_unit_test(a_null_buffer_counts),
        cmocka_unit_test(memory_comes_only_with_output),
        cmocka_unit_test(a_stream_longer_than_the_spill_may_be_discards_it_and_says_so),
        cmocka_unit_test(a_base_that_is_not_ours_alone_is_refused),
        cmocka_unit_test(a_base_that_belongs_to_somebody_else_is_refused),
        cmocka_unit_test(a_missing_base_is_made_private_whatever_the_umask),
        cmocka_unit_test(a_full_disk_costs_the_file_and_not_the_tail),
        cmocka_unit_test(without_memory_the_tail_is_shorter_and_the_file_whole),
        cmocka_unit_test(a_file_size_limit_does_not_kill_the_host),
        cmocka_unit_test(a_host_removes_its_directory_when_it_ends),
        cmocka_unit_test(the_directory_of_a_dead_host_is_swept_and_that_of_a_living_one_is_not),
        cmocka_unit_test(what_a_one_shot_command_line_printed_stays_for_a_day),
        cmocka_unit_test(a_sweep_touches_nothing_that_is_not_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
