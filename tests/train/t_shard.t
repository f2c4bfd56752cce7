#!/bin/bash
# The optimizer's state sharded over data parallel ranks: the same weights and
# losses, bit for bit, as without, on two and three ranks, in fp32 and fp64, with
# sizes that no number of ranks divides; and a checkpoint of either goes on as
# the other, on as many ranks or fewer.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
cd "$TMP" || exit 1
unset "${!KOBOSHI_@}" "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}" RANK WORLD_SIZE

ok "a token file" "$BUILD/koboshi" data build --quiet --tokenizer byte \
    --append-eod --output "$TMP/text" "$HERE/../../DESIGN.md"

LLAMA="family: llama, layers: 3, hidden_size: 40, heads: 5, kv_heads: 1, ffn_size: 56, vocab_size: 263, tied: false"
GPT2="family: gpt2, layers: 2, hidden_size: 24, heads: 3, ffn_size: 40, vocab_size: 259, max_positions: 33"

# train DIR RANKS MODEL STEPS [KEY=VALUE...]
train() {
    local dir=$1 ranks=$2 model=$3 steps=$4
    shift 4
    cat >"$dir.yaml" <<YAML
run: {dir: $TMP/$dir}
model: {$model}
data: {train: [$TMP/text]}
train: {steps: $steps, seq_len: 33, global_batch: 12, micro_batch: 2}
optim: {lr: 3e-3, warmup_steps: 2, decay_steps: 8, clip: 0.5}
log: {interval: 1}
checkpoint: {interval: 4}
system: {blas_threads: 1}
YAML
    KOBOSHI_SET=$(printf '%s\n' "$@") timeout 100 mpirun --allow-run-as-root \
        --oversubscribe --bind-to none --mca btl "self,vader" -n "$ranks" \
        "$BUILD/koboshi-train" --config "$dir.yaml" >>"$dir.log" 2>&1 ||
        tail -n 3 "$dir.log" | sed 's/^/# /'
}

digest() { "$BUILD/koboshi" ckpt digest --run-dir "$1" "$2" 2>&1 | cut -d' ' -f1; }
losses() {
    cat "$1"/attempts/*/metrics.jsonl | jq -r '[.step, .loss, .grad_norm] | @tsv' | sort -n -s
}

same() { # A B STEPS what
    like "$(digest "$1" "$3")" "^[0-9a-f]+" "$1: step $3 is there"
    is "$(digest "$2" "$3")" "$(digest "$1" "$3")" "$4: the same weights and moments"
    is "$(losses "$2" | tail -n 4)" "$(losses "$1" | tail -n 4)" "the same losses and norms"
}

off=parallel.shard_optimizer=false
for ranks in 2 3; do
    train "whole$ranks" $ranks "$LLAMA" 8 $off
    train "cut$ranks" $ranks "$LLAMA" 8
    same "whole$ranks" "cut$ranks" 8 "$ranks ranks"
done
whole=$(sed -n 's/.*memory a rank: *optimizer *//p' whole3.log | head -n 1)
cut=$(sed -n 's/.*memory a rank: *optimizer *//p' cut3.log | head -n 1)
nok "a rank keeps less of the optimizer: $cut, not $whole" test "$whole" = "$cut"
for precision in fp32 fp64; do
    train "gpt2_whole_$precision" 3 "$GPT2" 4 $off train.precision=$precision
    train "gpt2_cut_$precision" 3 "$GPT2" 4 train.precision=$precision
    same "gpt2_whole_$precision" "gpt2_cut_$precision" 4 "GPT-2, $precision"
done
train many 6 "$GPT2" 2
train many_whole 6 "$GPT2" 2 $off
same many_whole many 2 "six ranks, more than a norm has rows"

# A checkpoint of three shards goes on in every way; what comes of it depends
# on the number of ranks alone.
for next in 3:auto 3:false 2:auto 2:false; do
    dir=next_${next/:/_}
    train "$dir" 3 "$LLAMA" 4 optim.decay_steps=8
    train "$dir" "${next%:*}" "$LLAMA" 8 "parallel.shard_optimizer=${next#*:}"
    like "$(cat "$dir.log")" "resumed from checkpoint step-0*4" "$dir resumes"
done
same cut3 next_3_auto 8 "three shards, sharded again"
same cut3 next_3_false 8 "three shards, not sharded then"
same next_2_auto next_2_false 8 "three shards, on two ranks"
train back 3 "$LLAMA" 4 $off
train back 2 "$LLAMA" 8
same next_2_auto back 8 "not sharded, then on two ranks sharded"
apart=$(paste <(losses cut3) <(losses next_2_auto) |
    awk '{ d = $2 - $5; if (d < 0) d = -d; if (d > m) m = d } END { print m + 0 }')
ok "two ranks' losses are three ranks', to rounding ($apart)" jq -en "$apart < 1e-5"
tap_done
