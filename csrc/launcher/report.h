/* The launcher's side of the report: records out, requests in. */
#ifndef MOONSAND_LAUNCHER_REPORT_H
#define MOONSAND_LAUNCHER_REPORT_H

#include "../core/report.h"

#include <stdbool.h>

struct reporter {
    int fd;                   /* -1: nobody listens */
    int32_t me;               /* this process, for the record's pid field of CONFINED the command's own */
    struct ms_record request; /* what has come of the next request */
    unsigned received;
};

/* Takes the descriptor over. False where it is not open, or no stream socket: errno says which. */
bool reporter_open(struct reporter *reporter, int fd);

/* Says one record. Safe after vfork. Failure to send means that the host is gone, which the read side will notice. */
void reporter_say(const struct reporter *reporter, struct ms_record record);

/* Says two, in one breath: the host wakes once. */
void reporter_say_both(const struct reporter *reporter, struct ms_record first, struct ms_record second);

enum request_result { REQUEST_NONE, REQUEST_READY, REQUEST_HOST_GONE };

/* The next whole request, without waiting. */
enum request_result reporter_read(struct reporter *reporter, struct ms_record *request);

/* Says that the command is about to run, and whether it still may: a host that is gone, or has taken its permission back,
 * has closed its end. True where nobody listens. Safe after vfork. */
bool reporter_ask(const struct reporter *reporter, struct ms_record confined);

/* The word for a stage in messages. */
const char *stage_word(enum ms_stage stage);

#endif
