/* The same through io_uring, whose operations no seccomp filter sees. Raw system calls: no library is needed. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OP_FTRUNCATE 55

struct ring {
    int fd;
    struct io_uring_sqe *entry;
    const struct io_uring_cqe *result;
    unsigned *tail, *array, *head;
};

static bool ring_open(struct ring *ring, unsigned flags)
{
    struct io_uring_params parameters = { .flags = flags, .sq_thread_idle = 50 };
    ring->fd = (int)syscall(SYS_io_uring_setup, 1, &parameters);
    if (ring->fd < 0)
        return false;
    size_t size = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    size_t other = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    char *shared = mmap(NULL, size > other ? size : other, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    ring->entry = mmap(NULL, sizeof *ring->entry, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
    if (shared == MAP_FAILED || ring->entry == MAP_FAILED)
        return false;
    ring->tail = (unsigned *)(void *)(shared + parameters.sq_off.tail);
    ring->array = (unsigned *)(void *)(shared + parameters.sq_off.array);
    ring->head = (unsigned *)(void *)(shared + parameters.cq_off.head);
    ring->result = (const struct io_uring_cqe *)(const void *)(shared + parameters.cq_off.cqes);
    return true;
}

/* Submits the one entry; its result, or -1 with errno. */
static int submit(const struct ring *ring, unsigned flags)
{
    ring->array[0] = 0;
    __atomic_store_n(ring->tail, 1U, __ATOMIC_RELEASE);
    long n = syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS | flags, NULL, 0UL);
    if (n < 0)
        return -1;
    if (ring->result[0].res < 0) {
        errno = -ring->result[0].res;
        return -1;
    }
    return ring->result[0].res;
}

static int perform(const struct io_uring_sqe *entry)
{
    struct ring ring;
    if (!ring_open(&ring, 0))
        return -1;
    *ring.entry = *entry;
    return submit(&ring, 0);
}

#define AT(pointer) ((uint64_t)(uintptr_t)(pointer))
#define OPERATION(name, ...)                                                                                           \
    static int name(const struct facts *facts)                                                                         \
    {                                                                                                                  \
        (void)facts;                                                                                                   \
        struct io_uring_sqe entry = { __VA_ARGS__ };                                                                   \
        return done_or_absent(perform(&entry), "io_uring, or this operation of it");                                   \
    }

OPERATION(make_directory, .opcode = IORING_OP_MKDIRAT, .fd = AT_FDCWD, .addr = AT("new"), .len = 0755)
OPERATION(rename_file, .opcode = IORING_OP_RENAMEAT, .fd = AT_FDCWD, .addr = AT("file"), .len = (uint32_t)AT_FDCWD,
          .off = AT("new"))
OPERATION(unlink_file, .opcode = IORING_OP_UNLINKAT, .fd = AT_FDCWD, .addr = AT("file"))
OPERATION(link_file, .opcode = IORING_OP_LINKAT, .fd = AT_FDCWD, .addr = AT("file"), .len = (uint32_t)AT_FDCWD,
          .off = AT("new"))
OPERATION(symlink_file, .opcode = IORING_OP_SYMLINKAT, .fd = AT_FDCWD, .addr = AT("file"), .off = AT("new"))
OPERATION(open_truncating, .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = AT("file"),
          .open_flags = O_RDONLY | O_TRUNC)
OPERATION(create, .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = AT("new"), .len = 0644,
          .open_flags = O_WRONLY | O_CREAT)
OPERATION(set_attribute, .opcode = IORING_OP_SETXATTR, .addr = AT("user.mark"), .off = AT("1"), .addr3 = AT("file"),
          .len = 1)
OPERATION(set_attribute_fd, .opcode = IORING_OP_FSETXATTR, .fd = open("file", O_RDONLY | O_CLOEXEC),
          .addr = AT("user.mark"), .off = AT("1"), .len = 1)
OPERATION(allocate, .opcode = IORING_OP_FALLOCATE, .fd = open("big", O_RDWR | O_CLOEXEC), .off = 0, .addr = 1 << 20)
OPERATION(shorten, .opcode = OP_FTRUNCATE, .fd = open("file", O_RDWR | O_CLOEXEC), .off = 1)

