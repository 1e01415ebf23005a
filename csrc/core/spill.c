/* Spill files and the directories they live in; see spill.h for the layout and the promises. */
#include "spill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME ".lock"
#define HOST_PREFIX "host-"
#define KEPT_PREFIX "kept-"

enum {
    KEEP_SECONDS = 24 * 60 * 60,
    UNLOCKED_SECONDS = 60, /* a directory without a lock file: its host is just making it, or died doing so */
    ATTEMPTS = 8
};

struct ms_spill_dir {
    struct ms_spill_dir *next;
    bool keep;
    int base_fd; /* -1 until the first spill */
    int fd;
    int lock_fd;
    char name[MS_SPILL_NAME_SIZE];
    char base[];
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ms_spill_dir *registry; /* never shrinks: one entry a base */
static bool ended;                    /* the host is exiting: nothing new is made any more */

/* `prefix` and 16 random hexadecimal digits. */
static int random_name(char name[MS_SPILL_NAME_SIZE], const char *prefix)
{
    uint64_t random;
    if (getentropy(&random, sizeof random) != 0)
        return errno;
    snprintf(name, MS_SPILL_NAME_SIZE, "%.10s%016llx", prefix, (unsigned long long)random);
    return 0;
}

struct ms_spill_dir *ms_spill_dir(const char *base, bool keep)
{
    if (base == NULL || base[0] != '/') {
        errno = EINVAL;
        return NULL;
    }
    pthread_mutex_lock(&registry_lock);
    struct ms_spill_dir *dir = registry;
    while (dir != NULL && (dir->keep != keep || strcmp(dir->base, base) != 0))
        dir = dir->next;
    if (dir == NULL) {
        size_t length = strlen(base);
        while (length > 1 && base[length - 1] == '/')
            length--;
        dir = calloc(1, sizeof *dir + length + 1);
        if (dir != NULL) {
            memcpy(dir->base, base, length);
            dir->keep = keep;
            dir->base_fd = dir->fd = dir->lock_fd = -1;
            dir->next = registry;
            registry = dir;
        }
    }
    pthread_mutex_unlock(&registry_lock);
    return dir;
}

/* Makes `path` and what is missing above it, for this user only. 0 or an errno. */
static int make_path(const char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT)
        return errno;
    char *copy = strdup(path);
    if (copy == NULL)
        return ENOMEM;
    int failed = 0;
    for (char *slash = strchr(copy + 1, '/'); slash != NULL && failed == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST)
            failed = errno;
        *slash = '/';
    }
    if (failed == 0 && mkdir(copy, 0700) != 0 && errno != EEXIST)
        failed = errno;
    free(copy);
    return failed;
}

/* Nobody else may put anything below, or exchange it. */
static int check_private(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return errno;
    return status.st_uid == geteuid() && (status.st_mode & 022) == 0 ? 0 : EPERM;
}

static int open_directory(int at, const char *path, int *fd)
{
    *fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? errno : 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Removes the directory `name` and the files in it. Never descends. */
static void remove_directory(int base_fd, const char *name)
{
    int fd;
    if (open_directory(base_fd, name, &fd) != 0)
        return;
    DIR *entries = fdopendir(fd);
    if (entries == NULL) {
        close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, LOCK_NAME) != 0)
            unlinkat(fd, entry->d_name, 0);
    unlinkat(fd, LOCK_NAME, 0); /* last: whoever sweeps the same directory meets the lock until nothing else is there */
    closedir(entries);
    unlinkat(base_fd, name, AT_REMOVEDIR);
}

