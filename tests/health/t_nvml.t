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
    [ -f "$folder/gpus" ] && [ ! -d "$folder/sys" ] && [ ! -f "$folder/remove" ] && [ ! -f "$folder/site.yaml" ] || continue
    # A lost GPU has no name there; a failure is made below; a record that is
    # broken is no driver.
    grep -qE '^failure|lost|temprature' "$folder/gpus" && continue
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
# memory is asked only where memory_2 is not there.
calls=$(grep -vx memory <<<"$calls")
node_calls=" init shutdown driver count "
for call in $calls; do
    gpu=3
    [[ $node_calls != *" $call "* ]] || gpu=-1
    # What "I do not have that" means must not be bad news.
    for code in 3 4 13 21 25 26; do
        out=$(FAKE_FAULT="$call $gpu $code" report "$new" --json --verdict)
        like "$(tail -n 1 <<<"$out")" '^(ok|info|warn) ' "$call gives $code" ||
            diag "$(tail -n 1 <<<"$out")"
    done
    for code in 1 2 6 7 10 11 12 14 17 18 19 20 22 23 24 999; do
        out=$(FAKE_FAULT="$call $gpu $code" report "$new" --verdict | tail -n 1)
        case $out in ok*|info*|warn*|unknown*) ;; *) break ;; esac
        out=
    done
    is "$out" "" "$call gives each other error: at most unknown"
    if [ $gpu = 3 ]; then
        like "$(FAKE_FAULT="$call 3 15" report "$new")" "^fail +gpu-lost GPU-recorded-3|^fail +gpu-lost gpu3" \
            "$call says that the GPU is lost"
    fi
    out=$(FAKE_FAULT="$call $gpu crashes" report "$new")
    like "$out" "^unknown probe-crashed gpu.*signal 11, at NVML $call" "$call crashes"
    out=$(FAKE_FAULT="$call $gpu hangs" report "$new" --patience 0.05)
    like "$out" "^unknown probe-hung gpu.*at NVML $call" "$call hangs"
done
tap_done
