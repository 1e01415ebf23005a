/* Sandboxes within the sandbox: a launcher with wider grants, a runner of the command's own, other confiners. */
#include "attack.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A filter of the command's own that lets everything pass: the stricter of two answers counts, whatever the order. */
static int own_filter(const struct facts *facts)
{
    struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { .len = 1, .filter = allow };
    (void)facts;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        return REFUSED;
    return done_unless_negative(chmod("file", 0777));
}

/* A listener of its own that says "go on": the kernel then goes on with the original call. */
static int own_listener(const struct facts *facts)
{
    struct sock_filter ask[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmodat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = 4, .filter = ask };
    (void)facts;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0)
        return done_unless_negative(chmod("file", 0777));
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_fchmodat, -100, "file", 0777);
        _exit(0);
    }
    struct seccomp_notif request = { 0 };
    struct seccomp_notif_resp go_on = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
    if (syscall(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0)
        return REFUSED;
    go_on.id = request.id;
    syscall(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
    usleep(50000);
    return DONE;
}

static int own_ruleset(const struct facts *facts)
{
    struct {
        uint64_t handled;
    } attributes = { .handled = 4 /* reading files */ };
    int ruleset = (int)syscall(444 /* landlock_create_ruleset */, &attributes, sizeof attributes, 0);
    if (ruleset < 0)
        return done_or_absent(-1, "Landlock");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(446 /* landlock_restrict_self */, ruleset, 0);
    return mark_path(facts, "file", 0);
}

static const struct attack list[] = {
    { "nested-launcher", "own", "moonsand-launch that grants the whole tree", NULL,
      "\"$LAUNCHER\" --ro / --rw / -- /bin/sh -c 'echo \"$NAME\" >\"$OWN/file\"'", 0 },
    { "nested-launcher-chmod", "own", "the same, and a chmod for its broker", NULL,
      "\"$LAUNCHER\" --ro / --rw / -- /bin/chmod 777 \"$OWN/file\"", 0 },
    { "nested-launcher-open", "own", "moonsand-launch that confines nothing", NULL,
      "\"$LAUNCHER\" -- /bin/chmod 777 \"$OWN/file\"", 0 },
    { "nested-bwrap", "own", "bwrap that binds everything", NULL,
      "command -v bwrap >/dev/null || { echo bwrap is not installed; exit 77; }; bwrap --bind / / /bin/sh -c 'echo "
      "\"$NAME\" >\"$OWN/file\"'",
      0 },
    { "nested-unshare", "own", "unshare(1) with a mount namespace, and a remount", NULL,
      "unshare -Urm sh -c 'mount -o remount,bind,rw /; echo \"$NAME\" >\"$OWN/file\"'", 0 },
    { "nested-filter", "own", "a seccomp filter of its own that allows all", own_filter, NULL, 0 },
    { "nested-listener", "own", "a seccomp listener of its own that says: go on", own_listener, NULL, 0 },
    { "nested-ruleset", "own", "a Landlock ruleset of its own", own_ruleset, NULL, 0 },
};

FAMILY(nested_family, "nested", list);
