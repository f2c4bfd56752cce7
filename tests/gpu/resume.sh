#!/bin/bash
# resume - a run killed with SIGKILL in the middle of a step and started again
# ends with the weights of one that nothing befell, bit for bit.
#
# usage: resume.sh [PRESET:PRECISION...]     settings as all.sh says
. "$(dirname "$0")/lab.sh"
STEPS=${RESUME_STEPS:-240} INTERVAL=${RESUME_INTERVAL:-60}

# run NAME PRESET PRECISION: koboshi-train in $GPU_WORK/NAME.
run() {
    printf 'run: {dir: %s}\ndata: {train: %s}\nmodel: {preset: %s}\n' \
        "$GPU_WORK/$1" "$GPU_TOKENS" "$2" >"$GPU_WORK/$1.yaml"
    KOBOSHI_SET="model.vocab_size=50257
train.steps=$STEPS
train.seq_len=${RESUME_T:-256}
train.global_batch=8
train.micro_batch=4
train.device=$GPU_DEVICE
train.precision=$3
optim.lr=1e-3
optim.warmup_steps=4
checkpoint.interval=$INTERVAL
eval.interval=0
log.interval=1
log.tensorboard=false" exec "$GPU_BIN/koboshi-train" --config "$GPU_WORK/$1.yaml" \
        >>"$GPU_OUT/logs/$1.log" 2>&1
}

logged() { cat "$GPU_WORK/$1"/attempts/*/metrics.jsonl 2>/dev/null | wc -l; }
digest() { "$GPU_BIN/koboshi" ckpt digest --run-dir "$GPU_WORK/$1" $STEPS 2>&1 | cut -d' ' -f1; }

# Killed two steps after its first checkpoint has been committed, so inside the
# next one.
run_killed() {
    local pid tick last=
    (run "$@") &
    pid=$!
    for ((tick = 0; tick < 12000; tick++)); do
        kill -0 $pid 2>/dev/null || break
        if [ -z "$last" ]; then
            ! compgen -G "$GPU_WORK/$1/ckpt/step-*/manifest.json" >/dev/null || last=$(($(logged "$1") + 2))
        elif [ "$(logged "$1")" -ge "$last" ]; then
            break
        fi
        sleep 0.01
    done
    kill -KILL $pid
    wait $pid 2>/dev/null
}

for row in "${@:-gpt2-124m:bf16}"; do
    had resume "$row" && continue
    IFS=: read -r preset precision <<<"$row"
    name=resume-${row/:/-}
    rm -rf "${GPU_WORK:?}/$name".*
    (run "$name.whole" "$preset" "$precision")
    run_killed "$name.killed" "$preset" "$precision"
    died=$(logged "$name.killed")
    (run "$name.killed" "$preset" "$precision")
    whole=$(digest "$name.whole") killed=$(digest "$name.killed")
    resumed=$(sed -n 's/.*resumed from checkpoint \([^ ]*\).*/\1/p' "$GPU_OUT/logs/$name.killed.log" | tail -n 1)
    good=false
    [ -n "$resumed" ] && [ -n "$whole" ] && [ "$died" -lt $STEPS ] && [ "$whole" = "$killed" ] && good=true
    put resume "$row" $good "\"killed_after\": $died, \"from\": \"$resumed\", \"unbroken\": \"$whole\", \"resumed\": \"$killed\""
    rm -rf "$GPU_WORK/$name".*
done
