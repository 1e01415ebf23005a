/* The other doors into the kernel: system calls of 32-bit programs (int 0x80) and of x32, whose numbers mean other calls
 * than a filter for the native ones may think. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

/* A copy where a 32-bit pointer reaches. */
static uint32_t low(const void *data, size_t size)
{
    static char *room;
    static size_t used;
    if (room == NULL)
        room = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    char *to = room + used;
    used += (size + 15) & ~(size_t)15;
    memcpy(to, data, size);
    return (uint32_t)(uintptr_t)to;
}

static uint32_t low_text(const char *data)
{
    return low(data, strlen(data) + 1);
}

static long int80(long number, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"((uint64_t)a), "c"((uint64_t)b), "d"((uint64_t)c), "S"((uint64_t)d),
                       "D"((uint64_t)e)
                     : "memory", "r8", "r9", "r10", "r11");
    if ((int)result < 0 && (int)result > -4096) {
        errno = -(int)result;
        return -1;
    }
    return (int)result;
}

#define FOREIGN(name, ...)                                                                                             \
    static int name(const struct facts *facts)                                                                         \
    {                                                                                                                  \
        (void)facts;                                                                                                   \
        return done_or_absent(int80(__VA_ARGS__), "32-bit system calls");                                              \
    }

static const int32_t past32[4] = { 1000, 0, 2000, 0 };
static const int64_t past64[4] = { 1000, 0, 2000, 0 };

FOREIGN(chmod32, 15, low_text("file"), 0777, 0, 0, 0)
FOREIGN(fchmodat32, 306, (uint32_t)AT_FDCWD, low_text("file"), 0777, 0, 0)
FOREIGN(fchmodat2_32, 452, (uint32_t)AT_FDCWD, low_text("file"), 0777, 0, 0)
FOREIGN(chown32, 212, low_text("file"), getuid(), getgid(), 0, 0)
FOREIGN(utimensat32, 320, (uint32_t)AT_FDCWD, low_text("file"), low(past32, sizeof past32), 0, 0)
FOREIGN(utimensat_time64, 412, (uint32_t)AT_FDCWD, low_text("file"), low(past64, sizeof past64), 0, 0)
FOREIGN(setxattr32, 226, low_text("file"), low_text("user.mark"), low_text("1"), 1, 0)
FOREIGN(mkdir32, 39, low_text("new"), 0755, 0, 0, 0)
FOREIGN(unlink32, 10, low_text("file"), 0, 0, 0, 0)
FOREIGN(creat32, 8, low_text("new"), 0644, 0, 0, 0)

static int setflags32(const struct facts *facts)
{
    uint32_t value = 0x40;
    (void)facts;
    return done_or_absent(int80(54, (uint32_t)open("file", O_RDONLY | O_CLOEXEC), 0x40046602U /* FS_IOC32_SETFLAGS */,
                                low(&value, 4), 0, 0),
                          "32-bit system calls");
}

static int write_hint32(const struct facts *facts)
{
    uint64_t hint = 5;
    (void)facts;
    return done_or_absent(int80(221, (uint32_t)open("file", O_RDONLY | O_CLOEXEC), 1036, low(&hint, 8), 0, 0),
                          "32-bit system calls");
}

/* FS_IOC32_SETFLAGS through the native door: a file system answers the number only to 32-bit callers. */
static int x32_chmod(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(syscall(0x40000000L + SYS_chmod, "file", 0777), "x32 (CONFIG_X86_X32_ABI)");
}

static int x32_mkdir(const struct facts *facts)
{
    (void)facts;
    return done_or_absent(syscall(0x40000000L + SYS_mkdir, "new", 0755), "x32 (CONFIG_X86_X32_ABI)");
}

static int x32_ioctl(const struct facts *facts)
{
    int value = 0x40;
    (void)facts;
    return done_or_absent(syscall(0x40000000L + 514, open("file", O_RDONLY | O_CLOEXEC), 0x40086602UL, &value),
                          "x32 (CONFIG_X86_X32_ABI)");
}

/* The upper half of a register that the kernel does not look at: a filter that compares all of it is fooled. */
static int wide_argument(const struct facts *facts)
{
    int value = 0x40;
    (void)facts;
    return done_or_absent(
        syscall(SYS_ioctl, open("file", O_RDONLY | O_CLOEXEC), 0xdead00000000UL | 0x40086602UL, &value), "inode flags");
}

static int wide_number(const struct facts *facts)
{
    long result;
    register long mode __asm__("rsi") = 0777;
    (void)facts;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(0x100000000L + SYS_chmod), "D"("file"), "r"(mode)
                     : "rcx", "r11", "memory");
    errno = result < 0 ? (int)-result : 0;
    return done_or_absent(result < 0 ? -1 : 0, "system call numbers beyond 32 bits");
}

static const struct attack list[] = {
    { "int80-chmod", "own", "chmod, 32-bit", chmod32, NULL, 0 },
    { "int80-fchmodat", "own", "fchmodat, 32-bit", fchmodat32, NULL, 0 },
    { "int80-fchmodat2", "own", "fchmodat2, 32-bit", fchmodat2_32, NULL, 0 },
    { "int80-chown", "own", "chown32, 32-bit", chown32, NULL, 0 },
    { "int80-utimensat", "own", "utimensat, 32-bit", utimensat32, NULL, 0 },
    { "int80-utimensat-time64", "own", "utimensat_time64, 32-bit", utimensat_time64, NULL, 0 },
    { "int80-setxattr", "own", "setxattr, 32-bit", setxattr32, NULL, 0 },
    { "int80-mkdir", "own", "mkdir, 32-bit", mkdir32, NULL, 0 },
    { "int80-unlink", "own", "unlink, 32-bit", unlink32, NULL, 0 },
    { "int80-creat", "own", "creat, 32-bit", creat32, NULL, 0 },
    { "int80-setflags", "own", "inode flags, 32-bit", setflags32, NULL, 0 },
    { "int80-write-hint", "own", "F_SET_RW_HINT, 32-bit", write_hint32, NULL, 0 },
    { "x32-chmod", "own", "chmod, x32", x32_chmod, NULL, 0 },
    { "x32-mkdir", "own", "mkdir, x32", x32_mkdir, NULL, 0 },
    { "x32-setflags", "own", "inode flags, x32", x32_ioctl, NULL, 0 },
    { "wide-argument", "own", "an ioctl number with bits above the 32nd", wide_argument, NULL, 0 },
    { "wide-number", "own", "a system call number with bits above the 32nd", wide_number, NULL, 0 },
};

#else

static int elsewhere(const struct facts *facts)
{
    (void)facts;
    return absent("this architecture's other doors are not known here");
}

static const struct attack list[] = {
    { "int80-chmod", "own", "chmod, 32-bit", elsewhere, NULL, 0 },
};

#endif

FAMILY(foreign_family, "other entry points", list);
