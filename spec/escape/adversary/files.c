/* Every system call that makes, changes, moves, links, shortens or removes a file. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define CALL(name, ...)                                                                                                \
    static int do_##name(const struct facts *facts)                                                                    \
    {                                                                                                                  \
        (void)facts;                                                                                                   \
        return done_or_absent(__VA_ARGS__, #name);                                                                     \
    }

#ifdef SYS_creat
CALL(creat, syscall(SYS_creat, "new", 0644))
CALL(mkdir, syscall(SYS_mkdir, "new", 0755))
CALL(mknod, syscall(SYS_mknod, "new", S_IFREG | 0644, 0))
CALL(symlink, syscall(SYS_symlink, "file", "new"))
CALL(link, syscall(SYS_link, "file", "new"))
CALL(rename, syscall(SYS_rename, "file", "new"))
CALL(unlink, syscall(SYS_unlink, "file"))
CALL(rmdir, syscall(SYS_rmdir, "empty"))
#endif
CALL(mkdirat, syscall(SYS_mkdirat, AT_FDCWD, "new", 0755))
CALL(fifo, mknod("new", S_IFIFO | 0644, 0))
CALL(socket_node, mknod("new", S_IFSOCK | 0644, 0))
CALL(character_node, mknod("new", S_IFCHR | 0666, makedev(1, 3)))
CALL(block_node, mknod("new", S_IFBLK | 0666, makedev(7, 0)))
CALL(symlinkat, syscall(SYS_symlinkat, "file", AT_FDCWD, "new"))
CALL(linkat, syscall(SYS_linkat, AT_FDCWD, "file", AT_FDCWD, "new", 0))
CALL(renameat, syscall(SYS_renameat2, AT_FDCWD, "dir/child", AT_FDCWD, "new", 1U))
CALL(unlinkat, syscall(SYS_unlinkat, AT_FDCWD, "link", 0))
CALL(unlink_socket, unlink("socket"))
CALL(unlink_fifo, unlink("fifo"))
CALL(truncate, syscall(SYS_truncate, "file", 1L))
CALL(open_truncating, open("file", O_RDONLY | O_TRUNC | O_CLOEXEC))
CALL(ftruncate, ftruncate(open("file", O_RDWR | O_CLOEXEC), 1))

static int unnamed(const struct facts *facts)
{
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0)
        return done_or_absent(-1, "O_TMPFILE");
    mark_descriptor(facts, fd);
    return done_unless_negative(linkat(AT_FDCWD, text("/proc/self/fd/%d", fd), AT_FDCWD, "new", AT_SYMLINK_FOLLOW));
}

static int unnamed_from_workspace(const struct facts *facts)
{
    int fd = open(facts->spring, O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0)
        return done_or_absent(-1, "O_TMPFILE");
    mark_descriptor(facts, fd);
    return done_unless_negative(linkat(AT_FDCWD, text("/proc/self/fd/%d", fd), AT_FDCWD, "new", AT_SYMLINK_FOLLOW));
}

static int bound_socket(const struct facts *facts)
{
    (void)facts;
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "new" };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return done_unless_negative(bind(fd, (const struct sockaddr *)&address, sizeof address));
}

/* For calls that need nothing but a descriptor: the one for writing, else the one for reading that is always had. */
static int writable_or_not(const char *name)
{
    int fd = open(name, O_RDWR | O_CLOEXEC);
    return fd >= 0 ? fd : open(name, O_RDONLY | O_CLOEXEC);
}

static int allocate(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(fallocate(writable_or_not("big"), 0, 0, 1 << 20), "fallocate");
}

static int punch(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(fallocate(writable_or_not("big"), 3 /* PUNCH_HOLE | KEEP_SIZE */, 0, 4096), "PUNCH_HOLE");
}

static int collapse(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(fallocate(writable_or_not("big"), 8 /* COLLAPSE_RANGE */, 0, 4096), "COLLAPSE_RANGE");
}

static int zero(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(fallocate(writable_or_not("big"), 16 /* ZERO_RANGE */, 0, 4096), "ZERO_RANGE");
}

static int copy_range(const struct facts *facts)
{
    (void)facts;
    int from = open("big", O_RDONLY | O_CLOEXEC);
    return done_or_absent(copy_file_range(from, NULL, writable_or_not("file"), NULL, 4096, 0), "copy_file_range");
}

