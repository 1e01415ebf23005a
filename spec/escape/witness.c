/* The witness: plants what attacks are to leave a mark on, and says from outside what state everything is in.
 *
 *   witness plant DIR UID NAME...        a canary directory DIR/NAME each, owned by UID
 *   witness snapshot BASE NAME...        one line for each thing that is looked at: key, tab, state
 *   witness victim BASE                  a process with a page, a file, a fifo, a queue, a segment, a socket and a terminal;
 *                                        prints facts about them as NAME=VALUE lines, then stays until its stdin ends
 *   witness settle PATH...               sets times of access ahead, so that looking does not move them
 *   setid|capable DIR NAME               a copy of it with more rights than its caller: writes NAME into DIR/other
 *
 * A canary's state is its type, mode, owner, links, size, times to the nanosecond, content (as a hash), where a link leads,
 * extended attributes with their values, inode flags, and the write hint. Run by the driver, outside of every sandbox. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <mqueue.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *text(const char *format, ...)
{
    static char texts[16][8192];
    static int next;
    char *to = texts[next++ % 16];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to, sizeof texts[0], format, arguments);
    va_end(arguments);
    return to;
}

/* --- planting --------------------------------------------------------------------------------------------------------- */

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "witness: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void plant_file(const char *name, size_t size, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    must(fd >= 0, name);
    for (size_t i = 0; i < size; i += 7)
        must(write(fd, "canary\n", size - i < 7 ? size - i : 7) > 0, name);
    close(fd);
}

static void plant_socket(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0, name);
    close(fd);
}

static void settle(const char *path)
{
    const struct timespec ahead[2] = { { .tv_sec = time(NULL) + 3600 }, { .tv_nsec = UTIME_OMIT } };
    utimensat(AT_FDCWD, path, ahead, AT_SYMLINK_NOFOLLOW);
}

static void plant(const char *directory, uid_t user)
{
    static const struct timespec old[2] = { { .tv_sec = 1500000000 }, { .tv_sec = 1600000000 } };
    must(mkdir(directory, 0755) == 0 && chdir(directory) == 0, directory);
    plant_file("file", 7, 0644);
    plant_file("big", 16384, 0644);
    plant_file("twin", 16384, 0644);
    plant_file("old", 7, 0644);
    plant_file("other", 7, 0600);
    setxattr("file", "user.canary", "1", 1, 0);
    must(symlink("file", "link") == 0 && mkfifo("fifo", 0644) == 0, "fifo");
    static const char *const directories[] = { "dir", "empty", "tmp", "work" };
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
        must(mkdir(directories[i], 0755) == 0, directories[i]);
    plant_file("dir/child", 7, 0644);
    plant_file("tmp/file", 7, 0644);
    plant_socket("socket");
    if (mknod("node", S_IFCHR | 0666, makedev(1, 3)) != 0)
        plant_file("node", 0, 0666);
    static const char *const all[] = { ".",     "file", "big",  "twin",   "old",       "link",     "fifo", "dir",
                                       "empty", "tmp",  "work", "socket", "dir/child", "tmp/file", "node" };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        must(lchown(all[i], user, user) == 0, all[i]);
    if (user == 0)
        must(chown("other", 1, 1) == 0 || geteuid() != 0, "other");
    /* Times of access lie ahead, so that reading and looking does not move them (relatime, mount(8)); but for one. */
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        settle(all[i]);
    settle("other");
    must(utimensat(AT_FDCWD, "old", old, 0) == 0, "old");
}

/* What the workspace's own name leads to in a clone of this directory (userns-detached-shadow). */
static void plant_shadow(const char *workspace, uid_t user)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "shadow");
    must(mkdir(path, 0755) == 0 && lchown(path, user, user) == 0, path);
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", workspace);
    for (char *part = strtok(copy, "/"); part != NULL; part = strtok(NULL, "/")) {
        strncat(path, "/", sizeof path - strlen(path) - 1);
        strncat(path, part, sizeof path - strlen(path) - 1);
        must(mkdir(path, 0755) == 0 && lchown(path, user, user) == 0, path);
        settle(path);
    }
    settle("shadow");
    strncat(path, "/file", sizeof path - strlen(path) - 1);
    plant_file(path, 7, 0644);
    must(lchown(path, user, user) == 0, path);
}

