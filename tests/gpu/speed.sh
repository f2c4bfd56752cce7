#!/bin/bash
# speed - tokens/s of koboshi-train beside PyTorch (peer_torch.py), shape by
# shape, in one run on this machine's GPU.
#
#   tests/gpu/speed.sh TRAIN PREFIX OUT [PEER] SHAPE...
#
# TRAIN: koboshi-train. PREFIX: a token file (GPT-2's vocabulary). PEER: the
# peer's script, - for none. SHAPE: name:micro:accum:peer_micro:peer_accum, the
# name a preset. Each side's median of the steps after warm-up; a JSON line a
# shape on stdout, logs in OUT.
train=$1 prefix=$2 out=$3 peer=$4
shift 4
STEPS=${STEPS:-14} WARM=${WARM:-5}
mkdir -p "$out"

config() { # name micro accum seq
    cat <<EOF
run: {name: speed, dir: $work}
model: {preset: $1}
data: {train: $prefix}
train: {steps: $STEPS, seq_len: $4, micro_batch: $2, global_batch: $(($2 * $3)), device: cuda, precision: bf16, deterministic: false$RECOMPUTE}
optim: {lr: 3e-4, warmup_steps: 100, decay_steps: 1000}
checkpoint: {interval: 1000000}
log: {interval: 1, tensorboard: false}
EOF
}

median() { sort -n | awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)]}'; }

for shape in "$@"; do
    IFS=: read -r name micro accum peer_micro peer_accum recompute <<<"$shape"
    case $name in gpt2*) seq=1024 ;; *) seq=2048 ;; esac
    RECOMPUTE=${recompute:+, recompute: $recompute}
    work=$(mktemp -d)
    config "$name" "$micro" "$accum" "$seq" >"$out/$name.yaml"
    KOBOSHI_NO_FINAL_CKPT=1 timeout "${LIMIT:-120}" "$train" --config "$out/$name.yaml" >"$out/$name.log" 2>&1
    rc=$?
    ms=$(tail -n +$((WARM + 1)) "$work"/attempts/*/metrics.jsonl |
        sed 's/.*"iteration_ms":\([0-9.]*\).*/\1/' | median)
    mem=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1)
    theirs=
    if [ "$peer" != - ]; then
        # shellcheck disable=SC2086
        theirs=$(timeout "${LIMIT:-120}" python3 "$peer" "$name" "$peer_micro" accum="$peer_accum" $PEER_ARGS 2>"$out/$name.peer.log" |
            tee "$out/$name.peer.json" | sed 's/.*"tok_s": \([0-9]*\).*/\1/')
    fi
    awk -v n="$name" -v ms="$ms" -v tok=$((micro * accum * seq)) -v peer="$theirs" -v rc=$rc 'BEGIN {
        t = ms > 0 ? tok / ms * 1e3 : 0
        printf "{\"shape\":\"%s\",\"rc\":%d,\"ms\":%.1f,\"tok_s\":%.0f,\"peer_tok_s\":%d,\"ratio\":%.3f}\n",
            n, rc, ms, t, peer, peer > 0 ? t / peer : 0 }' | tee -a "$out/speed.jsonl"
    [ $rc = 0 ] || tail -n 3 "$out/$name.log"
    rm -rf "$work"
done
