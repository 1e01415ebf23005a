/* The report: what the launcher says about a command's life, and what the host may ask of it.
 *
 * This is the only header that the host's core and the launcher share. They speak over one AF_UNIX stream socket pair a
 * command. Both ends are always the same build on the same machine, so a record is a plain struct of fixed size in host
 * byte order; a reader accumulates bytes until one is whole. The end of the stream is a fact too: for the launcher it
 * means that the host is gone (stop everything), for the host that nothing more will be reported.
 *
 * The order of records from the launcher is one of
 *     FAILED                                       the confinement could not be had: nothing ran
 *     [CONFINED,] EXEC_FAILED                      the command could not be started; without CONFINED it was a limit of
 *                                                  the machine, and not the confinement, that came in between
 *     CONFINED, (STOPPED)*, ENDED, LEFTOVERS       the command ran
 * See section 4 of the design. */
#ifndef MOONSAND_REPORT_H
#define MOONSAND_REPORT_H

#include <stdint.h>

#define MS_REPORT_FD 3 /* where the core puts the launcher's end, and what --report-fd is told */
#define MS_RECORD_MAGIC UINT32_C(0x6d73726d)

enum ms_record_kind {
    /* launcher to host */
    MS_REPORT_FAILED = 1,   /* stage, error: confinement could not be had, nothing was run */
    MS_REPORT_CONFINED = 2, /* about to exec: flags = MS_GAP_* not covered, value = Landlock ABI or 0, pid = command */
    MS_REPORT_EXEC_FAILED = 3, /* stage (MS_STAGE_CHDIR, _EXEC, _FORK, _TERMINAL...), error */
    MS_REPORT_STOPPED = 4,     /* value = the signal that stopped the command (only with --terminal) */
    MS_REPORT_ENDED = 5,       /* value = the command's wait status, as wait(2) gives it */
    MS_REPORT_LEFTOVERS = 6,   /* value = how many processes were stopped after the command's end; the last record */

    /* host to launcher */
    MS_REQUEST_TERMINATE = 32, /* SIGTERM (and SIGCONT) to the whole tree, once */
    MS_REQUEST_KILL = 33,      /* SIGKILL to the whole tree until none is left */
    MS_REQUEST_SIGNAL = 34,    /* value = a signal for the command's process group */
    MS_REQUEST_CONTINUE = 35   /* SIGCONT to that group; with --terminal, value = 1 first gives it the terminal's
                                  foreground, 0 takes that away */
};

/* Which step failed. One list for the core's spawn and for the launcher; `ms_stage_name` gives the word. */
enum ms_stage {
    MS_STAGE_NONE = 0,
    /* starting a process */
    MS_STAGE_ARGUMENTS,
    MS_STAGE_PIPE,
    MS_STAGE_SOCKET,
    MS_STAGE_MEMORY,
    MS_STAGE_FORK,
    MS_STAGE_SESSION,
    MS_STAGE_STDIO,
    MS_STAGE_TERMINAL,
    MS_STAGE_CHDIR,
    MS_STAGE_EXEC,
    MS_STAGE_SUPERVISOR,
    /* confining one */
    MS_STAGE_SUBREAPER,
    MS_STAGE_NO_NEW_PRIVS,
    MS_STAGE_CAPABILITIES,
    MS_STAGE_LANDLOCK,
    MS_STAGE_LANDLOCK_RULE,
    MS_STAGE_FENCE,
    MS_STAGE_BROKER,
    MS_STAGE_EXPECT_PID_1,
    MS_STAGE_EXPECT_NO_CAPABILITIES,
    MS_STAGE_EXPECT_READ_ONLY,
    MS_STAGE_COUNT
};

/* File effects that the confinement in force does not cover. None set means `full`. */
enum ms_gap {
    MS_GAP_TRUNCATE = 1 << 0,     /* Landlock ABI < 3: truncating what may be opened for reading */
    MS_GAP_DEVICE_IOCTL = 1 << 1, /* Landlock ABI < 5: ioctls on device nodes opened for reading */
    MS_GAP_METADATA = 1 << 2,     /* mode bits, owners, times, xattrs, inode flags outside the writable roots */
    MS_GAP_LATE_MOUNT = 1 << 3,   /* bwrap: what is mounted outside later appears inside, as it was mounted */
    MS_GAP_UNCHECKED = 1 << 4     /* the launcher was not told what to expect of its runner, so it looked at nothing */
};

struct ms_record {
    uint32_t magic;
    uint16_t kind;  /* enum ms_record_kind */
    uint16_t stage; /* enum ms_stage */
    int32_t value;
    int32_t error; /* errno */
    uint32_t flags;
    int32_t pid; /* in the launcher's own pid namespace */
};

_Static_assert(sizeof(struct ms_record) == 24, "records have one size on both sides");

#endif
