/* The nodes in /dev that every sandbox must leave usable: what belongs to the device may be used, what belongs to the node
 * is the host's. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };

#define CALL(name, ...)                                                                                                \
    static int do_##name(const struct facts *facts)                                                                    \
    {                                                                                                                  \
        (void)facts;                                                                                                   \
        return done_or_absent(__VA_ARGS__, #name);                                                                     \
    }

CALL(mode, chmod("/dev/zero", 0600))
CALL(mode_of_null, chmod("/dev/null", 0600))
CALL(mode_by_descriptor, fchmod(open("/dev/null", O_WRONLY | O_CLOEXEC), 0640))
CALL(mode_of_tty, chmod("/dev/tty", 0622))
CALL(owner, chown("/dev/full", 0, 5))
CALL(times, utimensat(AT_FDCWD, "/dev/random", past, 0))
CALL(times_by_descriptor, futimens(open("/dev/urandom", O_RDONLY | O_CLOEXEC), past))
CALL(times_by_writing, utimensat(AT_FDCWD, "/dev/zero", past, 0))
CALL(removed, unlink("/dev/full"))
CALL(moved, rename("/dev/full", "/dev/moonsand-mark"))
CALL(made, mknod("/dev/moonsand-mark", S_IFCHR | 0666, 0x103))
CALL(link_made, symlink("null", "/dev/moonsand-mark"))
CALL(made_in_shm, open("/dev/shm/moonsand-mark", O_WRONLY | O_CREAT | O_CLOEXEC, 0600))
CALL(attribute, setxattr("/dev/zero", "trusted.mark", "1", 1, 0))

static int access_list(const struct facts *facts)
{
    static const unsigned char list[] = {
        2, 0, 0,   0,   1,   0,   6,    0, 255, 255, 255, 255, 2,   0,   6,    0, 0xd2, 4, 0,   0,   4,   0,
        6, 0, 255, 255, 255, 255, 0x10, 0, 6,   0,   255, 255, 255, 255, 0x20, 0, 4,    0, 255, 255, 255, 255,
    };
    (void)facts;
    return done_or_absent(setxattr("/dev/zero", "system.posix_acl_access", list, sizeof list, 0),
                          "access control lists");
}

static int terminal_made(const struct facts *facts)
{
    (void)facts;
    int fd = open("/dev/ptmx", O_RDONLY | O_NOCTTY);
    if (fd < 0)
        return REFUSED;
    usleep(300000);
    return DONE;
}

static const struct attack list[] = {
    { "device-mode", "device:/dev/zero", "chmod of /dev/zero", do_mode, NULL, ROOT },
    { "device-null-mode", "device:/dev/null", "chmod of /dev/null", do_mode_of_null, NULL, ROOT },
    { "device-null-fchmod", "device:/dev/null", "fchmod of /dev/null, open for writing", do_mode_by_descriptor, NULL,
      ROOT },
    { "device-tty-mode", "device:/dev/tty", "chmod of /dev/tty", do_mode_of_tty, NULL, ROOT },
    { "device-owner", "device:/dev/full", "chown of /dev/full", do_owner, NULL, ROOT },
    { "device-times", "device:/dev/random", "utimensat of /dev/random", do_times, NULL, ROOT },
    { "device-futimens", "device:/dev/urandom", "futimens of /dev/urandom", do_times_by_descriptor, NULL, ROOT },
    { "device-zero-times", "device:/dev/zero", "utimensat of /dev/zero", do_times_by_writing, NULL, ROOT },
    { "device-acl", "device:/dev/zero", "an access control list for /dev/zero", access_list, NULL, ROOT },
    { "device-attribute", "device:/dev/zero", "an extended attribute of /dev/zero", do_attribute, NULL, ROOT },
    { "device-removed", "device:/dev/full", "/dev/full removed", do_removed, NULL, ROOT },
    { "device-moved", "device:/dev/full", "/dev/full moved", do_moved, NULL, ROOT },
    { "device-made", "place:/dev", "a node made in /dev", do_made, NULL, ROOT },
    { "device-link", "place:/dev", "a link made in /dev", do_link_made, NULL, ROOT },
    { "device-shm", "place:/dev/shm", "a file made in /dev/shm", do_made_in_shm, NULL, 0 },
    { "device-terminal", "watch:/dev/pts", "a terminal made by opening /dev/ptmx, for as long as it is open",
      terminal_made, NULL, ALONE },
};

FAMILY(devices_family, "devices", list);