static int send_file(const struct facts *facts)
{
    (void)facts;
    return done_unless_negative(sendfile(writable_or_not("file"), open("big", O_RDONLY | O_CLOEXEC), NULL, 4096));
}

static int spliced(const struct facts *facts)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || mark_descriptor(facts, ends[1]) != DONE)
        return REFUSED;
    return done_unless_negative(splice(ends[0], NULL, writable_or_not("file"), NULL, 4, 0));
}

static int gifted(const struct facts *facts)
{
    static _Alignas(4096) char page[4096];
    int ends[2];
    (void)facts;
    memset(page, 'g', sizeof page);
    struct iovec one = { .iov_base = page, .iov_len = sizeof page };
    if (pipe2(ends, O_CLOEXEC) != 0 || vmsplice(ends[1], &one, 1, SPLICE_F_GIFT) < 0)
        return REFUSED;
    return done_unless_negative(splice(ends[0], NULL, writable_or_not("big"), NULL, 4096, SPLICE_F_MOVE));
}

/* What CVE-2022-0847 was: a page of the file's own cache in a pipe, then written to. */
static int dirty_pipe(const struct facts *facts)
{
    int ends[2], fd = open("big", O_RDONLY | O_CLOEXEC);
    char junk[4096];
    off_t at = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return REFUSED;
    for (int i = 0; i < 16 && write(ends[1], junk, sizeof junk) > 0; i++)
        continue;
    for (int i = 0; i < 16 && read(ends[0], junk, sizeof junk) > 0; i++)
        continue;
    if (splice(fd, &at, ends[1], NULL, 1, 0) < 0)
        return REFUSED;
    mark_descriptor(facts, ends[1]);
    return mark_descriptor(facts, open("big", O_WRONLY | O_CLOEXEC)); /* the proof that the canary would show it */
}

static int mapped(const struct facts *facts)
{
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writable_or_not("big"), 0);
    if (map == MAP_FAILED)
        return REFUSED;
    strcpy(map, facts->name);
    return done_unless_negative(msync(map, 4096, MS_SYNC));
}

static int protection_raised(const struct facts *facts)
{
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, writable_or_not("big"), 0);
    if (map == MAP_FAILED || mprotect(map, 4096, PROT_READ | PROT_WRITE) != 0)
        return REFUSED;
    strcpy(map, facts->name);
    return done_unless_negative(msync(map, 4096, MS_SYNC));
}

/* /proc/self/mem writes where the page's protection would not let the process itself write. */
static int through_own_memory(const struct facts *facts)
{
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, writable_or_not("big"), 0);
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (map == MAP_FAILED || memory < 0)
        return REFUSED;
    if (pwrite(memory, facts->name, strlen(facts->name), (off_t)(uintptr_t)map) < 0)
        return errno == EIO ? absent("this kernel's /proc/PID/mem never writes to shared pages") : REFUSED;
    return DONE;
}

static int positioned(const struct facts *facts)
{
    struct iovec one = { .iov_base = (void *)(uintptr_t)facts->name, .iov_len = strlen(facts->name) };
    return done_unless_negative(pwritev2(writable_or_not("file"), &one, 1, 2, 0));
}

static int asynchronous(const struct facts *facts)
{
    aio_context_t context = 0;
    struct iocb one = {
        .aio_lio_opcode = IOCB_CMD_PWRITE,
        .aio_fildes = (uint32_t)writable_or_not("file"),
        .aio_buf = (uint64_t)(uintptr_t)facts->name,
        .aio_nbytes = strlen(facts->name),
    };
    struct iocb *all[] = { &one };
    struct io_event event = { 0 };
    if (syscall(SYS_io_setup, 1, &context) != 0)
        return done_or_absent(-1, "io_setup");
    if (syscall(SYS_io_submit, context, 1L, all) != 1 || syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) != 1)
        return REFUSED;
    errno = event.res < 0 ? (int)-event.res : 0;
    return done_if(event.res > 0);
}

static int accounting(const struct facts *facts)
{
    int outcome = done_or_absent(syscall(SYS_acct, under(facts->own, "file")), "acct");
    if (outcome != DONE)
        return outcome;
    if (fork() == 0)
        _exit(0);
    usleep(50000);
    syscall(SYS_acct, NULL);
    return DONE;
}

