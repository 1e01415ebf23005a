/* The mounts are read from /proc/self/mountinfo (proc_pid_mountinfo(5)): each one that a path can still reach must be
 * read-only, unless the launcher was told that it may be writable, or writing there changes nothing of the host's.
 *
 * A mount that another one covers at its root is out of reach, and so is all that was mounted below it: bwrap leaves the
 * host's /dev under its own. Uncovering it takes a capability that the command does not have. */
#include "expect.h"
#include "capabilities.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct mount {
    int id;
    int parent;
    const char *device; /* major:minor */
    const char *root;   /* the path in that device's file system that shows at the mount point */
    const char *point;
    const char *type;
    bool read_only;
    bool receives; /* what is mounted in its peer group: a slave, or shared */
};

struct mounts {
    char *text;
    struct mount *all;
    size_t count;
};

static char *read_whole(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    size_t size = 0, room = 16384;
    char *text = malloc(room);
    while (text != NULL) {
        ssize_t n = read(fd, text + size, room - size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            free(text);
            text = NULL;
            break;
        }
        if (n == 0) {
            text[size] = '\0';
            break;
        }
        size += (size_t)n;
        if (size + 1 == room) {
            char *more = realloc(text, room * 2);
            if (more == NULL)
                free(text);
            text = more;
            room *= 2;
        }
    }
    int error = errno;
    close(fd);
    errno = error;
    return text;
}

/* Blanks, tabs, newlines and backslashes are octal in mountinfo. In place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static bool has_option(const char *options, const char *wanted)
{
    size_t length = strlen(wanted);
    for (const char *at = options; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, wanted, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

static char *next_field(char **rest)
{
    char *field = strsep(rest, " ");
    return field;
}

/* One line: id parent major:minor root point options [optional]... - type source super-options */
static bool parse_line(char *line, struct mount *mount)
{
    char *rest = line, *field[6];
    for (int i = 0; i < 6; i++)
        if ((field[i] = next_field(&rest)) == NULL)
            return false;
    char *optional;
    bool receives = false;
    while ((optional = next_field(&rest)) != NULL && strcmp(optional, "-") != 0)
        receives = receives || strncmp(optional, "master:", 7) == 0 || strncmp(optional, "shared:", 7) == 0;
    char *type = next_field(&rest);
    char *source = next_field(&rest);
    char *super = next_field(&rest);
    if (optional == NULL || type == NULL || source == NULL || super == NULL)
        return false;
    unescape(field[3]);
    unescape(field[4]);
    *mount = (struct mount){
        .id = atoi(field[0]),
        .parent = atoi(field[1]),
        .device = field[2],
        .root = field[3],
        .point = field[4],
        .type = type,
        .read_only = has_option(field[5], "ro") || has_option(super, "ro"),
        .receives = receives,
    };
    return true;
}

static bool mounts_read(struct mounts *mounts)
{
    *mounts = (struct mounts){ .text = read_whole("/proc/self/mountinfo") };
    if (mounts->text == NULL)
        return false;
    size_t lines = 0;
    for (const char *c = mounts->text; *c != '\0'; c++)
        lines += *c == '\n';
    mounts->all = calloc(lines + 1, sizeof *mounts->all);
    if (mounts->all == NULL)
        return false;
    char *rest = mounts->text, *line;
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0')
        if (!parse_line(line, &mounts->all[mounts->count++])) {
            errno = EBADMSG;
            return false;
        }
    if (mounts->count == 0)
        errno = EBADMSG;
    return mounts->count > 0;
}

static void mounts_free(struct mounts *mounts)
{
    free(mounts->all);
    free(mounts->text);
}

/* The mount that sits on the very root of this one, other than `except`. */
static const struct mount *cover_of(const struct mounts *mounts, const struct mount *mount, int except)
{
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *other = &mounts->all[i];
        if (other->parent == mount->id && other->id != mount->id && other->id != except &&
            strcmp(other->point, mount->point) == 0)
            return other;
    }
    return NULL;
}

static const struct mount *by_id(const struct mounts *mounts, int id)
{
    for (size_t i = 0; i < mounts->count; i++)
        if (mounts->all[i].id == id)
            return &mounts->all[i];
    return NULL;
}

static bool reachable(const struct mounts *mounts, const struct mount *mount)
{
    if (cover_of(mounts, mount, 0) != NULL)
        return false;
    size_t steps = 0;
    for (const struct mount *child = mount; steps <= mounts->count; steps++) {
        const struct mount *parent = by_id(mounts, child->parent);
        if (parent == NULL || parent == child)
            return true; /* the root of what this process sees */
        if (strcmp(parent->point, child->point) != 0 && cover_of(mounts, parent, child->id) != NULL)
            return false;
        child = parent;
    }
    return true; /* a loop is nonsense: the stricter answer */
}

