#!/bin/bash
# A run goes on in another layout than it was saved in, with real ranks: its
# losses and gradient norms are those of the single rank that was never stopped
# (fp64, 1e-10). tests/ckpt/test_any has every pair, all ranks played in one
# process. With KOBOSHI_TEST_LONG six pairs, else two.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
unset "${!KOBOSHI_@}" "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}" RANK WORLD_SIZE

ok "a token file" "$BUILD/koboshi" data build --quiet --tokenizer byte \
    --append-eod --output "$TMP/text" "$HERE/../../DESIGN.md"

# train DIR STEPS TENSOR PIPELINE DATA CHUNKS
train() {
    cat >"$TMP/$1.yaml" <<YAML
run: {dir: $TMP/$1}
model: {family: llama, layers: 5, hidden_size: 40, heads: 12, kv_heads: 2, head_dim: 4, ffn_size: 36, vocab_size: 263, tied: true}
data: {train: [$TMP/text]}
train: {steps: $2, seq_len: 33, global_batch: 14, micro_batch: 2, precision: fp64}
optim: {lr: 3e-3, warmup_steps: 2, decay_steps: 8, clip: 0.5}
log: {interval: 1, tensorboard: false}
guard: {sigma: 0}
parallel: {tensor: $3, pipeline: $4, chunks: $6}
checkpoint: {interval: 4}
system: {blas_threads: 1}
YAML
    timeout 120 mpirun --allow-run-as-root --oversubscribe --bind-to none \
        --mca btl "self,vader" -n $(($3 * $4 * $5)) "$BUILD/koboshi-train" \
        --config "$TMP/$1.yaml" </dev/null >>"$TMP/$1.log" 2>&1 ||
        tail -n 3 "$TMP/$1.log" | sed 's/^/# /'
}
losses() {
    cat "$TMP/$1"/attempts/*/metrics.jsonl | jq -r '[.step, .loss, .grad_norm] | @tsv' | sort -n -s
}
off() { # A B: the largest relative difference of both columns; their lines
    paste <(losses "$1") <(losses "$2") | awk '
        { for (c = 2; c <= 3; c++) {
            d = ($c - $(c + 3)) / $c; if (d < 0) d = -d; if (d > m) m = d } }
        END { printf "%.2g %d\n", m, NR }'
}

train one 8 1 1 1 1
pairs=("2 2 1 1:1 1 3 1" "1 2 2 2:4 1 1 1")
[ -z "${KOBOSHI_TEST_LONG:-}" ] ||
    pairs+=("2 1 3 1:1 3 1 1" "1 5 1 1:2 1 2 1" "4 2 1 1:1 1 5 1" "1 1 7 1:2 2 2 1")
for pair in "${pairs[@]}"; do
    rm -rf "$TMP/two"
    # shellcheck disable=SC2086
    train two 4 ${pair%:*}
    # shellcheck disable=SC2086
    train two 8 ${pair#*:}
    like "$(cat "$TMP/two.log")" "resumed from checkpoint step-0*4" "saved as ${pair%:*}, goes on as ${pair#*:}"
    read -r difference lines < <(off one two)
    ok "8 steps are those of one rank ($difference)" \
        jq -en "$difference < 1e-10 and $lines == 8"
    : >"$TMP/two.log"
done
tap_done
