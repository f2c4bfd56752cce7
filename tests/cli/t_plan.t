#!/bin/bash
# koboshi plan as a user and as sbatch call it: what it says, where, how fast.
tree=$(cd "$(dirname "$0")/../.." && pwd)
. "$tree/tests/tap.sh"
koboshi=${CLUSTER_BUILD:-$tree/build}/koboshi
[ -x "$koboshi" ] || { echo "1..0 # SKIP koboshi is not built"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
for name in $(compgen -e | grep -E '^(SLURM|SBATCH|KOBOSHI)_'); do unset "$name"; done
export SLURM_CONF=$dir/no-slurm.conf

seq 20000 >text.txt
"$koboshi" data build --quiet --tokenizer byte --output corpus text.txt >/dev/null
cat >run.yaml <<'YAML'
run: {dir: out}
data: {train: corpus}
model: {preset: llama-nano}
train: {steps: 100, global_batch: 8, micro_batch: 4}
YAML

out=$("$koboshi" plan --nodes 2 2>err); rc=$?
is $rc 0 "a good run.yaml of the current folder is planned"
like "$out" '^ranks +2 on 2 nodes' "the plan is printed"
like "$out" "$dir/corpus" "paths are absolute"
is "$(cat err)" "" "and nothing is warned of"

out=$("$koboshi" plan --submit --nodes=3 "$dir/run.yaml" 2>err); rc=$?
is $rc 2 "a bad batch is refused"
is "$out" "" "without a plan"
like "$(cat err)" "^plan: $dir/run.yaml:4: 'train.global_batch': 8 is too few .*; give 12" \
    "with file, line, key, cause and fix"

"$koboshi" plan --set model.layerz=3 --set optim.lr=x --set train.steps=0 >said 2>err; rc=$?
is $rc 2 "several mistakes are refused"
is "$(grep -c . err)" 3 "a line each"
is "$(cat said)" "" "and nothing else"

# A tokenizer's file: all bytes, "lo" and an end of document.
{
    printf '{"model":{"type":"BPE","vocab":{'
    next=256
    for b in $(seq 0 255); do
        code=$b
        if ((b < 33 || (b > 126 && b < 161) || b == 173)); then
            code=$next next=$((next + 1))
        fi
        printf '"\\u%04x":%d,' $code "$b"
    done
    printf '"lo":256},"merges":[["l","o"]]},'
    printf '"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},'
    printf '"added_tokens":[{"id":299,"content":"<|endoftext|>"}]}\n'
} >tok.json
cat >tok.yaml <<'YAML'
run: {dir: out}
data: {train: corpus, tokenizer: tok.json}
model: {preset: llama-nano}
train: {steps: 100, global_batch: 8, micro_batch: 4}
YAML
out=$("$koboshi" plan --dump tok.yaml 2>err); rc=$?
is $rc 0 "a tokenizer's file is planned with"
like "$out" "vocab_size: 300 +# tokenizer $dir/tok.json" "its size is the vocabulary's"
like "$out" "eod_token: 299 +# tokenizer $dir/tok.json" "its end of document is the data's"
"$koboshi" plan --set model.vocab_size=280 --set data.eod_token= tok.yaml >said 2>err; rc=$?
like "$(cat err)" "280, but '$dir/tok.json' has 300 tokens" "a smaller vocabulary is warned of"
"$koboshi" plan --set data.tokenizer=gone.json tok.yaml >said 2>err; rc=$?
is $rc 2 "an absent tokenizer is refused"
like "$(cat err)" "'data.tokenizer': '$dir/gone.json' cannot be seen from here" "by name"
"$koboshi" plan --submit --nodes=1 --set data.tokenizer=gone.json tok.yaml >said 2>err; rc=$?
is $rc 0 "but at submit it may be on the nodes"
echo '{}' >bad.json
"$koboshi" plan --submit --nodes=1 --set data.tokenizer=bad.json tok.yaml >said 2>err; rc=$?
is $rc 2 "a bad one is refused at submit too"
like "$(cat err)" "'data.tokenizer': .*no model.vocab" "with the cause"

export KOBOSHI_SET=$'train.steps=7\noptim.lr=0.5' KOBOSHI_SPARES=1
out=$("$koboshi" plan --nodes 3 --dump --set optim.lr=0.25 2>err)
unset KOBOSHI_SET KOBOSHI_SPARES
like "$out" '^  steps: 7  # --llm-set' "the environment is over the file"
like "$out" '^  lr: 0.25  # --set' "the command line is over both"
like "$out" '^  spares: 1  # --llm-spares' "options of sbatch are keys"
like "$out" '^  layers: 4  # preset llama-nano' "the preset is told"
echo "$out" >again.yaml
is "$("$koboshi" plan --nodes 3 again.yaml)" "$("$koboshi" plan --nodes 3 \
    --set optim.lr=0.25 --set train.steps=7 --set recovery.spares=1)" \
    "a dump is a run.yaml with the same plan"

"$koboshi" plan --dump >dumped.yaml
is "$("$koboshi" plan --time-limit 200 dumped.yaml 2>&1)" \
    "$("$koboshi" plan --time-limit 200 run.yaml 2>&1)" \
    "a default that was dumped is still a default"

printf 'run: {dir: out}\nnotify: {webhook_token: abc123}\n' >secret.yaml
nok "a secret is not printed" bash -c "$koboshi plan --dump secret.yaml 2>&1 | grep abc123"

out=$("$koboshi" plan --submit --array run.yaml 2>&1); rc=$?
is $rc 2 "a job array with one run directory is refused"
like "$out" '%a' "and told how"
out=$(SLURM_ARRAY_TASK_ID=5 "$koboshi" plan --set run.dir=out/%a)
like "$out" "$dir/out/5" "%a is the task's number"

out=$("$koboshi" plan --submit --nodes 2 --set data.train=/no-such-mount/x run.yaml 2>err); rc=$?
is $rc 0 "what this host cannot see does not refuse a submit"
like "$(cat err)" "^plan: --set: 'data.train': '/no-such-mount/x' cannot be seen from here" \
    "but warns"
nok "and is refused without --submit" "$koboshi" plan --nodes 2 --set data.train=/no-such-mount/x

start=$(date +%s%N)
for _ in 1 2 3 4 5; do "$koboshi" plan --submit --nodes 2 run.yaml >/dev/null; done
ms=$((($(date +%s%N) - start) / 5000000))
ok "a submit's check takes at most 100 ms ($ms)" [ "$ms" -le 100 ]

nok "no file is refused" "$koboshi" plan /nowhere/run.yaml
nok "an unknown option is refused" "$koboshi" plan --frobnicate
nok "a bad number is refused" "$koboshi" plan --nodes many
like "$("$koboshi" plan --nodes many 2>&1)" "'many' is not an integer" "and said so"
ok "help plan" "$koboshi" help plan
nok "an unknown verb is refused" "$koboshi" plam
like "$("$koboshi" plam 2>&1)" "did you mean 'plan'" "naming the nearest"
is "$("$koboshi" plan --presets | wc -l)" 12 "presets are listed"
nok "a full disk is not success" bash -c "'$koboshi' plan --keys >/dev/full"
tap_done
