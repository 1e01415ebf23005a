#!/bin/sh
# arena.sh SECONDS COMMAND...: runs COMMAND, as root and for SECONDS at the most, where nothing that it does harms the
# machine, unconfined attacks included: with mounts of its own, a /dev, /dev/shm and /dev/mqueue of its own, IPC objects,
# a host name and processes of its own. The kernel's switches (/proc/sys, /sys, cgroups) have no namespace: they are noted
# before, and put back afterwards, also when COMMAND was killed. With ARENA_LOCK=--exclusive in the environment no other
# arena is there meanwhile. Relies on unshare(1), flock(1) and, for the disk, on a real one below /var/tmp.

marks="/sys/fs/cgroup / /etc /usr /usr/bin /var /var/tmp /var/spool/cron /var/log /home /root /opt /srv /mnt /run /run/lock /boot"
switches="/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/stat_interval /proc/sys/fs/lease-break-time
    /proc/sys/net/ipv4/ip_default_ttl /sys/kernel/mm/ksm/sleep_millisecs /sys/kernel/uevent_helper
    /sys/fs/cgroup/systemd/release_agent /sys/fs/cgroup/memory/memory.swappiness
    /sys/module/printk/parameters/ignore_loglevel /proc/1/oom_score_adj"

node() { mknod -m "$1" "/mnt/dev/$2" "$3" "$4" "$5"; }

enter() {
    set -e
    mount -t tmpfs -o mode=755 arena /mnt
    mkdir /mnt/dev
    mount -t tmpfs -o mode=755 dev /mnt/dev
    node 666 null c 1 3
    node 666 zero c 1 5
    node 666 full c 1 7
    node 666 random c 1 8
    node 666 urandom c 1 9
    node 666 tty c 5 0
    node 600 kmsg c 1 11
    node 600 loop-control c 10 237
    number=$(stat -c %d /var/tmp)
    major=$((number >> 8 & 0xfff))
    [ "$major" = 0 ] || node 600 moonsand-disk b "$major" $((number & 0xff))
    for name in fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
        ln -s "/proc/self/${name#*:}" "/mnt/dev/${name%:*}"
    done
    ln -s pts/ptmx /mnt/dev/ptmx
    mkdir /mnt/dev/pts /mnt/dev/shm /mnt/dev/mqueue
    mount --move /mnt/dev /dev
    umount /mnt
    mount -t devpts -o newinstance,ptmxmode=666,mode=600 devpts /dev/pts
    mount -t tmpfs -o mode=1777 shm /dev/shm
    mount -t mqueue mqueue /dev/mqueue
    mount -t proc proc /proc
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null || true
    # As on a machine that systemd started: what is mounted later reaches those who look from elsewhere.
    mount --make-rshared /
    "$@" # and not exec: this shell is the first process here, and reaps what loses its parent
    exit $?
}

if [ "$1" = --inside ]; then
    shift
    enter "$@"
fi

seconds=$1
shift
# Another run's proofs turn the same switches: they are made while no other arena is there.
exec 9>/var/tmp/moonsand-escape.lock
flock -w 600 "${ARENA_LOCK:---shared}" 9 || exit 1
kept=$(mktemp -d) || exit 1
ARENA=$(mktemp -d /var/tmp/moonsand-escape.XXXXXX) || exit 1
export ARENA
number=0
for switch in $switches; do
    number=$((number + 1))
    cat "$switch" >"$kept/$number" 2>/dev/null || rm -f "$kept/$number"
done

restore() {
    number=0
    for switch in $switches; do
        number=$((number + 1))
        if [ -f "$kept/$number" ] && ! cmp -s "$switch" "$kept/$number"; then
            if [ -s "$kept/$number" ]; then cat "$kept/$number" >"$switch"; else echo >"$switch"; fi
        fi
    done
    unshare --mount --propagation private sh -c '
        mount -t binfmt_misc binfmt_misc /mnt && [ -e /mnt/moonsand-mark ] && echo -1 >/mnt/moonsand-mark' 2>/dev/null
    for place in $marks; do rm -f "${place%/}/moonsand-mark"; done
    find /sys/fs/cgroup -depth -type d -name 'moonsand-mark*' -exec rmdir {} + 2>/dev/null
    chattr -R -a "$ARENA/own" 2>/dev/null
    rm -rf "$ARENA" "$kept"
    for group in /sys/fs/cgroup/*/"${ARENA##*/}" /sys/fs/cgroup/"${ARENA##*/}"; do
        tries=0
        while [ -d "$group" ] && ! rmdir "$group" 2>/dev/null && [ $tries -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.02 # those in it are still ending
        done
    done
}
trap restore EXIT
trap 'exit 1' HUP INT TERM

timeout -s KILL "$seconds" unshare --mount --ipc --uts --pid --fork --kill-child --propagation private \
    sh "$0" --inside "$@" </dev/null 9>&-