/* --- looking ---------------------------------------------------------------------------------------------------------- */

static void print_escaped(const char *name)
{
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (c <= ' ' || c >= 127 || c == '\\')
            printf("\\%03o", c);
        else
            putchar(c);
    }
}

static uint64_t hash_of(int fd)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    unsigned char bytes[65536];
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

static void print_attributes(const char *path)
{
    char names[4096], value[4096];
    ssize_t n = llistxattr(path, names, sizeof names);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        ssize_t size = lgetxattr(path, names + at, value, sizeof value);
        printf(" %s=", names + at);
        for (ssize_t i = 0; i < size; i++)
            printf("%02x", (unsigned char)value[i]);
    }
}

/* Looking must not itself be a change: O_NOATIME, which an owner and root may. */
static int open_quietly(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_NOATIME | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | flags);
    return fd >= 0 ? fd : open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | flags);
}

static void print_state(const char *path, bool times)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        printf("%s\n", strerror(errno));
        return;
    }
    printf("%o %u:%u links %lu size %lld dev %x", (unsigned)status.st_mode, status.st_uid, status.st_gid,
           (unsigned long)status.st_nlink, S_ISDIR(status.st_mode) ? 0LL : (long long)status.st_size,
           (unsigned)status.st_rdev);
    if (times)
        printf(" blocks %lld a %lld.%09ld m %lld.%09ld c %lld.%09ld", (long long)status.st_blocks,
               (long long)status.st_atim.tv_sec, status.st_atim.tv_nsec, (long long)status.st_mtim.tv_sec,
               status.st_mtim.tv_nsec, (long long)status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
    if (S_ISLNK(status.st_mode)) {
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        printf(" -> ");
        print_escaped(target);
    }
    print_attributes(path);
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
        int flags = 0, version = 0, fd = open_quietly(path, 0);
        uint64_t hint = 0;
        struct fsxattr extended = { 0 };
        if (fd >= 0) {
            ioctl(fd, FS_IOC_GETFLAGS, &flags);
            ioctl(fd, FS_IOC_GETVERSION, &version);
            ioctl(fd, FS_IOC_FSGETXATTR, &extended);
            fcntl(fd, F_GET_RW_HINT, &hint);
            printf(" flags %x x %x version %x hint %d", (unsigned)flags, extended.fsx_xflags, (unsigned)version,
                   (int)hint);
            if (S_ISREG(status.st_mode))
                printf(" hash %016llx", (unsigned long long)hash_of(fd));
            close(fd);
        }
    }
    putchar('\n');
}

