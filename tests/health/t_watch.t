#!/bin/bash
# koboshi-health --watch: the driver's events, the kernel log and the probes'
# rounds, told once and at once, by a stand-in for the driver that can be made
# to report, fail, hang and crash in mid-watch.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
build=${CLUSTER_BUILD:-$here/../../build}
health=$build/koboshi-health
[ -x "$health" ] && [ -f "$build/tests/health/libfake_nvml.so" ] ||
    skip_all "koboshi-health or the stand-in library is not built"
scratch=$(mktemp -d)
watch_pid=
trap 'stop; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
library=$scratch/libnvidia-ml.so.1
cp "$build/tests/health/libfake_nvml.so" "$library"
cp "$health" "$scratch/koboshi-health"
health=$scratch/koboshi-health
host=$scratch/host
export FAKE_NVML=$scratch/gpus FAKE_EVENTS=$scratch/events FAKE_FAULT=$scratch/fault

# begin [OPTIONS...]: a watch of a good host, by "$as" if that is set; "$log" are
# the rights of its kernel log, "$fault" what the driver does wrong from the start.
begin() {
    stop
    rm -rf "$host" "$FAKE_FAULT"
    cp -r "$here/hosts/good" "$host"
    chmod "$log" "$host/dev/kmsg"
    cp "$here/hosts/gpu-good/gpus" "$FAKE_NVML"
    [ -z "$fault" ] || put "$FAKE_FAULT" <<<"$fault"
    : >"$FAKE_EVENTS"
    : >"$scratch/out"
    $as "$health" --watch 1 --replay "$host" --nvml "$library" "$@" \
        >"$scratch/out" 2>"$scratch/err" &
    watch_pid=$!
    await round 3 # the children have come around
}
as=
fault=
log=644
stop() {
    [ -z "$watch_pid" ] || { kill "$watch_pid" 2>/dev/null; wait "$watch_pid"; }
    watch_pid=
}
# A file changes whole, as its reader would have it.
put() { cat >"$1.new" && mv "$1.new" "$1"; }
change() { sed "$2" "$1" | put "$1"; }
# await WORD [N]: within 3 s N lines have it; says how long it took.
await() {
    local n=0 begin
    begin=$(date +%s%N)
    until [ "$(grep -c "$1" "$scratch/out")" -ge "${2:-1}" ]; do
        n=$((n + 1))
        [ $n -lt "${tries:-150}" ] || return 1
        sleep 0.02
    done
    took=$((($(date +%s%N) - begin) / 1000000))
}
found() { grep '"type":"finding"' "$scratch/out" | sed 's/.*"code":"\([^"]*\)".*"severity":"\([^"]*\)","subject":"\([^"]*\)".*/\2 \1 \3/'; }

begin
is "$(found)" "" "a good host: nothing to tell"
echo "79 2" >>"$FAKE_EVENTS"
ok "an Xid 79 is told" await gpu-xid-fatal
[ "${took:-9999}" -lt 2000 ]
is $? 0 "within 2 s ($took ms)"
is "$(found)" "fail gpu-xid-fatal 0000:3b:00" "as what it is"
echo "79 2" >>"$FAKE_EVENTS"
echo "13 1" >>"$FAKE_EVENTS"
ok "an Xid 13" await gpu-xid-app
is "$(found | sort)" "fail gpu-xid-fatal 0000:3b:00
warn gpu-xid-app 0000:2b:00" "is a warning; the other is told once"
change "$FAKE_NVML" 's/^gpu 4 recovery_action .*/gpu 4 recovery_action 2/'
echo "154 4" >>"$FAKE_EVENTS"
ok "an Xid 154: the field says what to do" await "gpu-recovery-reboot"
echo "145 5" >>"$FAKE_EVENTS"
ok "an NVLink fault without a text" await "Xid 145"
like "$(found)" "^info gpu-xid-info 0000:6b:00" "is left to the field, too"
echo "48 6" >>"$FAKE_EVENTS"
ok "an Xid 48" await "Xid 48 without 63 or 64"
change "$FAKE_NVML" 's/^gpu 7 nvlink_errors .*/gpu 7 nvlink_errors 3/'
ok "errors of a link that come in mid-watch" await 'gpu-nvlink-errors'
like "$(grep gpu-nvlink-errors "$scratch/out")" '"evidence":"3 more in' "are growth"
change "$FAKE_NVML" 's/^gpu 0 lost.*//; $a gpu 0 lost 1'
ok "a GPU that is lost" await 'gpu-lost'
echo '[900000.1] NVRM: Xid (PCI:0000:86:00): 64, Row remapping failed' >>"$host/dev/kmsg"
ok "a line of the kernel log" await '0000:86:00'
like "$(found)" "^fail gpu-xid-fatal 0000:86:00" "counts"
mkdir -p "$host/sys/devices/system/edac/mc/mc0"
echo 1 >"$host/sys/devices/system/edac/mc/mc0/ue_count"
echo 0 >"$host/sys/devices/system/edac/mc/mc0/ce_count"
ok "a memory error" await 'mem-ecc-uncorrected'

begin --patience 0.1
echo "event_wait -1 hangs" | put "$FAKE_FAULT"
ok "a driver that hangs while it is waited for" await probe-hung
like "$(found)" "^unknown probe-hung gpu" "is unknown"
like "$(grep probe-hung "$scratch/out")" "at NVML event_wait" "and named"
echo '[900000.1] nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30' >>"$host/dev/kmsg"
ok "the others go on" await nvswitch-sxid
begin --patience 0.1
echo "temperature 3 hangs" | put "$FAKE_FAULT"
ok "a call of a round that hangs" await "at NVML temperature of gpu 3"
begin
echo "temperature 3 crashes" | put "$FAKE_FAULT"
ok "a call that crashes" await 'probe-crashed.*NVML temperature of gpu 3\|NVML temperature of gpu 3.*probe-crashed'
# The calls that begin to listen. event_free is never made here: the child that
# listens is killed, not asked to stop.
for call in "event_create -1" "event_types 3" "event_register 3"; do
    fault="$call hangs"
    begin --patience 0.2
    ok "$fault" await "no word in time, at NVML ${call% *}"
    fault="$call crashes"
    begin
    ok "$fault" await "signal 11, at NVML ${call% *}"
done
fault=
begin
echo "event_wait -1 999" | put "$FAKE_FAULT"
change "$FAKE_NVML" 's/^gpu 2 remap_pending .*/gpu 2 remap_pending 1/'
ok "without events the rounds go on" await gpu-remap-pending
begin --history "$scratch/state/h.json"
echo "94 0" >>"$FAKE_EVENTS"
ok "a contained error" await gpu-xid-app
since=$(date +%s%N)
stop
[ $((($(date +%s%N) - since) / 1000000)) -lt 1500 ]
is $? 0 "it ends at once when told to"
like "$(cat "$scratch/state/h.json")" '"pcie_replays"' "and keeps the counters"

# An ordinary user: the log is unknown, the driver's events come all the same.
if [ "$(id -u)" = 0 ]; then
    log=600
    as="setpriv --reuid=65534 --regid=65534 --clear-groups"
    begin
    like "$(found)" "^unknown klog-unreadable node" "says that it cannot read the log"
    echo "79 2" >>"$FAKE_EVENTS"
    ok "and hears of the Xid" await gpu-xid-fatal
    as=
fi
stop
tap_done
