#!/bin/bash
# all - the proofs on GPUs, in parts that may be cut short and run again: what a
# part has found already, it does not run a second time.
#
# usage: all.sh [PART...]       parts: grads curves resume sanitize slurm speed
#                               (speed.sh wants arguments); with two GPUs: two
#        all.sh table [FOLDER...]   all results as one table; exit 1 if any is bad
# Each part stays below PART_LIMIT (480) seconds.
#
# Settings, by environment:
#   GPU_BIN     folder of koboshi, koboshi-train and test_ops_cuda
#   GPU_TOKENS  prefix of a token file of GPT-2's vocabulary
#   GPU_OUT     results (*.jsonl in results/), logs
#   GPU_WORK    runs, deleted afterwards (GPU_OUT/work)
#   GPU_DEVICE  cuda, or cpu for a rehearsal
#   PYTHON      with torch, numpy, yaml, safetensors (python3)
here=$(cd "$(dirname "$0")" && pwd)
: "${GPU_OUT:?folder for results}"
export GPU_BIN GPU_TOKENS GPU_OUT PYTHONDONTWRITEBYTECODE=1
if [ "$1" = table ]; then
    shift
    exec "${PYTHON:-python3}" "$here/table.py" "${@:-$GPU_OUT/results}"
fi
for part in "${@:-grads curves resume sanitize}"; do
    for one in $part; do
        if [ -f "$here/$one.py" ]; then
            run=("${PYTHON:-python3}" "$here/$one.py")
        else
            run=("$here/$one.sh")
        fi
        SECONDS=0
        timeout -k 5 "${PART_LIMIT:-480}" "${run[@]}" || echo "# $one: exit $?"
        echo "# $one: $SECONDS s"
    done
done
