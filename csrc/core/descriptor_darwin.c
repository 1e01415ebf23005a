#include "descriptor.h"

#include <fcntl.h>
#include <sys/param.h>
#include <sys/stat.h>

bool ms_descriptor_is_anonymous(int fd)
{
    struct stat status;
    char path[MAXPATHLEN];

    if (fstat(fd, &status) != 0)
        return false;
    /* A named pipe has a path. */
    return S_ISSOCK(status.st_mode) || (S_ISFIFO(status.st_mode) && fcntl(fd, F_GETPATH, path) != 0);
}
