#!/bin/bash
# speed - tokens/s of koboshi-train beside PyTorch (peer_torch.py), shape by
# shape, in one run on this machine's GPUs.
#
#   RANKS="1 2" tests/gpu/speed.sh TRAIN PREFIX OUT PEER SHAPE...
#
# TRAIN: koboshi-train. PREFIX: a token file (GPT-2's vocabulary). PEER: the
# peer's script, - for none. SHAPE: name:micro:accum:peer_micro:peer_accum, the
# name a preset, then keys of run.yaml with ; between if need be. RANKS: numbers
# of GPUs, one rank each, wired by torchrun's names. Each side's median of the
# steps after warm-up; a JSON line a shape and number on stdout, logs in OUT.
train=$1 prefix=$2 out=$3 peer=$4
shift 4
STEPS=${STEPS:-14} WARM=${WARM:-5} RANKS=${RANKS:-1}
mkdir -p "$out"

config() { # name micro accum seq ranks
    cat <<EOF
run: {name: speed, dir: $work}
model: {preset: $1}
data: {train: $prefix}
train: {steps: 1000, seq_len: $4, micro_batch: $2, global_batch: $(($2 * $3 * $5)), device: cuda, precision: bf16, deterministic: false}
optim: {lr: 3e-4, warmup_steps: 100, decay_steps: 1000}
checkpoint: {interval: 1000000}
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
            setsid "$train" --config "$2.yaml" >>"$2.log" 2>&1 &
        pids+=($!)
    done
    for ((tick = 0; tick < ${LIMIT:-90} * 4; tick++)); do
        sleep 0.25
        [ "$(steps_done)" -lt "$STEPS" ] || break
        kill -0 "${pids[0]}" 2>/dev/null || break
    done
    memory=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1)
    kill -KILL "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
}

median_ms() {
    tail -q -n +$((WARM + 1)) "$work"/attempts/*/metrics.jsonl 2>/dev/null |
        sed 's/.*"iteration_ms":\([0-9.]*\).*/\1/' | sort -n |
        awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)] + 0}'
}

peer_tokens() { # name micro accum ranks log
    local run=(python3)
    [ "$4" = 1 ] || run=(torchrun --nproc-per-node "$4")
    timeout "${LIMIT:-90}" "${run[@]}" "$peer" "$1" "$2" accum="$3" 2>"$5.peer.log" |
        tee "$5.peer.json" | sed -n 's/.*"tok_s": \([0-9]*\).*/\1/p' | tail -n 1
}

for shape in "$@"; do
    IFS=: read -r name micro accum peer_micro peer_accum more <<<"$shape"
    more=${more//;/$'\n'}
    case $name in gpt2*) seq=1024 ;; *) seq=2048 ;; esac
    for ranks in $RANKS; do
        work=$(mktemp -d)
        log=$out/$name.$ranks
        config "$name" "$micro" "$accum" "$seq" "$ranks" >"$log.yaml"
        run_ranks "$ranks" "$log"
        ms=$(median_ms)
        cp "$work"/attempts/*/metrics.jsonl "$log.jsonl" 2>/dev/null
        theirs=0
        [ "$peer" = - ] || theirs=$(peer_tokens "$name" "$peer_micro" "$peer_accum" "$ranks" "$log")
        awk -v n="$name" -v g="$ranks" -v ms="$ms" -v tok=$((micro * accum * seq * ranks)) \
            -v peer="${theirs:-0}" -v mib="$memory" 'BEGIN {
            t = ms > 0 ? tok / ms * 1e3 : 0
            printf "{\"shape\":\"%s\",\"gpus\":%d,\"ms\":%.1f,\"tok_s\":%.0f,\"mib\":%d,\"peer_tok_s\":%d,\"ratio\":%.3f}\n",
                n, g, ms, t, mib, peer, peer > 0 ? t / peer : 0 }' | tee -a "$out/speed.jsonl"
        [ "$ms" != 0 ] || tail -n 3 "$log.log"
        rm -rf "$work"
    done
done
