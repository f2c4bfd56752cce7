#!/bin/bash
# koboshi ckpt on checkpoints of a real training run: list, show, verify,
# digest, export; and what a damaged one looks like.
. "$(dirname "$0")/../tap.sh"
tree=$(cd "$(dirname "$0")/../.." && pwd)
build=${CLUSTER_BUILD:-$tree/build}
koboshi=$build/koboshi
[ -x "$koboshi" ] && [ -x "$build/koboshi-train" ] ||
    skip_all "koboshi or koboshi-train is not built"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

seq 1 3000 | sed 's/.*/line number & of a text that is learned/' >"$dir/text.txt"
"$koboshi" data build --tokenizer byte --append-eod --output "$dir/tok" \
    "$dir/text.txt" >/dev/null 2>&1
cat >"$dir/run.yaml" <<END
run: {dir: $dir/run}
data: {train: $dir/tok, tokenizer: byte}
model: {preset: llama-nano}
train: {steps: 4, seq_len: 32, global_batch: 4, micro_batch: 4}
checkpoint: {interval: 2}
END
mkdir "$dir/run"
ok "a run of 4 steps" timeout 60 "$build/koboshi-train" \
    --config "$dir/run.yaml" --run-dir "$dir/run" 2>/dev/null
ckpt() { timeout 60 "$koboshi" ckpt "$@" --run-dir "$dir/run" 2>&1; }

is "$(ckpt list | awk 'NR > 1 {print $1}' | paste -sd ' ')" \
    "step-0000000004.a0001 step-0000000002.a0001" "list: newest first"
is "$(ckpt list --json | jq -r '.[0].state')" good "list as JSON"
timeout 60 "$koboshi" ckpt list --run-dir "$dir/nowhere" >/dev/null 2>&1
is $? 2 "a run directory that is not there"
is "$(ckpt show 2 --json | jq .state.step)" 2 "show a step's state"
ok "show for people" ckpt show 4
is "$(ckpt verify)" "step-0000000004.a0001: valid
step-0000000002.a0001: valid" "verify all"
is "$(ckpt digest | wc -w)" 2 "digest the newest"
is "$(ckpt export --hf "$dir/hf")" \
    "step-0000000004.a0001 exported to $dir/hf" "export"
is "$(jq -r '.architectures[0], .num_key_value_heads' "$dir/hf/config.json" |
    paste -sd ' ')" "LlamaForCausalLM 2" "with a configuration"
# 8 bytes of length, then JSON: tensors under Hugging Face's names.
is "$(tail -c +9 "$dir/hf/model.safetensors" | head -c 12000 | tr -d '\0' |
    grep -oa '"model.layers.[0-9]*.self_attn.q_proj.weight"' | wc -l)" 4 \
    "and weights under their names"
ckpt export --hf "$dir/hf" >"$dir/out"
is $? 2 "never over a model that is there"
ckpt show 3 >"$dir/out"
is $? 2 "a step that is not there"

shard=$(ls "$dir/run/ckpt/step-0000000004.a0001/"shard-* | head -n 1)
printf x | dd of="$shard" bs=1 seek=20000 conv=notrunc 2>/dev/null
out=$(ckpt verify 4)
is $? 11 "verify fails on a changed byte"
ok "and names file and hash" grep -q "$(basename "$shard").*xxh3" <<<"$out"
ckpt digest 4 >"$dir/out"
nok "it has no digest" [ $? = 0 ]
ok "the run goes on from the older one" grep -q "step-0000000002" \
    <(timeout 60 "$build/koboshi-train" --config "$dir/run.yaml" \
        --run-dir "$dir/run" 2>&1)
ok "and the bad one is in quarantine" \
    test -f "$dir/run/ckpt/quarantine/step-0000000004.a0001.reason"
tap_done
