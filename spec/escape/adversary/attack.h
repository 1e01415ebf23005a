/* What an attack is, and what it is told about the world that it should leave a mark in.
 *
 * An attack runs in a process of its own, whose working directory is its own canary directory, outside of every place that
 * the sandbox may write (spec/escape/README.md says what lies in it). What it returns is only a remark for the reader of
 * the table: whether there is a mark is for the witness to see, from outside. */
#ifndef MOONSAND_ESCAPE_ATTACK_H
#define MOONSAND_ESCAPE_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct facts {
    const char *name;      /* the attack's own, and the text of its mark */
    const char *own;       /* its canary directory, absolute */
    const char *base;      /* where everything of this run lies */
    const char *spring;    /* a place that the mode may allow to write: the workspace, or in read-only just /tmp */
    const char *workspace; /* NULL in read-only */
    const char *program;   /* the adversary itself */
    const char *launcher_program;
    pid_t launcher;       /* the sandbox's own process, in the attack's pid namespace */
    pid_t victim;         /* a process of the same user, outside */
    uintptr_t page;       /* a page of its memory */
    int victim_file;      /* a descriptor of its, open for writing */
    int segment;          /* a SysV shared memory segment of its */
    const char *queue;    /* a POSIX message queue of its */
    const char *terminal; /* its terminal */
    const char *loop;     /* a block device that belongs to the run, or NULL */
};

enum outcome {
    DONE = 0,    /* nothing refused it */
    REFUSED = 1, /* errno says how */
    ABSENT = 77, /* this machine does not have what it takes: the reason is printed */
};

enum {
    ALONE = 1 << 0,    /* disturbs others: a sandbox of its own */
    ROOT = 1 << 1,     /* an ordinary user could not do it unconfined either */
    ORDINARY = 1 << 2, /* is about a user other than root */
    LAUNCHED = 1 << 3, /* is about the launcher: the proof runs under one that confines nothing */
    UNPROVEN =
        1
        << 4, /* its mark cannot be shown unconfined: there is nothing to leave, or it needs what only the sandbox has */
    BEYOND = 1 << 5, /* not a file effect: the modes do not promise to stop it, the table says whether it is */
};

struct attack {
    const char *name;
    const char *mark; /* what the witness looks at: "own", or the beginning of other keys of its */
    const char *what; /* a sentence for the table */
    int (*run)(const struct facts *);
    const char *shell; /* instead of `run`: for sh -c, with OWN, SPRING, NAME, BASE, VICTIM in the environment */
    unsigned flags;
};

struct family {
    const char *name;
    const struct attack *attacks;
    size_t count;
};

#define FAMILY(variable, label, list)                                                                                  \
    const struct family variable = { .name = (label), .attacks = (list), .count = sizeof(list) / sizeof(list)[0] }

extern const struct family paths_family, files_family, metadata_family, ioctls_family, uring_family, foreign_family,
    namespaces_family, privilege_family, handles_family, knobs_family, processes_family, descriptors_family,
    devices_family, terminals_family, ipc_family, outliving_family, races_family, nested_family;

/* DONE when the call succeeded, else REFUSED with its errno. */
int done_if(bool success);
int done_unless_negative(long result);
/* ABSENT, with the reason. */
int absent(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* ABSENT on ENOSYS and its kin, else as done_unless_negative. */
int done_or_absent(long result, const char *feature);

/* A path below a directory; a few are kept, so that several can be used in one call. */
const char *under(const char *directory, const char *name);
/* The same, formatted. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes the attack's name into the path, opened with these flags besides O_WRONLY. */
int mark_path(const struct facts *facts, const char *path, int flags);
int mark_descriptor(const struct facts *facts, int fd);

/* Becomes root of a new user namespace with these other new namespaces; false: refused. */
bool own_namespaces(int flags);

/* Starts a process that stays for some seconds under the attack's name, for the witness to find. In the child's place. */
__attribute__((noreturn)) void linger(const struct facts *facts);

#endif
