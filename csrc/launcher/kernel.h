/* What the Linux kernel fixed for ever, for a libc that does not ship the kernel's headers (musl on Debian does not).
 *
 * Only numbers and layouts of the kernel's stable interface: system call numbers newer than the libc, Landlock
 * (Documentation/userspace-api/landlock.rst), seccomp and its filter machine (seccomp(2), bpf(4)), capabilities. */
#ifndef MOONSAND_KERNEL_H
#define MOONSAND_KERNEL_H

#include <stdint.h>
#include <sys/syscall.h>

/* System calls from 424 on have one number on every architecture. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

#define CLOSE_RANGE_CLOEXEC_FLAG (1U << 2)

/* Landlock */

#define LL_CREATE_RULESET_VERSION (1U << 0)
#define LL_RULE_PATH_BENEATH 1

#define LL_FS_EXECUTE (UINT64_C(1) << 0)
#define LL_FS_WRITE_FILE (UINT64_C(1) << 1)
#define LL_FS_READ_FILE (UINT64_C(1) << 2)
#define LL_FS_READ_DIR (UINT64_C(1) << 3)
#define LL_FS_REMOVE_DIR (UINT64_C(1) << 4)
#define LL_FS_REMOVE_FILE (UINT64_C(1) << 5)
#define LL_FS_MAKE_CHAR (UINT64_C(1) << 6)
#define LL_FS_MAKE_DIR (UINT64_C(1) << 7)
#define LL_FS_MAKE_REG (UINT64_C(1) << 8)
#define LL_FS_MAKE_SOCK (UINT64_C(1) << 9)
#define LL_FS_MAKE_FIFO (UINT64_C(1) << 10)
#define LL_FS_MAKE_BLOCK (UINT64_C(1) << 11)
#define LL_FS_MAKE_SYM (UINT64_C(1) << 12)
#define LL_FS_REFER (UINT64_C(1) << 13)     /* ABI 2 */
#define LL_FS_TRUNCATE (UINT64_C(1) << 14)  /* ABI 3 */
#define LL_FS_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */

#define LL_SCOPE_SIGNAL (UINT64_C(1) << 1) /* ABI 6 */

struct ll_ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net; /* ABI 4 */
    uint64_t scoped;             /* ABI 6 */
};

struct ll_path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

/* openat2(2) */

struct open_how_arguments {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

#define RESOLVE_WITHOUT_MAGIC_LINKS UINT64_C(0x02)
#define RESOLVE_WITHOUT_LINKS UINT64_C(0x04)

/* seccomp(2) and the filter machine */

struct filter_instruction {
    uint16_t code;
    uint8_t jump_true;
    uint8_t jump_false;
    uint32_t operand;
};

struct filter_program {
    unsigned short length;
    struct filter_instruction *instructions;
};

struct seccomp_call {
    int32_t number;
    uint32_t architecture;
    uint64_t instruction_pointer;
    uint64_t arguments[6];
};

struct seccomp_request {
    uint64_t id;
    uint32_t pid;
    uint32_t flags;
    struct seccomp_call call;
};

struct seccomp_reply {
    uint64_t id;
    int64_t value;
    int32_t error;
    uint32_t flags;
};

struct seccomp_sizes {
    uint16_t request;
    uint16_t reply;
    uint16_t call;
};

#define SECCOMP_OPERATION_FILTER 1
#define SECCOMP_OPERATION_SIZES 3
#define SECCOMP_FLAG_NEW_LISTENER (1UL << 3)

#define SECCOMP_ALLOW UINT32_C(0x7fff0000)
#define SECCOMP_ASK UINT32_C(0x7fc00000)
#define SECCOMP_FAIL UINT32_C(0x00050000) /* | errno */

#define SECCOMP_RECEIVE UINT32_C(0xc0502100)
#define SECCOMP_SEND UINT32_C(0xc0182101)
#define SECCOMP_STILL_VALID UINT32_C(0x80082102) /* the first spelling, which every kernel takes */

#define FILTER_LOAD_WORD 0x20     /* BPF_LD | BPF_W | BPF_ABS */
#define FILTER_AND 0x54           /* BPF_ALU | BPF_AND | BPF_K */
#define FILTER_JUMP_EQUAL 0x15    /* BPF_JMP | BPF_JEQ | BPF_K */
#define FILTER_JUMP_AT_LEAST 0x35 /* BPF_JMP | BPF_JGE | BPF_K */
#define FILTER_RETURN 0x06        /* BPF_RET | BPF_K */

/* fcntl(2): a hint that the kernel keeps with the inode, whatever the descriptor was opened for */
#define SET_WRITE_HINT 1036
#define SET_FILE_WRITE_HINT 1038

#if defined(__x86_64__)
#define NATIVE_ARCHITECTURE UINT32_C(0xc000003e)
#define X32_SYSCALL_BIT UINT32_C(0x40000000)
#elif defined(__aarch64__)
#define NATIVE_ARCHITECTURE UINT32_C(0xc00000b7)
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE_ARCHITECTURE UINT32_C(0xc00000f3)
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define NATIVE_ARCHITECTURE UINT32_C(0xc0000015)
#elif defined(__s390x__)
#define NATIVE_ARCHITECTURE UINT32_C(0x80000016)
#elif defined(__i386__)
#define NATIVE_ARCHITECTURE UINT32_C(0x40000003)
#elif defined(__arm__)
#define NATIVE_ARCHITECTURE UINT32_C(0x40000028)
#else
#error "say this architecture's AUDIT_ARCH number: the fence must know which system calls it reads"
#endif

/* Capabilities: capget(2), version 3 */

#define CAPABILITY_VERSION UINT32_C(0x20080522)

struct capability_header {
    uint32_t version;
    int32_t pid;
};

struct capability_sets {
    uint32_t effective;
    uint32_t permitted;
    uint32_t inheritable;
};

#define NAMESPACE_USER 0x10000000UL /* CLONE_NEWUSER */

#endif
