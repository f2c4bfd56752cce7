#!/bin/bash
# Each example of templates/ is a plan that works where its head says so: the
# nodes and GPUs of its sbatch line, H200, any data.
tree=$(cd "$(dirname "$0")/../.." && pwd)
. "$tree/tests/tap.sh"
koboshi=${CLUSTER_BUILD:-$tree/build}/koboshi
[ -x "$koboshi" ] || { echo "1..0 # SKIP koboshi is not built"; exit 0; }
for name in $(compgen -e | grep -E '^(SLURM|SBATCH|KOBOSHI)_'); do unset "$name"; done
export SLURM_CONF=/nowhere/slurm.conf

for file in "$tree"/templates/*.yaml; do
    name=${file##*/}
    line=$(sed -n 's/^# *\(sbatch .*\)/\1/p' "$file")
    like "$line" "--llm-train=$name " "$name names itself in its sbatch line"
    nodes=$(sed -n 's/.*-N \([0-9]*\).*/\1/p' <<<"$line")
    gpus=$(sed -n 's/.*--gpus-per-node=\([0-9]*\).*/\1/p' <<<"$line")
    out=$("$koboshi" plan --submit --nodes "$nodes" --gpus-per-node "${gpus:-0}" \
        ${gpus:+--gpu H200} $([ -n "$gpus" ] || echo --memory-per-rank 2G) \
        --set data.train=/no-such-mount/x --set run.dir=/no-such-mount/run \
        ${gpus:+--set data.valid=/no-such-mount/y} "$file" 2>&1)
    is $? 0 "$name is a plan that works"
    is "$(grep -vE 'cannot be seen from here|: tight$' <<<"$out" | grep -c '^plan: ')" 0 \
        "$name gives no warning" || diag "$out"
done
tap_done
