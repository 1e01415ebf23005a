/* What each part of the fence stops is data, in one table; the code below only compiles it.
 *
 * A refusal has the errno that the runner's own denials have (Landlock's EACCES, a read-only mount's EROFS), so that the
 * command and the classification hear one language; ENOSYS where programs then fall back to an older call that the
 * fence does understand. */
#include "fence.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

enum group {
    METADATA = 1 << 0,   /* changes metadata; denied or asked */
    NEWER = 1 << 1,      /* newer spellings of the same: programs fall back */
    ALWAYS = 1 << 2,     /* what no runner stops */
    FILE_IOCTL = 1 << 3, /* file systems' own ioctls, where no mount governs them */
    LANDLOCK = 1 << 4,   /* beside Landlock as the runner */
    USER_ZERO = 1 << 5,  /* for uid 0 */
    GUARD = 1 << 6,      /* for the guarded pid */
};

enum action { DENY, ABSENT, FORBID, ALLOW };

struct rule {
    enum group group;
    long call;
    enum action action;
    int argument; /* -1: whatever the arguments are */
    uint32_t mask;
    uint32_t value; /* the rule is about (argument & mask) == value */
};

/* Values of GUARD's rules, with the guarded pid as the unit; EVERYONE is kill(2)'s -1. */
#define ITSELF UINT32_C(1)
#define ITS_GROUP (UINT32_MAX)
#define EVERYONE UINT32_C(0)

#define TYPE_INTO_TERMINAL 0x5412 /* TIOCSTI */
#define COMMAND_CONSOLE 0x541c    /* TIOCLINUX */

/* The same calls of the 32-bit programs that a 64-bit kernel runs. */
#if defined(__x86_64__) || defined(__aarch64__)
#define FOREIGN_IOCTL 54
#define FOREIGN_FCNTL 55
#define FOREIGN_FCNTL64 221
#endif

#define ANY -1, 0, 0
#define WORD UINT32_MAX

/* ioctl numbers carry the direction in the top two bits and a letter for the family in the second byte (ioctl(2)). */
#define FAMILY(letter) 1, UINT32_C(0x0000ff00), (uint32_t)(letter) << 8
#define ONLY_READS 1, UINT32_C(0xc0000000), UINT32_C(0x80000000)
#define COMMAND(number) 1, WORD, UINT32_C(number)

