#!/bin/bash
# Warm-ups of the batch and of the length over several ranks: the steps are
# those of one rank, also where a step's micro-batches do not divide, on data
# parallel ranks with the optimizer's state sharded and on tensor parallel ones;
# and a run that stops on the way goes on as if it had not.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
cd "$TMP" || exit 1
unset "${!KOBOSHI_@}" "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}" RANK WORLD_SIZE

ok "a token file" "$BUILD/koboshi" data build --quiet --tokenizer byte \
    --append-eod --output "$TMP/text" "$HERE/../../DESIGN.md"

# train DIR RANKS STEPS [KEY=VALUE...]
train() {
    local dir=$1 ranks=$2 steps=$3
    shift 3
    cat >"$dir.yaml" <<YAML
run: {dir: $TMP/$dir}
model: {family: llama, layers: 2, hidden_size: 32, heads: 4, kv_heads: 2, ffn_size: 48, vocab_size: 263}
data: {train: [$TMP/text]}
train:
  {steps: $steps, seq_len: 33, global_batch: 14, micro_batch: 2,
   batch_warmup_start: 6, batch_warmup_increment: 4, batch_warmup_samples: 30,
   seq_warmup_start: 9, seq_warmup_increment: 8, seq_warmup_steps: 6}
optim: {lr: 3e-3, warmup_steps: 2, decay_steps: 8}
log: {interval: 1}
checkpoint: {interval: 3}
system: {blas_threads: 1}
YAML
    KOBOSHI_SET=$(printf '%s\n' train.precision=fp64 "$@") timeout 100 mpirun \
        --allow-run-as-root --oversubscribe --bind-to none \
        --mca btl "self,vader" -n "$ranks" "$BUILD/koboshi-train" \
        --config "$dir.yaml" >>"$dir.log" 2>&1 ||
        tail -n 3 "$dir.log" | sed 's/^/# /'
}

# of DIR COLUMNS: of each step, in order.
of() {
    cat "$1"/attempts/*/metrics.jsonl | jq -r "[.step, $2] | @tsv" | sort -n
}
apart() { # the largest difference of two runs' losses
    paste <(of "$1" .loss) <(of "$2" .loss) |
        awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > m) m = d }
             NF == 4 { n++ } END { print n == 8 ? m + 0 : 1 }'
}

train one 1 8
# 6 6 6 10 ...: by the samples drawn before; 9 9 17 17 25 25 33 33 tokens.
is "$(of one .consumed_samples | cut -f2 | xargs)" "6 12 18 28 38 52 66 80" \
    "the batch grows"
is "$(of one .consumed_tokens | cut -f2 | xargs)" \
    "54 108 210 380 630 980 1442 1904" "the sequences grow"
train two 2 8
train three 3 8 parallel.shard_optimizer=true
train tensor 2 8 parallel.tensor=2
for run in two three tensor; do
    is "$(of $run ".consumed_samples, .consumed_tokens")" \
        "$(of one ".consumed_samples, .consumed_tokens")" "$run: the same sizes"
    ok "$run: one rank's losses, to rounding ($(apart one $run))" \
        jq -en "$(apart one $run) < 1e-12"
done
train stopped 2 3
train stopped 2 8
like "$(cat stopped.log)" "resumed from checkpoint step-0*3" "stopped on the way"
is "$(of stopped .loss)" "$(of two .loss)" "and went on with the same losses"
train fewer 3 3
train fewer 2 8
like "$(cat fewer.log)" "resumed from checkpoint step-0*3" "a rank less on the way"
ok "and one rank's losses, to rounding ($(apart one fewer))" \
    jq -en "$(apart one fewer) < 1e-12"
tap_done
