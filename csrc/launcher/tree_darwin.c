/* macOS has no subreaper: an orphan goes to launchd. The tree is what still hangs from the launcher, and what shares
 * the command's process group or session; a daemon that detached itself twice is not found. The documentation says so. */
#include "tree.h"

#include <libproc.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

bool tree_adopt(struct failure *failure)
{
    (void)failure;
    return true;
}

void tree_prepare(void)
{
}

static bool descends(pid_t pid, pid_t from)
{
    for (int depth = 0; pid > 1 && depth < 256; depth++) {
        struct proc_bsdinfo info;
        if (proc_pidinfo(pid, PROC_PIDTBSDINFO, 0, &info, sizeof info) != (int)sizeof info)
            return false;
        pid = (pid_t)info.pbi_ppid;
        if (pid == from)
            return true;
    }
    return false;
}

/* Signals every process of the tree, and counts those that took it. */
static int signal_all(pid_t command, int signal)
{
    int bytes = proc_listallpids(NULL, 0);
    if (bytes <= 0)
        return 0;
    size_t room = (size_t)bytes * 2;
    pid_t *pids = malloc(room * sizeof *pids);
    if (pids == NULL)
        return 0;
    int count = proc_listallpids(pids, (int)(room * sizeof *pids)), signalled = 0;
    for (int i = 0; i < count; i++) {
        pid_t pid = pids[i];
        if (pid > 1 && pid != getpid() && (getsid(pid) == command || descends(pid, getpid())))
            signalled += kill(pid, signal) == 0;
    }
    free(pids);
    return signalled;
}

void tree_signal(pid_t command, int signal)
{
    signal_all(command, signal);
}

int tree_kill_children(pid_t command)
{
    return signal_all(command, SIGKILL);
}
