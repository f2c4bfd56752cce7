#!/bin/bash
# GPUs through the driver's library, by one that answers from a record: the
# same report as from the record itself, and every call failing, hanging and
# crashing in turn.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
build=${CLUSTER_BUILD:-$here/../../build}
health=$build/koboshi-health
new=$build/tests/health/libfake_nvml.so
old=$build/tests/health/libfake_nvml_old.so
[ -x "$health" ] && [ -f "$new" ] || skip_all "the stand-in library is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$here/hosts/good" "$scratch/host"
record=$here/hosts/gpu-good/gpus

# report LIBRARY OPTIONS...: without the times.
report() {
    local library=$1
    shift
    timeout 20 "$health" --replay "$scratch/host" --nvml "$library" "$@" 2>&1 |
        sed '1s/, [^,]*$//'
}
for folder in "$here"/hosts/gpu-*/; do
    [ -f "$folder/gpus" ] && [ ! -d "$folder/sys" ] && [ ! -f "$folder/remove" ] && [ ! -f "$folder/site.yaml" ] &&
        [ ! -f "$folder/options" ] && [ ! -f "$folder/facts" ] && [ ! -f "$folder/history.json" ] || continue
    # A lost GPU has no name there; a failure is made below; a record that is
    # broken is no driver.
    grep -qE '^failure|lost|temprature|inforom_bad 1' "$folder/gpus" && continue
    export FAKE_NVML=$folder/gpus
    is "$(report "$new")" "$(sed '$d' "$folder/expected")" \
        "$(basename "$folder") by the library"
done

export FAKE_NVML=$record
like "$(report "$old")" "^gpu-node-7: ok" "a library of 2018 has less to say"
like "$(report /nonexistent.so)" "skipped.*gpu \(no GPU\)" "no library"
echo "not a library" >"$scratch/text.so"
like "$(report "$scratch/text.so")" "skipped.*gpu \(no GPU\)" "not a library"
FAKE_NVML=/nonexistent like "$(FAKE_NVML=/nonexistent report "$new")" \
    "skipped.*gpu \(no GPU\)" "no driver"

calls=$(sed -n 's/^ *F(\([a-z_]*\), .*/\1/p' "$here/../../health/nvml_abi.h")
[ "$(wc -w <<<"$calls")" -gt 30 ]
is $? 0 "calls are known: $(wc -w <<<"$calls")"
# memory is asked only where memory_2 is not there: of the old library, below;
# event_* in a watch only: t_watch.t.
calls=$(grep -vxE 'memory|event_.*' <<<"$calls")
node_calls=" init shutdown driver count "
for call in $calls; do
    gpu=3
    [[ $node_calls != *" $call "* ]] || gpu=-1
    # What "I do not have that" means must not be bad news.
    for code in 3 4 13 21 25 26; do
        out=$(FAKE_FAULT="$call $gpu $code" report "$new" --level full --json --verdict)
        like "$(tail -n 1 <<<"$out")" '^(ok|info|warn) ' "$call gives $code" ||
            diag "$(tail -n 1 <<<"$out")"
    done
    for code in 1 2 5 6 7 8 10 11 12 14 16 17 18 19 20 22 23 24 27 28 29 999; do
        case $call$code in
        init18 | inforom_check14) continue ;; # findings of their own: below
        *16) [ "$gpu" = -1 ] || continue ;;    # a GPU that wants a reset: too
        esac
        out=$(FAKE_FAULT="$call $gpu $code" report "$new" --level full --verdict | tail -n 1)
        case $out in ok*|info*|warn*|unknown*) ;; *) break ;; esac
        out=
    done
    is "$out" "" "$call gives each other error: at most unknown"
    if [ $gpu = 3 ]; then
        like "$(FAKE_FAULT="$call 3 15" report "$new" --level full)" "^fail +gpu-lost GPU-recorded-3|^fail +gpu-lost gpu3" \
            "$call says that the GPU is lost"
    fi
    out=$(FAKE_FAULT="$call $gpu crashes" report "$new" --level full)
    like "$out" "^unknown probe-crashed gpu.*signal 11, at NVML $call" "$call crashes"
    out=$(FAKE_FAULT="$call $gpu hangs" report "$new" --level full --patience 0.05)
    # On a machine that is very busy it may not have come that far.
    grep -q "at NVML $call" <<<"$out" ||
        out=$(FAKE_FAULT="$call $gpu hangs" report "$new" --level full --patience 0.5)
    like "$out" "^unknown probe-hung gpu.*at NVML $call" "$call hangs"
done
out=$(FAKE_FAULT="memory 3 crashes" report "$old" --level full)
like "$out" "^unknown probe-crashed gpu.*signal 11, at NVML memory of" "memory crashes"
out=$(FAKE_FAULT="memory 3 hangs" report "$old" --level full --patience 0.1)
grep -q "at NVML memory" <<<"$out" ||
    out=$(FAKE_FAULT="memory 3 hangs" report "$old" --level full --patience 0.5)
like "$out" "^unknown probe-hung gpu.*at NVML memory of" "memory hangs"
like "$(FAKE_FAULT="memory 3 15" report "$old")" "^fail +gpu-lost" "memory says that the GPU is lost"
like "$(FAKE_FAULT="init -1 18" report "$new")" "^drain +gpu-driver-mismatch node" \
    "the library and the kernel module differ"
like "$(FAKE_FAULT="inforom_check 3 14" report "$new" --level full)" \
    "^drain +gpu-inforom-bad GPU-recorded-3" "a corrupted InfoROM"
like "$(FAKE_FAULT="temperature 3 16" report "$new")" \
    "^drain +gpu-recovery-reset GPU-recorded-3" "a GPU that wants a reset"
like "$(FAKE_FAULT="init -1 9" report "$new" --lent 8)" "^fail +gpu-gres-few node.*lends 8" \
    "no driver where Slurm lends GPUs"
like "$(report /nonexistent.so --lent 8)" "skipped.*gpu" "but other makers' have no such library"
tap_done
