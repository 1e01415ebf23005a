/* Confining the command, in the order that the kernel needs. What differs between systems lies behind this header:
 * confine_linux.c and confine_darwin.c. */
#ifndef MOONSAND_CONFINE_H
#define MOONSAND_CONFINE_H

#include "failure.h"
#include "options.h"

#include <stdint.h>

struct confinement {
    bool wanted;
    int abi;       /* Landlock's, 0 where it is not used */
    uint32_t gaps; /* MS_GAP_* */
    int ruleset;   /* -1: none */
    bool no_core;  /* a crash leaves nothing behind */
    bool brokered;
    struct list roots; /* at and below which the broker lets metadata change */
    int listener;      /* the broker's, once the command is confined; -1: none */
};

/* In the launcher, before there is a child: verifies what was to be expected, builds what the command will be put
 * under, and gives up the launcher's own capabilities when it confines. */
bool confinement_prepare(struct confinement *confinement, const struct options *options, struct failure *failure);

/* In the child, which shares the launcher's memory and descriptors until it execs: for good. */
bool confinement_enter(struct confinement *confinement, struct failure *failure);

/* Answers one request on `listener`; closes it when it is dead. */
void confinement_serve(struct confinement *confinement);

/* Enforces a ruleset in this process, looks whether it holds, and prints how complete it is. The exit status. */
int confinement_probe(void);

#endif