/* Is `name` the directory of a host that is dead, and old enough? Takes its lock in `*lock_fd` then. */
static bool is_left_behind(int base_fd, const char *name, time_t now, int *lock_fd)
{
    *lock_fd = -1;
    struct stat status;
    if (fstatat(base_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != geteuid())
        return false;
    if (strncmp(name, KEPT_PREFIX, strlen(KEPT_PREFIX)) == 0 && now - status.st_mtime < KEEP_SECONDS)
        return false;
    int fd;
    if (open_directory(base_fd, name, &fd) != 0)
        return false;
    *lock_fd = openat(fd, LOCK_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool missing = *lock_fd < 0 && errno == ENOENT;
    close(fd);
    if (missing)
        return now - status.st_mtime >= UNLOCKED_SECONDS;
    if (*lock_fd >= 0 && flock(*lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    close_one(lock_fd);
    return false;
}

static void sweep(int base_fd)
{
    int fd;
    if (open_directory(base_fd, ".", &fd) != 0) /* a second one: reading moves the position */
        return;
    DIR *entries = fdopendir(fd);
    if (entries == NULL) {
        close(fd);
        return;
    }
    time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        int lock_fd;
        if (strncmp(entry->d_name, HOST_PREFIX, strlen(HOST_PREFIX)) != 0 &&
            strncmp(entry->d_name, KEPT_PREFIX, strlen(KEPT_PREFIX)) != 0)
            continue;
        if (is_left_behind(base_fd, entry->d_name, now, &lock_fd))
            remove_directory(base_fd, entry->d_name);
        close_one(&lock_fd);
    }
    closedir(entries);
}

void ms_spill_sweep(const char *base)
{
    int fd;
    if (open_directory(AT_FDCWD, base, &fd) != 0)
        return;
    if (check_private(fd) == 0)
        sweep(fd);
    close(fd);
}

/* One attempt at a directory of our own. EAGAIN: a sweeper was in the way, or the name was taken. */
static int make_own(struct ms_spill_dir *dir)
{
    int failed = random_name(dir->name, dir->keep ? KEPT_PREFIX : HOST_PREFIX);
    if (failed != 0)
        return failed;
    if (mkdirat(dir->base_fd, dir->name, 0700) != 0)
        return errno == EEXIST ? EAGAIN : errno;
    failed = open_directory(dir->base_fd, dir->name, &dir->fd);
    if (failed == 0)
        failed = check_private(dir->fd);
    if (failed == 0) {
        dir->lock_fd = openat(dir->fd, LOCK_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (dir->lock_fd < 0)
            failed = errno;
    }
    if (failed == 0 && flock(dir->lock_fd, LOCK_EX | LOCK_NB) != 0)
        failed = errno == EWOULDBLOCK ? EAGAIN : errno;
    struct stat status;
    if (failed == 0 && (fstat(dir->lock_fd, &status) != 0 || status.st_nlink == 0))
        failed = EAGAIN;
    if (failed == 0)
        return 0;
    if (dir->fd >= 0)
        unlinkat(dir->fd, LOCK_NAME, 0);
    close_one(&dir->fd);
    close_one(&dir->lock_fd);
    unlinkat(dir->base_fd, dir->name, AT_REMOVEDIR);
    return failed;
}

/* With the registry locked. 0 or an errno. */
static int ensure_directory(struct ms_spill_dir *dir)
{
    if (dir->fd >= 0)
        return 0;
    if (ended)
        return ECANCELED;
    int failed = open_directory(AT_FDCWD, dir->base, &dir->base_fd);
    if (failed == ENOENT) {
        failed = make_path(dir->base);
        if (failed == 0)
            failed = open_directory(AT_FDCWD, dir->base, &dir->base_fd);
    }
    if (failed == 0)
        failed = check_private(dir->base_fd);
    if (failed == 0) {
        sweep(dir->base_fd);
        failed = EAGAIN;
        for (int i = 0; i < ATTEMPTS && failed == EAGAIN; i++)
            failed = make_own(dir);
    }
    if (failed != 0)
        close_one(&dir->base_fd);
    return failed;
}

int ms_spill_create(struct ms_spill *spill, struct ms_spill_dir *dir, const char *prefix)
{
    char name[MS_SPILL_NAME_SIZE];
    int fd = -1;
    pthread_mutex_lock(&registry_lock);
    int failed = ensure_directory(dir);
    for (int i = 0; i < ATTEMPTS && failed == 0 && fd < 0; i++) {
        failed = random_name(name, prefix);
        if (failed != 0)
            break;
        fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            failed = errno;
    }
    pthread_mutex_unlock(&registry_lock);
    if (failed == 0 && fd < 0)
        failed = EEXIST;
    if (failed == 0 && fchmod(fd, 0600) != 0) { /* whatever the umask took away */
        failed = errno;
        close(fd);
    }
    if (failed == 0) {
        spill->dir = dir;
        spill->fd = fd;
        memcpy(spill->name, name, sizeof name);
    }
    return failed;
}

/* Beyond RLIMIT_FSIZE a write raises SIGXFSZ, which would end a host that does not expect it. It goes to the writing thread,
 * so it can be held back and taken away here. */
static int write_all(int fd, struct iovec *parts, int count)
{
    while (count > 0) {
        if (parts->iov_len == 0) {
            parts++;
            count--;
            continue;
        }
        ssize_t written = writev(fd, parts, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        if (written == 0)
            return EIO;
        for (size_t left = (size_t)written; left > 0;) {
            size_t step = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + step;
            parts->iov_len -= step;
            left -= step;
            if (parts->iov_len == 0 && left > 0) {
                parts++;
                count--;
            }
        }
    }
    return 0;
}

int ms_spill_append(struct ms_spill *spill, struct iovec *parts, int count)
{
    sigset_t size_signal, before, pending;
    sigemptyset(&size_signal);
    sigaddset(&size_signal, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &size_signal, &before);
    int failed = write_all(spill->fd, parts, count);
    if (failed == EFBIG && sigismember(&before, SIGXFSZ) == 0 && sigpending(&pending) == 0 &&
        sigismember(&pending, SIGXFSZ) == 1) {
        int taken;
        sigwait(&size_signal, &taken);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

void ms_spill_close(struct ms_spill *spill)
{
    if (spill->dir != NULL)
        close_one(&spill->fd);
}

void ms_spill_discard(struct ms_spill *spill)
{
    if (spill->dir == NULL)
        return;
    ms_spill_close(spill);
    pthread_mutex_lock(&registry_lock);
    unlinkat(spill->dir->fd, spill->name, 0);
    pthread_mutex_unlock(&registry_lock);
    spill->dir = NULL;
}

size_t ms_spill_path(const struct ms_spill *spill, char *buffer, size_t size)
{
    int length = snprintf(buffer, size, "%s/%s/%s", spill->dir->base, spill->dir->name, spill->name);
    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

void ms_spill_end(void)
{
    /* At exit a thread that held the lock may be gone for good; the directories are then swept by the next host. */
    if (pthread_mutex_trylock(&registry_lock) != 0)
        return;
    ended = true;
    for (struct ms_spill_dir *dir = registry; dir != NULL; dir = dir->next) {
        if (dir->fd < 0)
            continue;
        if (!dir->keep)
            remove_directory(dir->base_fd, dir->name);
        close_one(&dir->fd);
        close_one(&dir->lock_fd);
        close_one(&dir->base_fd);
    }
    pthread_mutex_unlock(&registry_lock);
}

void ms_spill_fork_prepare(void)
{
    pthread_mutex_lock(&registry_lock);
}

void ms_spill_fork_parent(void)
{
    pthread_mutex_unlock(&registry_lock);
}

/* A flock(2) belongs to the open file, which the child shares: it would outlive the host in it. */
void ms_spill_fork_child(void)
{
    for (struct ms_spill_dir *dir = registry; dir != NULL; dir = dir->next) {
        close_one(&dir->fd);
        close_one(&dir->lock_fd);
        close_one(&dir->base_fd);
    }
    pthread_mutex_unlock(&registry_lock);
}