/* The kernel itself writes: a core file, where the pattern has no slash. */
static const char core_dump[] = "case $(cat /proc/sys/kernel/core_pattern) in \\|*|/*|@*) echo \"core_pattern names a "
                                "place of the host's\"; exit 77;; esac; ulimit -c unlimited || ulimit -c 1000; "
                                "sh -c 'kill -SEGV $$'; ls core* >/dev/null 2>&1";

static const struct attack list[] = {
#ifdef SYS_creat
    { "creat", "own", "creat(2)", do_creat, NULL, 0 },
    { "mkdir", "own", "mkdir(2)", do_mkdir, NULL, 0 },
    { "mknod", "own", "mknod(2), a regular file", do_mknod, NULL, 0 },
    { "symlink", "own", "symlink(2)", do_symlink, NULL, 0 },
    { "link", "own", "link(2)", do_link, NULL, 0 },
    { "rename", "own", "rename(2)", do_rename, NULL, 0 },
    { "unlink", "own", "unlink(2)", do_unlink, NULL, 0 },
    { "rmdir", "own", "rmdir(2)", do_rmdir, NULL, 0 },
#endif
    { "mkdirat", "own", "mkdirat(2)", do_mkdirat, NULL, 0 },
    { "mknod-fifo", "own", "mknod(2), a fifo", do_fifo, NULL, 0 },
    { "mknod-socket", "own", "mknod(2), a socket", do_socket_node, NULL, 0 },
    { "mknod-character", "own", "mknod(2), a character device", do_character_node, NULL, ROOT },
    { "mknod-block", "own", "mknod(2), a block device", do_block_node, NULL, ROOT },
    { "symlinkat", "own", "symlinkat(2)", do_symlinkat, NULL, 0 },
    { "linkat", "own", "linkat(2)", do_linkat, NULL, 0 },
    { "renameat2", "own", "renameat2(2) with RENAME_NOREPLACE", do_renameat, NULL, 0 },
    { "unlinkat", "own", "unlinkat(2), a symbolic link", do_unlinkat, NULL, 0 },
    { "unlink-socket", "own", "unlink(2), a socket", do_unlink_socket, NULL, 0 },
    { "unlink-fifo", "own", "unlink(2), a fifo", do_unlink_fifo, NULL, 0 },
    { "truncate", "own", "truncate(2)", do_truncate, NULL, 0 },
    { "open-truncating", "own", "open(2) for reading, with O_TRUNC", do_open_truncating, NULL, 0 },
    { "ftruncate", "own", "ftruncate(2)", do_ftruncate, NULL, 0 },
    { "tmpfile", "own", "O_TMPFILE outside, then a name for it", unnamed, NULL, 0 },
    { "tmpfile-workspace", "own", "O_TMPFILE in the workspace, then a name outside", unnamed_from_workspace, NULL, 0 },
    { "bind-socket", "own", "bind(2) of a Unix socket", bound_socket, NULL, 0 },
    { "fallocate", "own", "fallocate(2)", allocate, NULL, 0 },
    { "fallocate-punch", "own", "fallocate(2): a hole", punch, NULL, 0 },
    { "fallocate-collapse", "own", "fallocate(2): a range removed", collapse, NULL, 0 },
    { "fallocate-zero", "own", "fallocate(2): a range zeroed", zero, NULL, 0 },
    { "copy-file-range", "own", "copy_file_range(2)", copy_range, NULL, 0 },
    { "sendfile", "own", "sendfile(2)", send_file, NULL, 0 },
    { "splice", "own", "splice(2) from a pipe", spliced, NULL, 0 },
    { "vmsplice", "own", "vmsplice(2), a gift, then splice(2)", gifted, NULL, 0 },
    { "dirty-pipe", "own", "a page of the file's cache in a pipe that is then written", dirty_pipe, NULL, 0 },
    { "mmap-shared", "own", "a shared mapping", mapped, NULL, 0 },
    { "mprotect", "own", "a shared mapping for reading, made writable", protection_raised, NULL, 0 },
    { "proc-self-mem", "own", "a shared mapping for reading, written through /proc/self/mem", through_own_memory, NULL,
      0 },
    { "pwritev2", "own", "pwritev2(2)", positioned, NULL, 0 },
    { "aio", "own", "io_submit(2)", asynchronous, NULL, 0 },
    { "acct", "own", "acct(2): the kernel writes its accounts there", accounting, NULL, ROOT },
    { "core-dump", "own", "a crash in the canary directory, with core files allowed", NULL, core_dump, 0 },
};

FAMILY(files_family, "files", list);
