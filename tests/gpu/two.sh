#!/bin/bash
# two - a Slurm node a GPU on a machine with two: slurm.sh's cases, two clusters
# side by side; afterwards no GPU memory may be left in use.
#
# usage: two.sh      settings as slurm.sh says, SLURM_CARDS 2; TWO_MEMORY_S (5): how
#                    long the memory may take to come back
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lab.sh"
[ -z "${SLURM_DEBS:-}" ] || . "$here/debs.sh" "$SLURM_DEBS"
unset SLURM_DEBS
export SLURM_CARDS=${SLURM_CARDS:-2}

memory() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null; }

before=$(memory)
"$here/slurm.sh" unbroken killed stopped &
"$here/slurm.sh" one cut linked &
wait
for ((tick = 0; tick < ${TWO_MEMORY_S:-5}; tick++)); do
    sleep 1
    after=$(memory) good=true
    while read -r was is; do
        [ $((is - was)) -le 16 ] || good=false
    done < <(paste <(echo "$before") <(echo "$after"))
    [ $good = false ] || break
done
put two "memory left" $good "\"mib_before\": \"${before//$'\n'/ }\", \"mib_after\": \"${after//$'\n'/ }\""