static const struct rule rules[] = {
#ifdef SYS_chmod
    { METADATA, SYS_chmod, DENY, ANY },
#endif
    { METADATA, SYS_fchmod, DENY, ANY },
    { METADATA, SYS_fchmodat, DENY, ANY },
    { METADATA, SYS_fchmodat2, DENY, ANY },
#ifdef SYS_chown
    { METADATA, SYS_chown, DENY, ANY },
    { METADATA, SYS_lchown, DENY, ANY },
#endif
    { METADATA, SYS_fchown, DENY, ANY },
    { METADATA, SYS_fchownat, DENY, ANY },
/* 32-bit machines have two of each; the older ones take 16-bit ids, and 32-bit times */
#ifdef SYS_chown32
    { METADATA, SYS_chown32, DENY, ANY },
    { METADATA, SYS_lchown32, DENY, ANY },
    { METADATA, SYS_fchown32, DENY, ANY },
#endif
#ifdef SYS_utimensat_time64
    { METADATA, SYS_utimensat_time64, DENY, ANY },
#endif
#ifdef SYS_utime
    { METADATA, SYS_utime, DENY, ANY },
#endif
#ifdef SYS_utimes
    { METADATA, SYS_utimes, DENY, ANY },
#endif
#ifdef SYS_futimesat
    { METADATA, SYS_futimesat, DENY, ANY },
#endif
    { METADATA, SYS_utimensat, DENY, ANY },
    { METADATA, SYS_setxattr, DENY, ANY },
    { METADATA, SYS_lsetxattr, DENY, ANY },
    { METADATA, SYS_fsetxattr, DENY, ANY },
    { METADATA, SYS_removexattr, DENY, ANY },
    { METADATA, SYS_lremovexattr, DENY, ANY },
    { METADATA, SYS_fremovexattr, DENY, ANY },
    { NEWER, SYS_setxattrat, ABSENT, ANY },
    { NEWER, SYS_removexattrat, ABSENT, ANY },
    { NEWER, SYS_file_setattr, ABSENT, ANY },

    /* its operations go past this filter, extended attributes among them */
    { NEWER, SYS_io_uring_setup, FORBID, ANY },

    { ALWAYS, SYS_fcntl, FORBID, COMMAND(SET_WRITE_HINT) },
    { ALWAYS, SYS_fcntl, FORBID, COMMAND(SET_FILE_WRITE_HINT) },

    /* typing into a terminal */
    { ALWAYS, SYS_ioctl, FORBID, COMMAND(TYPE_INTO_TERMINAL) },
    { ALWAYS, SYS_ioctl, FORBID, COMMAND(COMMAND_CONSOLE) },
    /* File systems' own ioctls change inode flags, and make subvolumes and reflinks, on a descriptor that was opened for
     * reading. Of their families pass the commands that only read, and the copies whose target is open for writing. */
    { FILE_IOCTL, SYS_ioctl, DENY, COMMAND(0x800c6613) }, /* FS_IOC_SET_ENCRYPTION_POLICY, which says that it reads */
    { FILE_IOCTL, SYS_ioctl, DENY,
      COMMAND(0x8008f512) }, /* F2FS, releasing and reserving compressed blocks: likewise */
    { FILE_IOCTL, SYS_ioctl, DENY, COMMAND(0x8008f513) },
    { FILE_IOCTL, SYS_ioctl, ALLOW, COMMAND(0xc020660b) }, /* FS_IOC_FIEMAP */
    { FILE_IOCTL, SYS_ioctl, ALLOW, COMMAND(0x40049409) }, /* FICLONE */
    { FILE_IOCTL, SYS_ioctl, ALLOW, COMMAND(0x4020940d) }, /* FICLONERANGE */
    { FILE_IOCTL, SYS_ioctl, ALLOW, ONLY_READS },
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY('f') },  /* FS_IOC_SETFLAGS, ext4 */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY('X') },  /* FS_IOC_FSSETXATTR, XFS */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY('v') },  /* FS_IOC_SETVERSION */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0x94) }, /* Btrfs; deduplication too */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY('r') },  /* FAT attributes */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0xf5) }, /* F2FS */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY('o') },  /* OCFS2 */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0xcf) }, /* CIFS */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0x97) }, /* Ceph layouts */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0xbc) }, /* bcachefs subvolumes */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0xcd) }, /* ReiserFS */
    { FILE_IOCTL, SYS_ioctl, DENY, FAMILY(0x83) }, /* ZFS attributes */

    /* A mount that hangs nowhere has paths of its own, which look like others to whoever reads them. */
    { LANDLOCK, SYS_open_tree, FORBID, ANY },
    { LANDLOCK, SYS_open_tree_attr, FORBID, ANY },
    { LANDLOCK, SYS_move_mount, FORBID, ANY },
    { LANDLOCK, SYS_fsopen, FORBID, ANY },
    { LANDLOCK, SYS_fsmount, FORBID, ANY },
    { LANDLOCK, SYS_fspick, FORBID, ANY },
    { LANDLOCK, SYS_mount_setattr, FORBID, ANY },

    /* Limits of other processes of the same user, the launcher and the host among them: only one's own. */
    { LANDLOCK, SYS_prlimit64, ALLOW, 0, WORD, 0 },
    { LANDLOCK, SYS_prlimit64, FORBID, ANY },

/* POSIX message queues are files of /dev/mqueue that Landlock has no hook for. O_CREAT: */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) || defined(__riscv) ||        \
    defined(__powerpc64__) || defined(__s390x__)
    { LANDLOCK, SYS_mq_open, DENY, 1, UINT32_C(0100), UINT32_C(0100) },