static bool at_or_below(const char *path, const char *root)
{
    size_t length = strlen(root);
    if (length == 1)
        return true;
    return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Writable mounts that change nothing of the host's: a terminal file system, the namespace's own /proc (not for uid 0,
 * to whom the kernel's knobs in it belong), single device nodes (bwrap makes the terminal /dev/console; whose metadata the broker keeps where they belong to
 * the user). */
static bool harmless(const struct mount *mount)
{
    if (strcmp(mount->type, "devpts") == 0 && strcmp(mount->point, "/dev/pts") == 0)
        return true;
    if (strcmp(mount->type, "proc") == 0) {
        char self[8];
        ssize_t n = readlink("/proc/self", self, sizeof self);
        return geteuid() != 0 && strcmp(mount->point, "/proc") == 0 && n == 1 && self[0] == '1';
    }
    struct stat status;
    return at_or_below(mount->point, "/dev") && stat(mount->point, &status) == 0 && S_ISCHR(status.st_mode);
}

/* A mount in a directory that this user may not search: bubblewrap, which has no more rights there, leaves it as it was, and
 * the command can reach it as little. Any host with containers has some for its ordinary users. What was said of
 * capabilities is true by now. The directory may be opened from outside later: so it is as good as a mount that comes
 * late. */
static bool locked_away(const struct mount *mount)
{
    struct stat status;
    return lstat(mount->point, &status) != 0 && errno == EACCES;
}

/* A mount of the tree that the runner was given: it made the topmost read-only. What it put over that tree afterwards is
 * writable, but for its own /dev and /proc. */
static bool was_there(const struct mounts *mounts, const struct mount *mount)
{
    const struct mount *cover = cover_of(mounts, mount, 0);

    return mount->read_only || (cover != NULL && cover->read_only);
}

static bool is_runners_own(const struct mount *cover)
{
    return strcmp(cover->point, "/dev") == 0 || strcmp(cover->point, "/proc") == 0;
}

/* The next mount down the path: one that is mounted deeper, the earliest of them, else one on this one's own root. */
static const struct mount *next_down(const struct mounts *mounts, const struct mount *at, const char *path)
{
    const struct mount *cover = NULL;

    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *other = &mounts->all[i];
        if (other->parent != at->id || other->id == at->id || !at_or_below(path, other->point) ||
            !was_there(mounts, other))
            continue;
        if (strcmp(other->point, at->point) != 0)
            return other;
        if (!is_runners_own(other))
            cover = other;
    }
    return cover;
}

/* The mount that had the path before the runner put anything over it. */
static const struct mount *original_of(const struct mounts *mounts, const char *path)
{
    const struct mount *at = &mounts->all[0];

    for (size_t steps = 0; steps <= mounts->count; steps++) {
        const struct mount *next = next_down(mounts, at, path);
        if (next == NULL)
            break;
        at = next;
    }
    return at;
}

/* What shows at the path is what lay there: the runner went by a name, and somebody may have put a link in its place. */
static bool bound_to_itself(const struct mounts *mounts, const char *path)
{
    const struct mount *bound = NULL, *original = original_of(mounts, path);

    for (size_t i = 0; i < mounts->count; i++)
        if (strcmp(mounts->all[i].point, path) == 0 && cover_of(mounts, &mounts->all[i], 0) == NULL)
            bound = &mounts->all[i];
    if (bound == NULL || strcmp(bound->device, original->device) != 0)
        return false;
    /* original->root + the rest of the path, without a slash too many or too few */
    const char *rest = path + (original->point[1] == '\0' ? 0 : strlen(original->point));
    size_t length = original->root[1] == '\0' ? 0 : strlen(original->root);
    if (rest[0] == '/' && rest[1] == '\0')
        rest++;
    if (length == 0 && rest[0] == '\0')
        return strcmp(bound->root, "/") == 0;
    return strncmp(bound->root, original->root, length) == 0 && strcmp(bound->root + length, rest) == 0;
}

static bool expect_bound(const struct mounts *mounts, const struct list *bound, struct failure *failure)
{
    for (size_t i = 0; i < bound->count; i++)
        if (!bound_to_itself(mounts, bound->items[i])) {
            errno = EXDEV;
            return fail(failure, MS_STAGE_EXPECT_READ_ONLY, bound->items[i]);
        }
    return true;
}

static bool told_of(const char *point, const struct list *places)
{
    for (size_t i = 0; i < places->count; i++)
        if (at_or_below(point, places->items[i]))
            return true;
    return false;
}

static bool expect_read_only(const struct options *options, bool *late_mounts, struct failure *failure)
{
    static char culprit[4096];
    struct mounts mounts;
    bool good = mounts_read(&mounts);
    if (!good)
        fail(failure, MS_STAGE_EXPECT_READ_ONLY, "/proc/self/mountinfo");
    for (size_t i = 0; good && i < mounts.count; i++) {
        const struct mount *mount = &mounts.all[i];
        *late_mounts = *late_mounts || mount->receives;
        if (mount->read_only)
            continue;
        if (told_of(mount->point, &options->writable) || told_of(mount->point, &options->bound) || harmless(mount) ||
            !reachable(&mounts, mount))
            continue;
        if ((options->expectations & EXPECT_NO_CAPABILITIES) && locked_away(mount)) {
            *late_mounts = true;
            continue;
        }
        errno = EPERM;
        strncpy(culprit, mount->point, sizeof culprit - 1);
        good = fail(failure, MS_STAGE_EXPECT_READ_ONLY, culprit);
    }
    good = good && expect_bound(&mounts, &options->bound, failure);
    mounts_free(&mounts);
    return good;
}

void expect_private_mounts(void)
{
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

bool expect_all(const struct options *options, bool *late_mounts, struct failure *failure)
{
    if ((options->expectations & EXPECT_PID_1) && getpid() != 1) {
        errno = ESRCH;
        return fail(failure, MS_STAGE_EXPECT_PID_1, NULL);
    }
    if ((options->expectations & EXPECT_NO_CAPABILITIES) && !capabilities_expect_none(failure))
        return false;
    return !(options->expectations & EXPECT_READ_ONLY) || expect_read_only(options, late_mounts, failure);
}
