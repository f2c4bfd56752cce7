#!/bin/bash
# koboshi-train by hand: it learns; a run that is stopped, killed or loses its
# newest checkpoint ends with the same weights, bit for bit, as one that is
# not; on one rank and on two; mistakes end it with what to do.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
cd "$TMP" || exit 1
unset "${!KOBOSHI_@}" "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}" RANK WORLD_SIZE
STEPS=24

# Real text, by paragraphs.
awk -v RS= '{ file = sprintf("doc%04d.txt", NR); print > file; close(file) }' \
    "$HERE/../../DESIGN.md" "$HERE/../../runner/plan/rows.c"
ok "a token file" "$BUILD/koboshi" data build --quiet --tokenizer byte \
    --append-eod --output "$TMP/text" doc*.txt

# config DIR [KEY=VALUE...]: run.yaml for a run in DIR.
config() {
    local dir=$1
    shift
    cat >"$dir.yaml" <<YAML
run: {dir: $TMP/$dir}
model: {preset: llama-micro}
data: {train: [$TMP/text], split: "80,20,0"}
train: {steps: $STEPS, seq_len: 64, global_batch: 8, micro_batch: 2}
optim: {lr: 3e-3, warmup_steps: 4, decay_steps: $STEPS}
eval: {interval: 12, batches: 1}
log: {interval: 1}
checkpoint: {interval: 8}
guard: {healthy_after: 3}
system: {blas_threads: 1}
YAML
    : >"$dir.set"
    printf '%s\n' "$@" >>"$dir.set"
}

# train DIR [RANKS]: its output to DIR.log; its exit code.
train() {
    local launch=()
    [ "${2:-1}" = 1 ] || launch=(mpirun --allow-run-as-root --oversubscribe
        --bind-to none --mca btl "self,vader" -n "$2")
    KOBOSHI_SET=$(cat "$1.set") timeout 100 "${launch[@]}" \
        "$BUILD/koboshi-train" --config "$1.yaml" >>"$1.log" 2>&1
}

digest() { "$BUILD/koboshi" ckpt digest --run-dir "$1" "${2:-$STEPS}" 2>&1 | cut -d' ' -f1; }
losses() { # of each step, by its last attempt
    cat "$1"/attempts/*/metrics.jsonl | jq -r '[.step, .loss] | @tsv' |
        sort -k1n -s | awk '{ last[$1] = $2 } END { for (s in last) print s, last[s] }' |
        sort -n
}

# ---- One rank ---------------------------------------------------------------
config straight
train straight
is $? 0 "a run ends"
like "$(head -n 3 straight.log)" "unsupervised" "and says that it is unsupervised"
like "$(cat straight.log)" "[0-9]+ parameters" "and how many parameters"
like "$(cat straight.log)" "memory a rank: total" "and the memory plan"
first=$(losses straight | head -n 1 | cut -d' ' -f2)
last=$(losses straight | tail -n 1 | cut -d' ' -f2)
ok "the loss falls from $first to $last" jq -en "$last < $first - 0.7"
is "$(jq -s 'map(select(.valid_loss)) | length' straight/attempts/0001/metrics.jsonl)" \
    2 "two validations"
is "$(jq .step straight/attempts/0001/status.json)" $STEPS "status.json has the step"
ok "TensorBoard's file is there" test -s straight/tb/events.out.tfevents.*
want=$(digest straight)
like "$want" "^[0-9a-f]+" "its weights have a digest"
train straight
is $? 0 "once more: nothing is left to do"
like "$(tail -n 1 straight.log)" "all $STEPS steps were there" "and it says so"
is "$(ls straight/attempts)" $'0001\n0002' "each start is an attempt"

config again
train again
is "$(digest again)" "$want" "the same plan gives the same bits"

# Threads of a rank are those of the first start, whatever host comes next.
config cores train.steps=1
sed -i '/blas_threads/d' cores.yaml
taskset -c 0 bash -c "$(declare -f train); BUILD=$BUILD; train cores"
echo 'older: {key: 1}' >>cores/run.yaml
train cores
is "$(grep -c ' 1 threads a rank' cores.log)" 2 "threads of a rank stay those of the first start"

config half train.steps=12
train half
is $? 0 "half of the steps"
config half
train half
is "$(digest half)" "$want" "and the other half: the same bits"
is "$(losses half)" "$(losses straight)" "and the same losses"
like "$(cat half.log)" "resumed from checkpoint step-0*12" "by the checkpoint"
is "$(ls half/ckpt | grep -c a0001)" 2 "older checkpoints stay"

# rank_of DIR: a process of the run (the pattern leaves timeout and mpirun out).
rank_of() { pgrep -n -f -- "^$BUILD/koboshi-train --config $1.yaml"; }
# on_step DIR N SIGNAL: the signal once step N is logged; steps are short, so
# that it looks often.
on_step() {
    (for ((i = 0; i < 6000; i++)); do
        ! grep -Eq "iteration +$2/" "$1.log" || break
        sleep 0.01
    done
    kill -"$3" "$(rank_of "$1")") &
}
config stopped
on_step stopped 5 USR1
train stopped
is $? 10 "USR1: saved, exit 10"
nok "before the end" test -d stopped/ckpt/step-00000000$STEPS.a0001
on_step stopped 13 KILL
train stopped
is $? 137 "killed"
train stopped
is "$(digest stopped)" "$want" "stopped and killed: the same bits"

config damaged train.steps=16
train damaged
printf X | dd of="$(ls -d damaged/ckpt/step-*16.a0001/shard-*)" bs=1 seek=4000 \
    conv=notrunc 2>/dev/null
config damaged
train damaged
is $? 0 "the newest checkpoint is damaged: the run goes on"
like "$(cat damaged.log)" "resumed from checkpoint step-0*8\.a0001" "from the older one"
ok "the damaged one is in quarantine" ls damaged/ckpt/quarantine/*.reason
is "$(digest damaged)" "$want" "the same bits"
ok "a checkpoint was proved healthy" ls damaged/ckpt/step-*/healthy.json

for f in damaged/ckpt/step-*/shard-*; do truncate -s 1000 "$f"; done
train damaged
is $? 17 "all are damaged: it stops"
like "$(tail -n 1 damaged.log)" "none|valid" "and says why"

# ---- The guard --------------------------------------------------------------
# Deviations so small that ordinary steps are called anomalies.
config wild guard.window=8 guard.sigma=0 train.steps=16
train wild
config wild guard.window=8 guard.sigma=0.001 guard.skip_steps=4 train.steps=80
train wild
is $? 11 "too many anomalies: exit 11"
like "$(grep anomaly wild.log)" "anomaly, update skipped" "skipped first"
ok "what to leave out is written down" test -s wild/attempts/0002/rollback.json
bad=$(jq .step wild/attempts/0002/rollback.json)
config wild guard.window=8 guard.sigma=0
train wild
is $? 0 "the next attempt goes on"
like "$(grep leaving wild.log)" "leaving out 32 samples" "without that data"
from=$(grep -o "resumed from checkpoint step-[0-9]*" wild.log | tail -n 1 | grep -o "[0-9]*$")
ok "from a checkpoint before step $bad: $from" test "$((10#$from))" -lt "$bad"
ok "that was proved healthy" ls "wild/ckpt/step-$from".a*/healthy.json

# ---- Two ranks --------------------------------------------------------------
config two
train two 2
is $? 0 "two ranks end"
pair=$(digest two)
apart=$(paste <(losses straight) <(losses two) |
    awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > m) m = d } END { print m }')