#endif
    { LANDLOCK, SYS_mq_unlink, DENY, ANY },

    /* In a user namespace of its own, uid 0 without capabilities has them all again: enough to mount a cgroup
     * hierarchy, whose directories belong to it. */
    { USER_ZERO, SYS_unshare, FORBID, 0, NAMESPACE_USER, NAMESPACE_USER },
#ifdef __s390x__
    { USER_ZERO, SYS_clone, FORBID, 1, NAMESPACE_USER, NAMESPACE_USER },
#else
    { USER_ZERO, SYS_clone, FORBID, 0, NAMESPACE_USER, NAMESPACE_USER },
#endif
    { USER_ZERO, SYS_clone3, ABSENT, ANY }, /* its flags are out of a filter's reach; libraries fall back to clone */

    /* Without Landlock's signal scope (ABI 6), these reach the launcher. */
    { GUARD, SYS_kill, FORBID, 0, WORD, ITSELF },
    { GUARD, SYS_kill, FORBID, 0, WORD, ITS_GROUP },
    { GUARD, SYS_kill, FORBID, 0, WORD, EVERYONE },
    { GUARD, SYS_tkill, FORBID, 0, WORD, ITSELF },
    { GUARD, SYS_tgkill, FORBID, 0, WORD, ITSELF },
    { GUARD, SYS_rt_sigqueueinfo, FORBID, 0, WORD, ITSELF },
    { GUARD, SYS_rt_tgsigqueueinfo, FORBID, 0, WORD, ITSELF },
    { GUARD, SYS_pidfd_open, FORBID, 0, WORD, ITSELF },
    { GUARD, SYS_pidfd_send_signal, ABSENT, ANY },
};

enum { RULE_COUNT = sizeof rules / sizeof rules[0], PROLOGUE = 24, PER_RULE = 5, VERDICTS = 8 };

static struct filter_instruction code[PROLOGUE + RULE_COUNT * PER_RULE + VERDICTS];

/* A system call that rules are about: a run of them in `order`. */
struct subject {
    uint32_t call;
    size_t first, count;
};

/* A branch whose target is a verdict, patched when the verdicts stand at the end. */
struct branch {
    unsigned short at;
    bool when_true;
    uint32_t verdict;
};

struct assembler {
    const struct fence *fence;
    const struct rule *order[RULE_COUNT]; /* the rules in force, by call, each call's in the table's order */
    struct subject subjects[RULE_COUNT];
    struct branch branches[3 * RULE_COUNT + PROLOGUE];
    size_t branch_count;
    unsigned short at;
};

static void emit(struct assembler *a, uint16_t op, uint8_t yes, uint8_t no, uint32_t operand)
{
    code[a->at++] = (struct filter_instruction){ op, yes, no, operand };
}

/* The instruction just emitted goes to a verdict when it compares true (or false). */
static void decide(struct assembler *a, bool when_true, uint32_t verdict)
{
    a->branches[a->branch_count++] =
        (struct branch){ .at = (unsigned short)(a->at - 1), .when_true = when_true, .verdict = verdict };
}

/* One return a verdict, and every branch to it. */
static void emit_verdicts(struct assembler *a)
{
    for (size_t i = 0; i < a->branch_count; i++) {
        uint32_t verdict = a->branches[i].verdict;
        bool emitted = false;
        for (size_t j = 0; j < i; j++)
            emitted = emitted || a->branches[j].verdict == verdict;
        if (emitted)
            continue;
        for (size_t j = i; j < a->branch_count; j++) {
            const struct branch *branch = &a->branches[j];
            uint8_t distance = (uint8_t)(a->at - branch->at - 1);
            if (branch->verdict == verdict && branch->when_true)
                code[branch->at].jump_true = distance;
            else if (branch->verdict == verdict)
                code[branch->at].jump_false = distance;
        }
        emit(a, FILTER_RETURN, 0, 0, verdict);
    }
}