static int write_descriptor(const struct facts *facts)
{
    int fd = open("file", O_RDWR | O_CLOEXEC);
    struct io_uring_sqe entry = {
        .opcode = IORING_OP_WRITE,
        .fd = fd >= 0 ? fd : open("file", O_RDONLY | O_CLOEXEC),
        .addr = AT(facts->name),
        .len = (uint32_t)strlen(facts->name),
    };
    return done_or_absent(perform(&entry), "io_uring");
}

/* The kernel's thread does the work, when nobody of the process is in a system call. */
static int polled(const struct facts *facts)
{
    struct ring ring;
    (void)facts;
    if (!ring_open(&ring, IORING_SETUP_SQPOLL))
        return done_or_absent(-1, "io_uring's SQPOLL");
    *ring.entry = (struct io_uring_sqe){
        .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = AT("new"), .len = 0644, .open_flags = O_WRONLY | O_CREAT
    };
    return done_unless_negative(submit(&ring, IORING_ENTER_SQ_WAKEUP));
}

/* A worker thread, forced. */
static int worker(const struct facts *facts)
{
    (void)facts;
    struct io_uring_sqe entry = {
        .opcode = IORING_OP_MKDIRAT, .flags = IOSQE_ASYNC, .fd = AT_FDCWD, .addr = AT("new"), .len = 0755
    };
    return done_or_absent(perform(&entry), "io_uring");
}

static int device_list(const struct facts *facts)
{
    static const unsigned char list[] = {
        2, 0, 0,   0,   1,   0,   6,    0, 255, 255, 255, 255, 2,   0,   6,    0, 0xd2, 4, 0,   0,   4,   0,
        6, 0, 255, 255, 255, 255, 0x10, 0, 6,   0,   255, 255, 255, 255, 0x20, 0, 4,    0, 255, 255, 255, 255,
    };
    (void)facts;
    struct io_uring_sqe entry = { .opcode = IORING_OP_SETXATTR,
                                  .addr = AT("system.posix_acl_access"),
                                  .off = AT(list),
                                  .addr3 = AT("/dev/full"),
                                  .len = sizeof list };
    return done_or_absent(perform(&entry), "io_uring");
}

static const struct attack list[] = {
    { "uring-mkdir", "own", "IORING_OP_MKDIRAT", make_directory, NULL, 0 },
    { "uring-rename", "own", "IORING_OP_RENAMEAT", rename_file, NULL, 0 },
    { "uring-unlink", "own", "IORING_OP_UNLINKAT", unlink_file, NULL, 0 },
    { "uring-link", "own", "IORING_OP_LINKAT", link_file, NULL, 0 },
    { "uring-symlink", "own", "IORING_OP_SYMLINKAT", symlink_file, NULL, 0 },
    { "uring-truncate-open", "own", "IORING_OP_OPENAT with O_TRUNC", open_truncating, NULL, 0 },
    { "uring-create", "own", "IORING_OP_OPENAT with O_CREAT", create, NULL, 0 },
    { "uring-write", "own", "IORING_OP_WRITE", write_descriptor, NULL, 0 },
    { "uring-setxattr", "own", "IORING_OP_SETXATTR", set_attribute, NULL, 0 },
    { "uring-fsetxattr", "own", "IORING_OP_FSETXATTR", set_attribute_fd, NULL, 0 },
    { "uring-fallocate", "own", "IORING_OP_FALLOCATE", allocate, NULL, 0 },
    { "uring-ftruncate", "own", "IORING_OP_FTRUNCATE", shorten, NULL, 0 },
    { "uring-sqpoll", "own", "a file made by the kernel's polling thread", polled, NULL, 0 },
    { "uring-worker", "own", "a directory made by a worker thread", worker, NULL, 0 },
    { "uring-device-acl", "device:", "an access control list for a device node", device_list, NULL, ROOT },
};

FAMILY(uring_family, "io_uring", list);