static int not_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Goes down by directory, not by path, so that no depth is too deep. */
static void print_tree(const char *key, int depth)
{
    struct dirent **entries;
    int fd = open_quietly(".", O_DIRECTORY);
    char here[64];
    snprintf(here, sizeof here, "/proc/self/fd/%d", fd);
    int count = fd < 0 ? -1 : scandir(here, &entries, not_dots, alphasort);
    if (fd >= 0)
        close(fd);
    for (int i = 0; i < count; i++) {
        struct stat status;
        const char *name = entries[i]->d_name;
        printf("%s/", key);
        print_escaped(name);
        putchar('\t');
        print_state(name, true);
        if (depth < 8 && lstat(name, &status) == 0 && S_ISDIR(status.st_mode)) {
            char below[1024];
            int up = open(".", O_PATH | O_CLOEXEC);
            snprintf(below, sizeof below, "%s/%s", key, name);
            if (chdir(name) == 0) {
                print_tree(below, depth + 1);
                must(fchdir(up) == 0, "..");
            }
            close(up);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void look_at_tree(const char *key, const char *directory)
{
    printf("%s\t", key);
    print_state(directory, true);
    if (chdir(directory) == 0)
        print_tree(key, 0);
}

static const char *content_of(const char *path)
{
    static char content[1 << 18];
    size_t size = 0;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    while (fd >= 0 && (n = read(fd, content + size, sizeof content - 1 - size)) > 0)
        size += (size_t)n;
    if (n < 0 && size == 0)
        snprintf(content, sizeof content, "(%s)", strerror(errno));
    else
        content[size] = '\0';
    if (fd >= 0)
        close(fd);
    return content;
}

static void look_at_content(const char *key, const char *path)
{
    printf("%s\t", key);
    print_escaped(content_of(path));
    putchar('\n');
}

static const char *const knobs[] = {
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/fs/lease-break-time",
    "/proc/sys/net/ipv4/ip_default_ttl",
    "/sys/kernel/mm/ksm/sleep_millisecs",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/systemd/release_agent",
    "/sys/fs/cgroup/memory/memory.swappiness",
    "/sys/module/printk/parameters/ignore_loglevel",
    "/proc/1/oom_score_adj",
    "/proc/sys/fs/binfmt_misc/moonsand-mark",
};

static const char *const devices[] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev", "/dev/pts",
};

static const char *const places[] = {
    "/",     "/etc",     "/usr",  "/usr/bin", "/var",        "/var/tmp", "/var/spool/cron", "/var/log",
    "/home", "/root",    "/opt",  "/srv",     "/mnt",        "/run",     "/run/lock",       "/boot",
    "/dev",  "/dev/shm", "/proc", "/sys",     "/dev/mqueue", "/dev/pts", "/sys/fs/cgroup",  "/sys/kernel/debug",
};

static void look_at_place(const char *place)
{
    printf("place:%s\t%s\n", place, access(text("%s/moonsand-mark", place), F_OK) == 0 ? "marked" : "clean");
}

static void print_names(const char *key, const char *directory, const char *beginning)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, not_dots, alphasort);
    for (int i = 0; i < count; i++) {
        if (strncmp(entries[i]->d_name, beginning, strlen(beginning)) == 0) {
            printf("%s%s/", key, directory);
            print_escaped(entries[i]->d_name);
            printf("\tthere\n");
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void look_at_cgroups(const char *base)
{
    struct dirent **entries;
    int count = scandir("/sys/fs/cgroup", &entries, not_dots, alphasort);
    print_names("cgroup:", "/sys/fs/cgroup", "moonsand-mark");
    for (int i = 0; i < count; i++) {
        print_names("cgroup:", text("/sys/fs/cgroup/%s", entries[i]->d_name), "moonsand-mark");
        print_names("cgroup:", text("/sys/fs/cgroup/%s%s", entries[i]->d_name, strrchr(base, '/')), "moonsand-mark");
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void look_at_log(void)
{
    static char log[1 << 21];
    int n = klogctl(3, log, sizeof log - 1);
    log[n > 0 ? n : 0] = '\0';
    int marks = 0;
    for (const char *at = log; (at = strstr(at, "moonsand-mark")) != NULL; at++)
        marks++;
    for (const char *at = log; (at = strstr(at, "sysrq: HELP")) != NULL; at++)
        marks++;
    printf("klog:marks\t%d\n", marks);
}

/* The name in `adversary run FACTS NAME`, when it is the only one. */
static const char *only_attack(const char *line, ssize_t size)
{
    const char *at = line;
    for (int i = 0; i < 3; i++)
        at += strlen(at) + 1;
    return at < line + size && at + strlen(at) + 1 == line + size ? at : "";
}

static void look_at_processes(void)
{
    struct dirent **entries;
    int count = scandir("/proc", &entries, not_dots, alphasort);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] >= '1' && entries[i]->d_name[0] <= '9') {
            static char line[4096];
            int fd = open(text("/proc/%s/cmdline", entries[i]->d_name), O_RDONLY | O_CLOEXEC);
            ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
            if (fd >= 0)
                close(fd);
            line[n > 0 ? n : 0] = '\0';
            const char *first = strrchr(line, '/') ? strrchr(line, '/') + 1 : line;
            if (strcmp(first, "moonsand-linger") == 0)
                printf("alive:%s\t%s\n", line + strlen(line) + 1 + strlen("linger") + 1, entries[i]->d_name);
            else if (strcmp(first, "adversary") == 0)
                printf("alive:%s\t%s\n", only_attack(line, n), entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void look_at_victim(const char *base)
{
    unsigned long long page = 0;
    int pid = 0, descriptor = 0;
    char terminal[64] = "";
    FILE *facts = fopen(text("%s/victim.facts", base), "re");
    char line[512];
    while (facts != NULL && fgets(line, sizeof line, facts) != NULL) {
        sscanf(line, "victim=%d", &pid);
        sscanf(line, "page=%llu", &page);
        sscanf(line, "victim_file=%d", &descriptor);
        sscanf(line, "terminal=%63s", terminal);
    }
    if (facts != NULL)
        fclose(facts);
    if (pid == 0)
        return;
    char bytes[4096] = "";
    int memory = open(text("/proc/%d/mem", pid), O_RDONLY | O_CLOEXEC);
    if (pread(memory, bytes, sizeof bytes, (off_t)page) < 0)
        snprintf(bytes, sizeof bytes, "(%s)", strerror(errno));
    close(memory);
    uint32_t signals, shown;
    memcpy(&signals, bytes + 2048, sizeof signals);
    memcpy(&shown, bytes + 2052, sizeof shown);
    printf("victim:memory\t");
    bytes[256] = '\0';
    print_escaped(bytes);
    printf("\nvictim:signals\t%u\ntty:output\t%u\n", signals, shown);
    look_at_content("victim:limits", text("/proc/%d/limits", pid));
    cpu_set_t processors;
    CPU_ZERO(&processors);
    sched_getaffinity(pid, sizeof processors, &processors);
    printf("victim:nice\t%d\nvictim:policy\t%d\nvictim:processors\t%d\nvictim:ioprio\t%ld\n",
           getpriority(PRIO_PROCESS, (id_t)pid), sched_getscheduler(pid), CPU_COUNT(&processors),
           syscall(SYS_ioprio_get, 1, pid));
    look_at_content("victim:oom", text("/proc/%d/oom_score_adj", pid));
    look_at_content("victim:cgroup", text("/proc/%d/cgroup", pid));
    printf("victim:held\t");
    print_state(text("%s/victim/held", base), true);
    int waiting = 0, fd = open(text("%s/victim/fifo", base), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ioctl(fd, FIONREAD, &waiting);
    close(fd);
    printf("victim:fifo\t%d bytes ", waiting);
    print_state(text("%s/victim/fifo", base), true);
    memcpy(&waiting, bytes + 2056, sizeof waiting);
    printf("victim:socket\t%d datagrams\n", waiting);
    if (terminal[0] == '\0')
        return;
    struct winsize size = { 0 };
    struct termios settings = { 0 };
    waiting = 0;
    fd = open(terminal, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    ioctl(fd, FIONREAD, &waiting);
    ioctl(fd, TIOCGWINSZ, &size);
    tcgetattr(fd, &settings);
    close(fd);
    printf("tty:input\t%d bytes\ntty:settings\t%dx%d %x %x %x %x\ntty:node\t", waiting, size.ws_row, size.ws_col,
           settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag);
    print_state(terminal, false);
}

/* Not the last to attach, and when: the witness attaches too. */
static void look_at_segments(void)
{
    char *rest = strdup(content_of("/proc/sysvipc/shm")), *line;
    for (char *at = rest; at != NULL && (line = strsep(&at, "\n")) != NULL;) {
        int key, id;
        unsigned mode;
        unsigned long size;
        if (sscanf(line, "%d %d %o %lu", &key, &id, &mode, &size) == 4)
            printf("sysv:shm/%d\t%d %o %lu\n", id, key, mode, size);
    }
    free(rest);
}

static int snapshot(const char *base, int count, char **names)
{
    for (int i = 0; i < count; i++)
        look_at_tree(text("own/%s", names[i]), text("%s/own/%s", base, names[i]));
    static const char *const nests[] = { "nest",
                                         "nest/room" }; /* what is in the workspace there is nobody's business */
    for (size_t i = 0; i < sizeof nests / sizeof nests[0]; i++) {
        printf("nest:%s\t", nests[i]);
        print_state(text("%s/%s", base, nests[i]), true);
        print_names("nest:", text("%s/%s", base, nests[i]), "");
    }
    static const char *const trees[] = { "home", "held", "input", "source" };
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++)
        look_at_tree(text("%s:", trees[i]), text("%s/%s", base, trees[i]));
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++)
        look_at_content(text("knob:%s", knobs[i]), knobs[i]);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        printf("device:%s\t", devices[i]);
        /* Devices' own times move as they are used; those that only metadata calls move are compared in whole seconds of
         * the far past that the attacks set. */
        struct stat status;
        bool there = stat(devices[i], &status) == 0;
        printf("%s ", there && (status.st_mtim.tv_sec < 1000000 || status.st_atim.tv_sec < 1000000) ? "past" : "now");
        print_state(devices[i], false);
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        look_at_place(places[i]);
    look_at_place(base);
    look_at_place(text("%s/home", base));
    look_at_place(text("%s/nest", base));
    struct utsname name;
    uname(&name);
    printf("uts:name\t%s %s\n", name.nodename, name.domainname);
    print_names("mq:", "/dev/mqueue", "");
    look_at_content("mq:content", "/dev/mqueue/moonsand-victim");
    look_at_segments();
    look_at_content("sysv:sem", "/proc/sysvipc/sem");
    look_at_content("sysv:msg", "/proc/sysvipc/msg");
    int segment = shmget(0x76696374, 0, 0);
    const char *shared = segment < 0 ? NULL : shmat(segment, NULL, SHM_RDONLY);
    if (shared != NULL && shared != (const char *)-1) {
        printf("sysv:content\t");
        print_escaped(shared);
        putchar('\n');
        shmdt(shared);
    }
    int keys = 0;
    for (const char *at = content_of("/proc/keys"); (at = strstr(at, strrchr(base, '/') + 1)) != NULL; at++)
        keys++;
    printf("keys:marks\t%d\n", keys);
    int traces = 0;
    for (const char *at = content_of("/sys/kernel/tracing/trace"); (at = strstr(at, "moonsand-mark")) != NULL; at++)
        traces++;
    printf("trace:marks\t%d\n", traces);
    look_at_cgroups(base);
    look_at_log();
    look_at_processes();
    look_at_victim(base);
    if (access(text("%s/loop", base), F_OK) == 0) {
        printf("loop:content\t");
        print_state(text("%s/loop", base), false);
    }
    printf("mounts:\t");
    char *rest = strdup(content_of("/proc/self/mounts"));
    for (char *at = rest, *line; at != NULL && (line = strsep(&at, "\n")) != NULL;)
        if (strstr(line, "/late ") == NULL) /* that one is the driver's (mount-late) */
            print_escaped(line);
    free(rest);
    putchar('\n');
    return fflush(stdout) == 0 ? 0 : 1;
}

/* --- the victim --------------------------------------------------------------------------------------------------------- */

static char *page;

static void on_signal(int number)
{
    (void)number;
    uint32_t count;
    memcpy(&count, page + 2048, sizeof count);
    count++;
    memcpy(page + 2048, &count, sizeof count);
}

static void count_up(size_t at, uint32_t more)
{
    uint32_t count;
    memcpy(&count, page + at, sizeof count);
    count += more;
    memcpy(page + at, &count, sizeof count);
}

static int victim(const char *base)
{
    static _Alignas(4096) char memory[4096];
    char terminal[64] = "";
    int leader = -1, follower = -1;
    page = memory;
    strcpy(page, "canary");
    signal(SIGUSR1, on_signal);
    must(chdir(base) == 0, base);
    if (openpty(&leader, &follower, terminal, NULL, NULL) == 0) {
        struct termios raw;
        setsid();
        ioctl(follower, TIOCSCTTY, 0);
        tcgetattr(follower, &raw);
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
        tcsetattr(follower, TCSANOW, &raw);
        fchmod(follower, 0600);
    }
    int held = open("victim/held", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    mkfifo("victim/fifo", 0600);
    int fifo = open("victim/fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "victim/socket" };
    int mailbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(bind(mailbox, (const struct sockaddr *)&address, sizeof address) == 0, "victim/socket");
    mq_unlink("/moonsand-victim");
    mqd_t queue = mq_open("/moonsand-victim", O_RDWR | O_CREAT, 0600, NULL);
    int segment = shmget(0x76696374, 4096, IPC_CREAT | 0600);
    must(held >= 0 && fifo >= 0, "victim");
    printf("victim=%d\npage=%llu\nvictim_file=%d\nsegment=%d\nterminal=%s\nqueue=/moonsand-victim\n", (int)getpid(),
           (unsigned long long)(uintptr_t)page, held, segment, terminal);
    fflush(stdout);
    struct pollfd watched[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                                { .fd = leader, .events = POLLIN },
                                { .fd = mailbox, .events = POLLIN } };
    for (;;) {
        char bytes[512];
        if (poll(watched, 3, -1) < 0)
            continue;
        if (watched[0].revents != 0 && read(STDIN_FILENO, bytes, sizeof bytes) <= 0)
            break;
        ssize_t n = watched[1].revents & POLLIN ? read(leader, bytes, sizeof bytes) : 0;
        if (n > 0)
            count_up(2052, (uint32_t)n);
        if (watched[2].revents & POLLIN && recv(mailbox, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            count_up(2056, 1);
    }
    if (queue >= 0)
        mq_unlink("/moonsand-victim");
    shmctl(segment, IPC_RMID, NULL);
    return 0;
}

/* --- the programs that run with more than their caller has ------------------------------------------------------------- */

static int set_id(const char *directory, const char *name)
{
    int fd = open(text("%s/other", directory), O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, name, strlen(name)) > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "plant") == 0) {
        const char *workspace = getenv("WORKSPACE");
        umask(022);
        for (int i = 4; i < argc; i++) {
            plant(text("%s/%s", argv[2], argv[i]), (uid_t)atoi(argv[3]));
            if (workspace != NULL && strcmp(argv[i], "userns-detached-shadow") == 0)
                plant_shadow(workspace, (uid_t)atoi(argv[3]));
        }
        return 0;
    }
    if (argc >= 3 && strcmp(argv[1], "settle") == 0) {
        for (int i = 2; i < argc; i++)
            settle(argv[i]);
        return 0;
    }
    if (argc >= 3 && strcmp(argv[1], "snapshot") == 0)
        return snapshot(argv[2], argc - 3, argv + 3);
    if (argc == 3 && strcmp(argv[1], "victim") == 0)
        return victim(argv[2]);
    if (argc == 3 && (strcmp(argv[0], "setid") == 0 || strcmp(argv[0], "capable") == 0))
        return set_id(argv[1], argv[2]);
    fputs("usage: witness plant DIR UID NAME... | snapshot BASE NAME... | victim BASE\n", stderr);
    return 2;
}
