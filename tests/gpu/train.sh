#!/bin/bash
# train - koboshi-train on this machine's GPU against itself on the CPU: equal
# losses in fp32, near ones in bf16, and a resumed run equal to an unbroken one.
#
#   tests/gpu/train.sh TRAIN PREFIX OUT
#
# TRAIN: koboshi-train. PREFIX: a token file of a byte vocabulary. OUT: logs and
# runs. Prints a line a check; exit 1 if one failed.
train=$1 prefix=$2 out=$3
bad=0
rm -rf "$out"
mkdir -p "$out"

# run NAME KEY=VALUE...: 24 steps in $out/NAME.
run() {
    local name=$1
    shift
    printf 'run: {dir: %s}\ndata: {train: [%s]}\n' "$out/$name" "$prefix" >"$out/$name.yaml"
    KOBOSHI_SET=$(printf '%s\n' train.steps=24 train.seq_len=128 \
        train.global_batch=16 train.micro_batch=8 optim.lr=1e-3 \
        optim.warmup_steps=4 optim.decay_steps=24 log.interval=1 \
        checkpoint.interval=12 guard.healthy_after=5 "$@") \
        timeout 120 "$train" --config "$out/$name.yaml" >>"$out/$name.log" 2>&1 ||
        verdict 1 "$name runs: $(tail -n 1 "$out/$name.log")"
}

verdict() { # bad(0 is good) text
    [ "$1" = 0 ] && echo "pass $2" && return
    echo "FAIL $2"
    bad=1
}

losses() {
    cat "$out/$1"/attempts/*/metrics.jsonl |
        sed 's/.*"loss":\([^,]*\),.*"step":\([0-9]*\),.*/\2 \1/' | sort -n -s
}

# near A B LIMIT: the largest difference between two runs' losses.
near() {
    local worst
    worst=$(paste <(losses "$1") <(losses "$2") | awk '$1 != $3 { print 9; exit }
        { d = $2 - $4; if (d < 0) d = -d; if (d > m) m = d } END { print m + 0, NR }' | head -n 1)
    awk -v w="${worst%% *}" -v n="${worst##* }" -v l="$3" 'BEGIN { exit !(w <= l && n > 1) }'
    verdict $? "$1 and $2: losses differ by ${worst%% *} at most (limit $3)"
}

for preset in gpt2-nano llama-nano; do
    run "$preset-cpu" model.preset=$preset train.device=cpu train.precision=fp32
    run "$preset-fp32" model.preset=$preset train.device=cuda train.precision=fp32
    near "$preset-cpu" "$preset-fp32" 1e-3
    run "$preset-bf16" model.preset=$preset train.device=cuda
    near "$preset-cpu" "$preset-bf16" 0.05
    run "$preset-half" model.preset=$preset train.device=cuda train.steps=12
    run "$preset-half" model.preset=$preset train.device=cuda
    near "$preset-bf16" "$preset-half" 0
done
exit $bad
