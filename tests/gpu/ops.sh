#!/bin/bash
# ops - check and time every CUDA operation on this machine's GPU.
#
#   tests/gpu/ops.sh BINARY OUT [check|bench]...
#
# BINARY: tests/gpu/test_ops_cuda of a build. Parts run in turn, each within its
# own limit; logs go to OUT; the last lines are a table of verdicts.
bin=$1 out=$2
shift 2
parts=${*:-check bench}
mkdir -p "$out"

verdict() { # name log
    if grep -q '^Bail out\|^not ok' "$2" || ! grep -q '^1\.\.' "$2"; then
        echo "FAIL $1: $(grep -c '^not ok' "$2") not ok, $(grep -c '^ok' "$2") ok"
        grep -v '^ok' "$2" | head -40
    else
        echo "pass $1: $(grep -c '^ok' "$2") ok"
    fi
}

check() {
    for mode in "--dtype f32" "--dtype bf16" "--dtype f16" "--dtype bf16 --grad-bf16" \
        "--dtype bf16 --quick"; do
        log=$out/check-$(echo "$mode" | tr -dc 'a-z0-9').tap
        timeout 120 "$bin" --cuda $mode >"$log" 2>&1
        verdict "check $mode" "$log"
    done
}

bench() {
    timeout 200 "$bin" --cuda --dtype bf16 --bench --quick >"$out/bench-bf16.txt" 2>&1
    cat "$out/bench-bf16.txt"
}

for part in $parts; do
    $part
done
