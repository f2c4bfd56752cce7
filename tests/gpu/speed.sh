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
# steps after the fifth; a JSON line a shape and number on stdout, logs in OUT.
train=$1 prefix=$2 out=$3 peer=$4
shift 4
STEPS=${STEPS:-14} RANKS=${RANKS:-1}
mkdir -p "$out"

config() { # name micro accum seq ranks
    cat <<EOF
run: {name: speed, dir: $work}
model: {preset: $1}
data: {train: $prefix}
train: {steps: 1000, seq_len: $4, micro_batch: $2, global_batch: $(($2 * $3 * $5)), device: cuda, precision: bf16, deterministic: false}
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

# The shape's JSON line, from its metrics; the machine has no awk.
result() { # name ranks tokens_a_step memory peer_tokens metrics
    python3 - "$@" <<'EOF'
import json, statistics, sys
name, ranks, tokens, mib, peer = sys.argv[1], *(int(x or 0) for x in sys.argv[2:6])
rows = [json.loads(line) for line in open(sys.argv[6])][5:]
ms = statistics.median(r["iteration_ms"] for r in rows)
rate = tokens / ms * 1e3
print(json.dumps(dict(shape=name, gpus=ranks, steps=len(rows), ms=round(ms, 1), tok_s=round(rate), mib=mib,
                      peer_tok_s=peer, ratio=round(rate / peer, 3) if peer else None)))
EOF
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
        cp "$work"/attempts/*/metrics.jsonl "$log.jsonl" 2>/dev/null
        theirs=0
        [ "$peer" = - ] || theirs=$(peer_tokens "$name" "$peer_micro" "$peer_accum" "$ranks" "$log")
        result "$name" "$ranks" $((micro * accum * seq * ranks)) "$memory" "$theirs" "$log.jsonl" |
            tee -a "$out/speed.jsonl" || tail -n 3 "$log.log"
        rm -rf "$work"
    done
done
