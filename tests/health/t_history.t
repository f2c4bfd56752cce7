#!/bin/bash
# What a node remembers: a lemon is told after three jobs that each found another
# fault; the counters of one look are the next one's baseline.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
health=${CLUSTER_BUILD:-$here/../../build}/koboshi-health
[ -x "$health" ] || skip_all "koboshi-health is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
file=$scratch/state/history.json

# look HOST OPTIONS...: a recorded host, with the history.
look() {
    rm -rf "$scratch/host"
    cp -r "$here/hosts/good" "$scratch/host"
    cp -r "$here/hosts/$1/." "$scratch/host"
    shift
    timeout 20 "$health" --replay "$scratch/host" --history "$file" "$@" 2>&1
}
look gpu-good >/dev/null
is $? 0 "the folder is made"
like "$(cat "$file")" '"GPU-recorded-7"' "and counters are kept"
is "$(find "$scratch/state" -perm /077)" "" "for nobody else to read"
nok "a job without trouble" grep -q node-lemon <<<"$(look gpu-good --job 1)"
nok "one that lost a GPU" grep -q node-lemon <<<"$(look gpu-lost --job 2)"
nok "one with memory errors" grep -q node-lemon <<<"$(look memory-errors --job 3)"
like "$(look good --job 4 --suspect suspect-hang)" \
    "^warn +node-lemon node: .*\((gpu-lost, mem-ecc-uncorrected, suspect-hang|.*suspect-hang)\)" \
    "and one that hung: a lemon"
like "$(look good --job 5 --suspect suspect-hang)" "^gpu-node-7: ok" "not by the same again"
like "$(look gpu-grows --json)" 'gpu-pcie-replays' "growth against the last look"
"$health" --job 5 >/dev/null 2>&1
is $? 2 "a job needs a history"
like "$("$health" --replay "$scratch/host" --history /proc/none/x 2>&1)" \
    "^info +history-broken node" "one that cannot be written is told"
tap_done
