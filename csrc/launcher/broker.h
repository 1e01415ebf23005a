/* The broker: changes file metadata on a confined command's behalf, where the grants allow it to write.
 *
 * Landlock has no access right for mode bits, owners, times and extended attributes, so the fence hands those system
 * calls over (seccomp user notification, seccomp_unotify(2)). The broker resolves the object once, to a descriptor,
 * looks where that descriptor lies, and changes the object through the descriptor: there is no second look-up that a
 * race could turn elsewhere. The call's arguments are copied out of the caller once.
 *
 * Device nodes keep their metadata wherever they lie: they are the host's. Under a runner whose mounts govern the rest,
 * that is all that the broker is there for. */
#ifndef MOONSAND_BROKER_H
#define MOONSAND_BROKER_H

#include "options.h"

/* Answers one call on the listener, without waiting longer than the call takes: metadata may change at and below
 * `roots`; elsewhere the answer is `refusal`. False when the listener is dead. */
bool broker_serve(int listener, const struct list *roots, int refusal);

#endif
