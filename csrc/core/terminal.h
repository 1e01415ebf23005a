/* The user's terminal, and the pseudo-terminal that a program gets in its place.
 *
 * A program that had the user's own terminal could type into it (ioctl_tty(2), TIOCSTI), and what it typed would be read
 * by the user's shell, outside every confinement. So it gets a pseudo-terminal of its own; relay.h carries the bytes.
 *
 * Relies on: pty(7), termios(3). Promises: the user's terminal is only touched from its foreground process group, and
 * ms_terminal_restore gives it back the modes that it had. */
#ifndef MOONSAND_TERMINAL_H
#define MOONSAND_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

#include "error.h"

struct ms_terminal {
    /* The user's side. `user` is a descriptor that others have too, so nothing about its open file is ever changed. */
    int user;
    int keyboard; /* to read from and */
    int screen; /* to write to: non-blocking and our own where the terminal may be opened again; else `user`; else -1 */
    bool raw;   /* every key goes to the program, `before` has the modes to give back */
    struct termios before;

    /* The program's side. */
    int master; /* non-blocking */
    int program;
};

/* Finds the terminal among the user's descriptors 0 to 2 (`user`), and makes a pseudo-terminal with its modes and window
 * size. 0, or -1 with `error` filled. */
int ms_terminal_open(struct ms_terminal *terminal, int user, struct ms_error *error);

void ms_terminal_close(struct ms_terminal *terminal);

/* Is this process in the foreground of the user's terminal? Where the terminal does not control it, nobody else is. */
bool ms_terminal_foreground(const struct ms_terminal *terminal);

/* Into raw mode: every key goes to the program's own line discipline. False when that cannot be, or is not ours to do. */
bool ms_terminal_take(struct ms_terminal *terminal);

/* Out of raw mode, unless somebody else has the foreground by now. */
void ms_terminal_restore(struct ms_terminal *terminal);

/* The window's size, from the user's terminal to the program's, which is signalled when it is another one. */
void ms_terminal_resize(const struct ms_terminal *terminal);

/* The character that ends the input in the program's modes. */
char ms_terminal_end_of_file(const struct ms_terminal *terminal);

#endif
