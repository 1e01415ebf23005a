/* ioctls of file systems on descriptors that were opened for reading: inode flags, versions, clones, keys. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int reading(const char *name)
{
    return open(name, O_RDONLY | O_CLOEXEC);
}

static int flags(const struct facts *facts)
{
    int value = 0x40 /* FS_NODUMP_FL */;
    (void)facts;
    return done_or_absent(ioctl(reading("file"), FS_IOC_SETFLAGS, &value), "inode flags");
}

static int flags_of_directory(const struct facts *facts)
{
    int value = 0x80 /* FS_NOATIME_FL */;
    (void)facts;
    return done_or_absent(ioctl(open("dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC), FS_IOC_SETFLAGS, &value),
                          "inode flags");
}

static int immutable(const struct facts *facts)
{
    int value = 0x20 /* FS_APPEND_FL */;
    (void)facts;
    return done_or_absent(ioctl(reading("file"), FS_IOC_SETFLAGS, &value), "inode flags");
}

static int extended_flags(const struct facts *facts)
{
    struct fsxattr attributes = { .fsx_xflags = FS_XFLAG_NODUMP };
    (void)facts;
    return done_or_absent(ioctl(reading("file"), FS_IOC_FSSETXATTR, &attributes), "FS_IOC_FSSETXATTR");
}

static int version(const struct facts *facts)
{
    int value = 4242;
    (void)facts;
    return done_or_absent(ioctl(reading("file"), FS_IOC_SETVERSION, &value), "FS_IOC_SETVERSION");
}

static int clone_file(const struct facts *facts)
{
    (void)facts;
    int to = open("file", O_RDWR | O_CLOEXEC);
    return done_or_absent(ioctl(to >= 0 ? to : reading("file"), FICLONE, reading("big")), "this file system's FICLONE");
}

static int clone_range(const struct facts *facts)
{
    struct file_clone_range range = { .src_fd = reading("big"), .src_length = 4096 };
    (void)facts;
    int to = open("file", O_RDWR | O_CLOEXEC);
    return done_or_absent(ioctl(to >= 0 ? to : reading("file"), FICLONERANGE, &range),
                          "this file system's FICLONERANGE");
}

static int clone_from_workspace(const struct facts *facts)
{
    const char *mine = text("%s/clone-%s", facts->spring, facts->name);
    mark_path(facts, mine, O_CREAT);
    int to = open("big", O_RDWR | O_CLOEXEC);
    return done_or_absent(ioctl(to >= 0 ? to : reading("big"), FICLONE, reading(mine)), "this file system's FICLONE");
}

static int deduplicate(const struct facts *facts)
{
    /* A head with one entry after it, as the kernel reads it. */
    _Alignas(
        struct file_dedupe_range) char room[sizeof(struct file_dedupe_range) + sizeof(struct file_dedupe_range_info)];
    struct file_dedupe_range *range = (struct file_dedupe_range *)room;
    memset(room, 0, sizeof room);
    range->src_length = 4096;
    range->dest_count = 1;
    range->info[0].dest_fd = reading("twin");
    (void)facts;
    long result = ioctl(reading("big"), FIDEDUPERANGE, range);
    if (result == 0 && range->info[0].status < 0) {
        errno = -range->info[0].status;
        result = -1;
    }
    return done_or_absent(result, "this file system's FIDEDUPERANGE");
}

static int encryption(const struct facts *facts)
{
    unsigned char policy[12] = { 0, 1, 4, 0 };
    (void)facts;
    return done_or_absent(ioctl(open("empty", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0x800c6613UL, policy),
                          "encryption on this file system");
}

static int verity(const struct facts *facts)
{
    struct {
        uint32_t version, hash, block, salt_size;
        uint64_t salt;
        uint32_t signature_size, reserved;
        uint64_t signature, more[11];
    } arguments = { .version = 1, .hash = 1, .block = 4096 };
    (void)facts;
    return done_or_absent(ioctl(reading("file"), 0x40806685UL, &arguments), "verity on this file system");
}

static int move_extents(const struct facts *facts)
{
    struct {
        uint32_t reserved, donor;
        uint64_t from, to, length, moved;
    } arguments = { .donor = (uint32_t)open("twin", O_RDWR | O_CLOEXEC), .length = 1 };
    int fd = open("big", O_RDWR | O_CLOEXEC);
    (void)facts;
    fsync(fd); /* what is not on the disk yet has no extents */
    fsync((int)arguments.donor);
    return done_or_absent(ioctl(fd >= 0 ? fd : reading("big"), 0xc028660fUL, &arguments), "EXT4_IOC_MOVE_EXT");
}

static int label(const struct facts *facts)
{
    (void)facts;
    return absent(
        "a label belongs to the whole file system, which is not a canary (FS_IOC_SETFSLABEL needs CAP_SYS_ADMIN)");
}

static const struct attack list[] = {
    { "ioctl-setflags", "own", "inode flags by FS_IOC_SETFLAGS", flags, NULL, 0 },
    { "ioctl-setflags-directory", "own", "the same on a directory", flags_of_directory, NULL, 0 },
    { "ioctl-append-only", "own", "the append-only flag", immutable, NULL, ROOT },
    { "ioctl-fssetxattr", "own", "FS_IOC_FSSETXATTR", extended_flags, NULL, 0 },
    { "ioctl-setversion", "own", "FS_IOC_SETVERSION", version, NULL, 0 },
    { "ioctl-ficlone", "own", "FICLONE", clone_file, NULL, 0 },
    { "ioctl-ficlonerange", "own", "FICLONERANGE", clone_range, NULL, 0 },
    { "ioctl-ficlone-workspace", "own", "FICLONE of a file of the workspace", clone_from_workspace, NULL, 0 },
    { "ioctl-dedupe", "own", "FIDEDUPERANGE into a descriptor for reading", deduplicate, NULL, 0 },
    { "ioctl-encryption", "own", "an encryption policy for an empty directory", encryption, NULL, 0 },
    { "ioctl-verity", "own", "fs-verity", verity, NULL, 0 },
    { "ioctl-move-extents", "own", "EXT4_IOC_MOVE_EXT, which changes only where blocks lie", move_extents, NULL,
      UNPROVEN },
    { "ioctl-label", "own", "the label of the file system", label, NULL, 0 },
};

FAMILY(ioctls_family, "ioctls", list);
