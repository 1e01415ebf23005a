#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int failed(struct ms_error *error, const char *what)
{
    ms_error_set(error, MS_STAGE_TERMINAL, errno, NULL, what);
    return -1;
}

/* An open file of our own for the same terminal, so that non-blocking is nobody else's. Another user's terminal (after
 * su) cannot be opened again; then the inherited descriptor has to do. */
static void open_user_side(struct ms_terminal *terminal)
{
    const char *name = ttyname(terminal->user);
    int own = name == NULL ? -1 : open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

    if (own >= 0) {
        terminal->keyboard = own;
        terminal->screen = own;
        return;
    }

    int access = fcntl(terminal->user, F_GETFL) & O_ACCMODE;

    terminal->keyboard = access == O_WRONLY ? -1 : terminal->user;
    terminal->screen = access == O_RDONLY ? -1 : terminal->user;
}

static int open_program_side(struct ms_terminal *terminal, struct ms_error *error)
{
    terminal->master = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal->master < 0)
        return failed(error, "a pseudo-terminal");
    if (fcntl(terminal->master, F_SETFD, FD_CLOEXEC) != 0 || fcntl(terminal->master, F_SETFL, O_NONBLOCK) != 0 ||
        grantpt(terminal->master) != 0 || unlockpt(terminal->master) != 0)
        return failed(error, "a pseudo-terminal");

    const char *name = ptsname(terminal->master);

    if (name == NULL || (terminal->program = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
        return failed(error, "the program's side of a pseudo-terminal");
    return 0;
}

int ms_terminal_open(struct ms_terminal *terminal, int user, struct ms_error *error)
{
    *terminal = (struct ms_terminal){ .user = user, .keyboard = -1, .screen = -1, .master = -1, .program = -1 };
    if (tcgetattr(user, &terminal->before) != 0)
        return failed(error, "the user's terminal");
    if (open_program_side(terminal, error) != 0) {
        ms_terminal_close(terminal);
        return -1;
    }
    open_user_side(terminal);
    if (tcsetattr(terminal->program, TCSANOW, &terminal->before) != 0) {
        failed(error, "the modes of a pseudo-terminal");
        ms_terminal_close(terminal);
        return -1;
    }
    ms_terminal_resize(terminal);
    return 0;
}

void ms_terminal_close(struct ms_terminal *terminal)
{
    ms_terminal_restore(terminal);
    if (terminal->keyboard >= 0 && terminal->keyboard != terminal->user)
        close(terminal->keyboard); /* the screen is the same one */
    if (terminal->master >= 0)
        close(terminal->master);
    if (terminal->program >= 0)
        close(terminal->program);
    terminal->keyboard = terminal->screen = terminal->master = terminal->program = -1;
}

bool ms_terminal_foreground(const struct ms_terminal *terminal)
{
    pid_t group = tcgetpgrp(terminal->user);

    return group == getpgrp() || (group < 0 && errno == ENOTTY);
}

bool ms_terminal_take(struct ms_terminal *terminal)
{
    if (terminal->keyboard < 0 || !ms_terminal_foreground(terminal))
        return false;
    /* What the user's shell set while this process was stopped is what it shall have back. */
    if (!terminal->raw && tcgetattr(terminal->user, &terminal->before) != 0)
        return false;

    struct termios raw = terminal->before;

    cfmakeraw(&raw);
    /* DRAIN, not FLUSH: what was typed ahead belongs to the program. */
    if (tcsetattr(terminal->user, TCSADRAIN, &raw) != 0)
        return false;
    terminal->raw = true;
    return true;
}

void ms_terminal_restore(struct ms_terminal *terminal)
{
    if (terminal->raw && ms_terminal_foreground(terminal))
        tcsetattr(terminal->user, TCSADRAIN, &terminal->before);
    terminal->raw = false;
}

void ms_terminal_resize(const struct ms_terminal *terminal)
{
    struct winsize size;

    if (ioctl(terminal->user, TIOCGWINSZ, &size) == 0)
        ioctl(terminal->master, TIOCSWINSZ, &size);
}

char ms_terminal_end_of_file(const struct ms_terminal *terminal)
{
    struct termios modes;

    return tcgetattr(terminal->program, &modes) == 0 ? (char)modes.c_cc[VEOF] : '\4';
}