ok "with one rank's losses, to rounding ($apart)" jq -en "$apart < 1e-3"
config two_halves train.steps=12
train two_halves 2
config two_halves
train two_halves 2
is "$(digest two_halves)" "$pair" "two ranks resumed: the same bits"
train two_halves 1
is $? 0 "one rank loads what two have saved"
config grown train.steps=12
train grown
config grown
train grown 2
is $? 0 "two ranks go on with what one has saved"
like "$(cat grown.log)" "resumed from checkpoint step-0*12" "from its checkpoint"

config lost train.steps=100000 checkpoint.interval=50
(wait_until 60 grep -Eq "iteration +10/" lost.log &&
    kill -KILL "$(rank_of lost)") &
train lost 2
nok "a rank is killed: the run does not hang" test $? = 124

# ---- Text -------------------------------------------------------------------
a=$("$BUILD/koboshi" generate --run-dir straight --prompt "The " --tokens 20 --seed 1)
b=$("$BUILD/koboshi" generate --run-dir straight --prompt "The " --tokens 20 --seed 1)
like "$a" "^The " "a prompt is continued"
is "$a" "$b" "by the seed"
nok "not past the model's positions or without a run" \
    "$BUILD/koboshi" generate --run-dir nowhere --prompt x

# ---- Mistakes ---------------------------------------------------------------
"$BUILD/koboshi-train" >none.log 2>&1
is $? 2 "no configuration: exit 2"
like "$(cat none.log)" "--config" "naming the option"
config wrong optim.learning_rate=1
train wrong
is $? 2 "an unknown key: exit 2"
like "$(cat wrong.log)" "optim.lr" "naming the nearest"
config nodata data.train="$TMP/absent"
train nodata
is $? 2 "no token file: exit 2"
like "$(cat nodata.log)" "absent" "naming it"
ok "the help" "$BUILD/koboshi-train" --help
like "$("$BUILD/koboshi-train" --print-blas-core)" "^[A-Za-z0-9]+$" "the BLAS core type"
# ---- Trackers ---------------------------------------------------------------
config tracked log.mlflow_uri=http://127.0.0.1:1
train tracked
is $? 0 "a run whose MLflow server is away ends"
like "$(cat tracked.log)" "mlflow: cannot reach" "and says so"
is "$(digest tracked)" "$(digest straight)" "with the same weights"
tap_done
