#include "descriptor.h"

#include <linux/magic.h>
#include <sys/vfs.h>

bool ms_descriptor_is_anonymous(int fd)
{
    struct statfs system;

    /* A named pipe is a file of the file system that it is in. */
    return fstatfs(fd, &system) == 0 && (system.f_type == PIPEFS_MAGIC || system.f_type == SOCKFS_MAGIC);
}
