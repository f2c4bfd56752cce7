#!/bin/bash
# sanitize - every CUDA operation on its small shapes under compute-sanitizer.
#
# usage: sanitize.sh [OPERATION...]      settings as all.sh says; GPU_BIN holds test_ops_cuda
#
# The tools slow kernels down by orders of magnitude and a process hardly loads
# the card: several run at a time. One that is not done within SANITIZE_S (90)
# seconds is told as such. Libraries (cuBLASLt, cuDNN) run under the tools too:
# racecheck does not understand the barriers that cuDNN's attention uses, so its
# hazards are told, and only those where one of our kernels takes part count.
. "$(dirname "$0")/lab.sh"
OPS="linear mlp norm qk attn swiglu embed head adamw fill"
export SANITIZE_S=${SANITIZE_S:-90}

one() { # TOOL OPERATION
    local log=$GPU_OUT/logs/$1-$2.txt rc found ours good=false
    timeout -k 2 "$SANITIZE_S" compute-sanitizer --tool "$1" --error-exitcode 99 \
        "$GPU_BIN/test_ops_cuda" --cuda --dtype bf16 --quick --op "$2" >"$log" 2>&1
    rc=$?
    found=$(grep -o 'ERROR SUMMARY: .*\|RACECHECK SUMMARY: .*' "$log" | tail -n 1)
    grep -q '^1\.\.0' "$log" && return # no such operation
    ours=$(grep 'Race reported' "$log" | grep -vc 'at cudnn_generated')
    { [ $rc = 0 ] || [ "$1 $rc $ours" = "racecheck 99 0" ]; } && [ -n "$found" ] &&
        ! grep -q '^not ok' "$log" && grep -q '^1\.\.' "$log" && good=true
    [ $rc != 124 ] || found="not done in $SANITIZE_S s"
    put sanitize "$1 $2" $good "\"found\": \"${found:-exit $rc}\", \"checks\": $(grep -c '^ok' "$log")"
}
export -f one put
export GPU_BIN GPU_OUT GPU_DEVICE

for tool in memcheck initcheck racecheck; do
    for op in ${*:-$OPS}; do
        had sanitize "$tool $op" || echo "$tool $op"
    done
done | xargs -P "${SANITIZE_JOBS:-8}" -L 1 bash -c 'one "$0" "$1"'