/* The low word of an argument: every value that a rule compares is a 32-bit one to the kernel. */
static uint32_t argument_offset(int argument)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    const uint32_t low = 4;
#else
    const uint32_t low = 0;
#endif
    return (uint32_t)offsetof(struct seccomp_call, arguments) + 8U * (uint32_t)argument + low;
}

static uint32_t verdict_of(const struct fence *fence, const struct rule *rule)
{
    if (rule->group == METADATA && fence->metadata == METADATA_ASKED)
        return SECCOMP_ASK;
    switch (rule->action) {
    case DENY:
        return SECCOMP_FAIL | (uint32_t)fence->refusal;
    case ABSENT:
        return SECCOMP_FAIL | ENOSYS;
    case FORBID:
        return SECCOMP_FAIL | EPERM;
    case ALLOW:
        break;
    }
    return SECCOMP_ALLOW;
}

static uint32_t value_of(const struct fence *fence, const struct rule *rule)
{
    if (rule->group != GUARD)
        return rule->value;
    return rule->value == EVERYONE ? UINT32_MAX : rule->value * (uint32_t)fence->guarded;
}

/* The call is this subject's: its rules one after the other, the first that fits decides. */
static void emit_rules(struct assembler *a, const struct subject *subject)
{
    const struct rule *loaded = NULL;
    for (size_t i = subject->first; i < subject->first + subject->count; i++) {
        const struct rule *rule = a->order[i];
        if (rule->argument < 0) { /* whatever is left */
            emit(a, FILTER_JUMP_AT_LEAST, 0, 0, 0);
            decide(a, true, verdict_of(a->fence, rule));
            break;
        }
        if (loaded == NULL || loaded->argument != rule->argument || loaded->mask != rule->mask) {
            emit(a, FILTER_LOAD_WORD, 0, 0, argument_offset(rule->argument));
            if (rule->mask != WORD)
                emit(a, FILTER_AND, 0, 0, rule->mask);
            loaded = rule;
        }
        emit(a, FILTER_JUMP_EQUAL, 0, 0, value_of(a->fence, rule));
        decide(a, true, verdict_of(a->fence, rule));
    }
    decide(a, false, SECCOMP_ALLOW); /* the last of them */
}

/* A search tree over the calls. When the filter is installed, the kernel walks it once for every call that there is, to
 * note those that are always allowed (kernel/seccomp.c, seccomp_cache_prepare), and compiles it: a long chain takes it
 * a tenth of a millisecond. */
static void emit_tree(struct assembler *a, size_t from, size_t to)
{
    if (to - from == 1) {
        const struct subject *subject = &a->subjects[from];
        const struct rule *rule = a->order[subject->first];
        emit(a, FILTER_JUMP_EQUAL, 0, 0, subject->call);
        decide(a, false, SECCOMP_ALLOW);
        if (rule->argument < 0)
            decide(a, true, verdict_of(a->fence, rule));
        else
            emit_rules(a, subject);
        return;
    }
    size_t middle = from + (to - from) / 2;
    unsigned short comparison = a->at;
    emit(a, FILTER_JUMP_AT_LEAST, 0, 0, a->subjects[middle].call);
    emit_tree(a, from, middle);
    code[comparison].jump_true = (uint8_t)(a->at - comparison - 1);
    emit_tree(a, middle, to);
}

static size_t collect(struct assembler *a, unsigned groups)
{
    size_t count = 0, subjects = 0;
    for (size_t i = 0; i < RULE_COUNT; i++) {
        if ((groups & rules[i].group) == 0)
            continue;
        size_t at = count++;
        for (; at > 0 && a->order[at - 1]->call > rules[i].call; at--)
            a->order[at] = a->order[at - 1];
        a->order[at] = &rules[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || a->order[i]->call != a->order[i - 1]->call)
            a->subjects[subjects++] = (struct subject){ .call = (uint32_t)a->order[i]->call, .first = i };
        a->subjects[subjects - 1].count++;
    }
    return subjects;
}

