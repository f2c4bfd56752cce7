#!/bin/bash
# koboshi ckpt import: a trained model leaves as Hugging Face's files and comes
# back into a new run with the same bytes, goes on training on one and two
# ranks from its weights, and mistakes are refused by name.
. "$(dirname "$0")/../tap.sh"
tree=$(cd "$(dirname "$0")/../.." && pwd)
build=${CLUSTER_BUILD:-$tree/build}
koboshi=$build/koboshi
[ -x "$koboshi" ] && [ -x "$build/koboshi-train" ] ||
    skip_all "koboshi or koboshi-train is not built"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset "${!KOBOSHI_@}" "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}" RANK WORLD_SIZE

ok "a token file" "$koboshi" data build --quiet --tokenizer byte --append-eod \
    --output "$dir/text" "$tree/DESIGN.md"

# train NAME MODEL STEPS [RANKS]: in $dir/NAME
train() {
    local launch=()
    [ "${4:-1}" = 1 ] || launch=(mpirun --allow-run-as-root --oversubscribe
        --bind-to none --mca btl "self,vader" -n "$4")
    cat >"$1.yaml" <<YAML
run: {dir: $dir/$1}
$2
data: {train: $dir/text}
train: {steps: $3, seq_len: 64, global_batch: 8, micro_batch: 4}
optim: {lr: 3e-3, warmup_steps: 4, decay_steps: 40}
log: {interval: 1}
system: {blas_threads: 1}
YAML
    timeout 100 "${launch[@]}" "$build/koboshi-train" --config "$1.yaml" \
        </dev/null >>"$1.log" 2>&1
}
ckpt() { timeout 60 "$koboshi" ckpt "$@" 2>&1; }
loss() { # of STEP of a run
    jq -r "select(.step == $2).loss" "$1"/attempts/*/metrics.jsonl | tail -n 1
}

SIZES="layers: 2, hidden_size: 48, heads: 4, ffn_size: 96, max_positions: 64, init_std: 0.05"
while read -r name dtype model; do
    train "$name" "model: {$model, $SIZES}" 30
    is $? 0 "$name: a run of 30 steps"
    flags=()
    [ "$dtype" = f32 ] || flags=("--$dtype")
    ckpt export --hf "$name.hf" "${flags[@]}" --run-dir "$name" >/dev/null
    out=$(ckpt import --hf "$name.hf" --run-dir "$name.new")
    is $? 0 "its $dtype weights are imported"
    like "$out" "imported as step-0000000000.a0000" "as step 0"
    is "$(grep -v '^#' <<<"$out")" "$(grep -v '^#' "$name.new/import.yaml")" "the keys are in import.yaml"
    is "$(ckpt verify --run-dir "$name.new")" "step-0000000000.a0000: valid" "a valid checkpoint"
    ckpt export --hf "$name.back" "${flags[@]}" --run-dir "$name.new" >/dev/null
    ok "exported again: the same bytes" cmp "$name.hf/model.safetensors" "$name.back/model.safetensors"
    is "$(jq -r '.dtype // .torch_dtype' "$name.back/config.json")" \
        "$(jq -r '.dtype // .torch_dtype' "$name.hf/config.json")" "and the same dtype is said"
    train "$name.new" "$(sed -n '/^model:/,/^[^ m]/p' "$name.new/import.yaml")" 4 2
    is $? 0 "two ranks go on training"
    like "$(cat "$name.new.log")" "resumed from checkpoint step-0000000000.a0000" "from the import"
    begin=$(loss "$name" 1) end=$(loss "$name" 30) next=$(loss "$name.new" 1)
    ok "its loss goes on: $begin, $end, then $next" jq -en "$next < ($begin + 2 * $end) / 3"
    ckpt export --hf "$name.trained" --run-dir "$name.new" >/dev/null
    ok "and is exported by its run.yaml" jq -e .vocab_size "$name.trained/config.json"
done <<'RUNS'
gpt2 f32 family: gpt2
llama bf16 family: llama, kv_heads: 2, tied: false
llama31 f32 family: llama, rope_scaling: llama3, rope_positions: 32, tied: true
qwen2 f16 family: llama, kv_heads: 1, bias_qkv: true
qwen3 f32 family: llama, qk_norm: true, head_dim: 16
RUNS

out=$(ckpt import --hf gpt2.hf --run-dir gpt2)
is $? 2 "not into a run that is there"
like "$out" "holds a run" "and says so"
cp -r llama.hf odd.hf
jq '. + {sliding_thing: 3}' llama.hf/config.json >odd.hf/config.json
out=$(ckpt import --hf odd.hf --run-dir odd)
is $? 2 "a key that is not known is refused"
like "$out" "sliding_thing" "by name"
nok "and no checkpoint is left" test -e odd/ckpt/step-0000000000.a0000
jq '.num_hidden_layers = 3' llama.hf/config.json >odd.hf/config.json
like "$(ckpt import --hf odd.hf --run-dir odd)" "no tensor 'model.layers.2" "a missing layer is named"
ckpt import --run-dir odd >/dev/null
is $? 2 "where from is asked"
train wrong "model: {family: llama, $SIZES}" 2
ckpt import --hf llama.hf --run-dir other >/dev/null
train other "model: {family: llama, $SIZES, layers: 3}" 2
is $? 2 "another model in run.yaml does not start"
tap_done
