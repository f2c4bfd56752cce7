#!/bin/bash
# speed - tokens/s of koboshi-train beside PyTorch, shape by shape and number of
# GPUs by number, in one run on this machine.
#
# usage: RANKS="1 2" PEER=SCRIPT speed.sh SHAPE...    settings as all.sh says
#
# SHAPE: name:micro:accum:peer_micro:peer_accum, the name a preset, then keys of
# run.yaml with ; between if need be. RANKS: numbers of GPUs (1), one rank each,
# wired by torchrun's names. PEER: the peer's script, started as `SCRIPT NAME
# MICRO accum=ACCUM`, by torchrun for several GPUs; it prints "tok_s": NUMBER.
# For one GPU that is bench/peer_gpu.py; none: ours alone. Medians of the steps
# after the fifth of STEPS (14). A result line a shape and number; with more than
# one GPU also how much of n times one GPU's rate is reached.
. "$(dirname "$0")/lab.sh"
STEPS=${STEPS:-14} RANKS=${RANKS:-1} PEER=${PEER:-}

config() { # name micro accum seq ranks
    cat <<EOF
run: {name: speed, dir: $work}
model: {preset: $1}
data: {train: $GPU_TOKENS}
train: {steps: 1000, seq_len: $4, micro_batch: $2, global_batch: $(($2 * $3 * $5)), device: $GPU_DEVICE, deterministic: false}
optim: {lr: 3e-4, warmup_steps: 100, decay_steps: 1000}
checkpoint: {interval: 1000000, keep: 2}
eval: {interval: 0}
log: {interval: 1, tensorboard: false}
EOF
}

steps_done() { cat "$work"/attempts/*/metrics.jsonl 2>/dev/null | wc -l; }

# All ranks of a run until STEPS are done, then none: no last checkpoint.
run_ranks() { # ranks log
    local pids=() r tick
    for ((r = 0; r < $1; r++)); do
        RANK=$r LOCAL_RANK=$r WORLD_SIZE=$1 LOCAL_WORLD_SIZE=$1 NODE_RANK=0 \
            MASTER_ADDR=127.0.0.1 MASTER_PORT=29517 KOBOSHI_SET="$more" \
            setsid "$GPU_BIN/koboshi-train" --config "$2.yaml" >>"$2.log" 2>&1 &
        pids+=($!)
    done
    for ((tick = 0; tick < ${LIMIT:-90} * 4; tick++)); do
        sleep 0.25
        [ "$(steps_done)" -lt "$STEPS" ] || break
        kill -0 "${pids[0]}" 2>/dev/null || break
    done
    memory=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    kill -KILL "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
}

peer_tokens() { # name micro accum ranks log
    local run=(python3)
    [ "$4" = 1 ] || run=(torchrun --nproc-per-node "$4")
    timeout "${LIMIT:-120}" "${run[@]}" "$PEER" "$1" "$2" accum="$3" 2>"$5.peer.log" |
        tee "$5.peer.json" | sed -n 's/.*"tok_s": \([0-9]*\).*/\1/p' | tail -n 1
}

for shape in "$@"; do
    IFS=: read -r name micro accum peer_micro peer_accum more <<<"$shape"
    more=${more//;/$'\n'}
    case $name in gpt2*) seq=1024 ;; *) seq=2048 ;; esac
    case $name in *nano | *micro) seq=64 ;; esac
    for ranks in $RANKS; do
        case="$name $micro x $accum on $ranks"
        had speed "$case" && continue
        work=$GPU_WORK/speed.$name.$accum.$ranks
        rm -rf "$work"
        mkdir -p "$work"
        log=$GPU_OUT/logs/speed-$name-$accum-$ranks
        config "$name" "$micro" "$accum" "$seq" "$ranks" >"$log.yaml"
        run_ranks "$ranks" "$log"
        theirs=
        [ -z "$PEER" ] || theirs=$(peer_tokens "$name" "$peer_micro" "$peer_accum" "$ranks" "$log")
        "${PYTHON:-python3}" "$(dirname "$0")/speed.py" "$case" "$ranks" $((micro * accum * seq * ranks)) \
            "${memory:-0}" "${theirs:-0}" "$work" || tail -n 3 "$log.log"
        rm -rf "$work"
    done
done