/* Another architecture's numbers mean other calls. Where the fence holds what nothing else does, none of them is let
 * through; where it holds next to nothing, 32-bit programs run, and find the same few calls fenced. */
static void emit_foreign(struct assembler *a)
{
    unsigned short comparison = a->at;

    emit(a, FILTER_JUMP_EQUAL, 0, 0, NATIVE_ARCHITECTURE);
#ifdef FOREIGN_IOCTL
    if (a->fence->metadata == METADATA_FREE) {
        const uint8_t past_fcntl = 5;

        emit(a, FILTER_LOAD_WORD, 0, 0, (uint32_t)offsetof(struct seccomp_call, number));
        emit(a, FILTER_JUMP_EQUAL, past_fcntl, 0, FOREIGN_IOCTL);
        emit(a, FILTER_JUMP_EQUAL, 1, 0, FOREIGN_FCNTL);
        emit(a, FILTER_JUMP_EQUAL, 0, 0, FOREIGN_FCNTL64);
        decide(a, false, SECCOMP_ALLOW);
        emit(a, FILTER_LOAD_WORD, 0, 0, argument_offset(1));
        emit(a, FILTER_JUMP_EQUAL, 0, 0, SET_WRITE_HINT);
        decide(a, true, SECCOMP_FAIL | EPERM);
        emit(a, FILTER_JUMP_EQUAL, 0, 0, SET_FILE_WRITE_HINT);
        decide(a, true, SECCOMP_FAIL | EPERM);
        decide(a, false, SECCOMP_ALLOW);
        emit(a, FILTER_LOAD_WORD, 0, 0, argument_offset(1));
        emit(a, FILTER_JUMP_EQUAL, 0, 0, TYPE_INTO_TERMINAL);
        decide(a, true, SECCOMP_FAIL | EPERM);
        emit(a, FILTER_JUMP_EQUAL, 0, 0, COMMAND_CONSOLE);
        decide(a, true, SECCOMP_FAIL | EPERM);
        decide(a, false, SECCOMP_ALLOW);
        code[comparison].jump_true = (uint8_t)(a->at - comparison - 1);
        return;
    }
#endif
    decide(a, false, SECCOMP_FAIL | ENOSYS);
}

bool fence_build(const struct fence *fence, struct filter_program *program, struct failure *failure)
{
    static struct assembler a;
    a = (struct assembler){ .fence = fence };
    size_t subjects = collect(&a, ALWAYS | (fence->metadata != METADATA_FREE ? METADATA | NEWER : 0U) |
                                      (fence->file_ioctls ? FILE_IOCTL : 0U) | (fence->landlock ? LANDLOCK : 0U) |
                                      (fence->user_zero ? USER_ZERO : 0U) | (fence->guarded > 0 ? GUARD : 0U));
    emit(&a, FILTER_LOAD_WORD, 0, 0, (uint32_t)offsetof(struct seccomp_call, architecture));
    emit_foreign(&a);
    emit(&a, FILTER_LOAD_WORD, 0, 0, (uint32_t)offsetof(struct seccomp_call, number));
#ifdef X32_SYSCALL_BIT
    emit(&a, FILTER_JUMP_AT_LEAST, 0, 0, X32_SYSCALL_BIT);
    decide(&a, true, SECCOMP_FAIL | ENOSYS);
#endif
    emit_tree(&a, 0, subjects);
    emit_verdicts(&a);
    if (a.at > UINT8_MAX) { /* a branch reaches no further */
        errno = E2BIG;
        return fail(failure, MS_STAGE_FENCE, NULL);
    }
    *program = (struct filter_program){ .length = a.at, .instructions = code };
    return true;
}

bool fence_enter(const struct filter_program *program, int *listener, struct failure *failure)
{
    long fd = syscall(SYS_seccomp, SECCOMP_OPERATION_FILTER, listener ? SECCOMP_FLAG_NEW_LISTENER : 0UL, program);
    if (fd < 0)
        return fail(failure, MS_STAGE_FENCE, NULL);
    if (listener)
        *listener = (int)fd;
    return true;
}
