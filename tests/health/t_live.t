#!/bin/bash
# Findings of living machines only: folders that cannot be written, as root and
# as an ordinary user, and a kernel log that such a user may not read.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
health=${CLUSTER_BUILD:-$here/../../build}/koboshi-health
[ -x "$health" ] || skip_all "koboshi-health is not built"
[ "$(id -u)" = 0 ] || skip_all "needs root"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
cp "$health" "$scratch/koboshi-health" # where everybody may go
health=$scratch/koboshi-health
# site KEY: VALUE...: a site's file.
site() { printf '%s\n' "$@" >"$scratch/site.yaml"; }
# look OPTIONS...: one look at this machine by the site's file.
look() { timeout 20 "$health" --expect "$scratch/site.yaml" "$@" 2>&1; }
as_nobody() { timeout 20 setpriv --reuid=65534 --regid=65534 --clear-groups "$health" "$@" 2>&1; }
# isolated COMMANDS: in a mount namespace of its own, then a look.
isolated() { unshare --mount sh -c "mount --make-rprivate /; $1; exec $health"; }

site "disk:" "  paths: [$scratch/none]"
like "$(look)" "^drain +disk-absent $scratch/none" "a folder that is not there"
like "$(isolated 'mount -t tmpfs -o ro none /var/tmp')" \
    "^drain +disk-write-fails /var/tmp: .*Read-only" "root cannot write"
like "$(isolated 'mount -t tmpfs -o size=4k none /var/tmp; echo x >/var/tmp/x')" \
    "^warn +disk-write-refused /var/tmp: .*No space" "no room for root"

like "$(as_nobody --user --run-dir /root/none)" "^fail +user-dir-refused /root/none" \
    "a folder that the user may not enter"
like "$(as_nobody --user --run-dir "$scratch/none")" "^fail +user-dir-broken $scratch/none" \
    "a folder that this node lacks"
mkdir -m 777 "$scratch/run"
site "user:" "  write_mb_per_s: 1000000"
like "$(as_nobody --user --run-dir "$scratch/run" --expect "$scratch/site.yaml")" \
    "^warn +user-dir-slow $scratch/run" "a slow one"
is "$(ls -A "$scratch/run")" "" "nothing is left there"

# kernel.dmesg_restrict is the machine's: where it is 0, a file of root's alone
# stands for the log.
restrict=
[ "$(cat /proc/sys/kernel/dmesg_restrict)" = 1 ] ||
    restrict="touch $scratch/kmsg; chmod 600 $scratch/kmsg; mount --bind $scratch/kmsg /dev/kmsg;"
out=$(unshare --mount sh -c "mount --make-rprivate /; $restrict exec timeout 20 setpriv \
    --reuid=65534 --regid=65534 --clear-groups $health --json --verdict" 2>"$scratch/verdict")
rc=$?
like "$(tr -d '\n' <<<"$out")" '"code": "klog-unreadable",[^}]*"severity": "unknown"' \
    "an ordinary user's look: the log is unknown"
like "$(cat "$scratch/verdict")" "^(unknown|warn) " "and that is no bad news"
is $rc 0 "nor a reason to keep a job away"
tap_done
