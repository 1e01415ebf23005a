/* Terminals: typing into the user's, writing on it, changing its settings. The victim is in front of one. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

static int open_terminal(const struct facts *facts, int flags)
{
    return open(facts->terminal, flags | O_NOCTTY | O_CLOEXEC);
}

static int typed_on(int fd)
{
    for (const char *c = "mark"; *c != '\0'; c++)
        if (ioctl(fd, TIOCSTI, c) != 0)
            return REFUSED;
    return DONE;
}

static int typed(const struct facts *facts)
{
    int fd = open_terminal(facts, O_RDWR);
    return typed_on(fd >= 0 ? fd : open_terminal(facts, O_RDONLY));
}

static int typed_on_own(const struct facts *facts)
{
    if (typed(facts) == DONE)
        return DONE;
    for (int fd = 0; fd < 3; fd++)
        if (isatty(fd))
            return typed_on(fd);
    return typed_on(open("/dev/tty", O_RDWR | O_CLOEXEC));
}

static int made_controlling(const struct facts *facts)
{
    if (fork() == 0) {
        setsid();
        int fd = open_terminal(facts, O_RDWR);
        if (fd < 0)
            fd = open_terminal(facts, O_RDONLY);
        ioctl(fd, TIOCSCTTY, 1);
        _exit(typed_on(fd));
    }
    usleep(50000);
    return REFUSED;
}

static int shown(const struct facts *facts)
{
    return mark_descriptor(facts, open_terminal(facts, O_WRONLY));
}

static int resized(const struct facts *facts)
{
    struct winsize size = { .ws_row = 11, .ws_col = 22 };
    return done_unless_negative(ioctl(open_terminal(facts, O_RDONLY), TIOCSWINSZ, &size));
}

static int settings(const struct facts *facts)
{
    int fd = open_terminal(facts, O_RDONLY);
    struct termios now;
    if (tcgetattr(fd, &now) != 0)
        return REFUSED;
    now.c_lflag ^= (tcflag_t)ECHOE;
    return done_unless_negative(tcsetattr(fd, TCSANOW, &now));
}

static int mode(const struct facts *facts)
{
    return done_unless_negative(chmod(facts->terminal, 0666));
}

static const struct attack list[] = {
    { "terminal-type", "tty:input", "TIOCSTI", typed, NULL, ROOT },
    { "terminal-type-own", "tty:input", "TIOCSTI on every terminal at hand", typed_on_own, NULL, ROOT },
    { "terminal-take", "tty:input", "TIOCSCTTY, then TIOCSTI", made_controlling, NULL, ROOT },
    { "terminal-write", "tty:output", "text on somebody's terminal", shown, NULL, 0 },
    { "terminal-size", "tty:settings", "its window size", resized, NULL, 0 },
    { "terminal-settings", "tty:settings", "its settings", settings, NULL, 0 },
    { "terminal-mode", "tty:node", "chmod of its node", mode, NULL, 0 },
};

FAMILY(terminals_family, "terminals", list);
