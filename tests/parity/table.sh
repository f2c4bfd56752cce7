#!/bin/bash
# table - every layout of ranks against a single rank, as a table: how far each
# gradient of step 1, and loss and gradient norm of 20 steps, are from one
# rank's, in fp64; with --fp32 the losses of the first and of all steps. The
# gradients come gathered out of checkpoints: after one step the first moment is
# the gradient times a tenth. A row fails beyond the limits of LIMIT; the exit
# status tells whether any did.
# usage: table.sh [--quick|--fp32|--repeat|--batch=N]... [SHAPE...]
#   --quick   some layouts of GPT-2's and Llama's shape, a batch that divides
#             on none
#   --repeat  each layout twice: the same bits
#   --batch   sequences a step, micro-batches of 2; else 22 and 48
#   SHAPE     gpt2, llama (2 key heads), qwen (1 key head, tied, QK-norm)
# TABLE_BUILD: the build's folder. TABLE_LIMIT_S: of one run. Ranks are mpirun's.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${TABLE_BUILD:-$HERE/../../build}
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
unset "${!KOBOSHI_@}" "${!SLURM_@}" "${!PMIX_@}" "${!OMPI_@}" RANK WORLD_SIZE

declare -A MODEL=(
    [gpt2]="family: gpt2, layers: 9, hidden_size: 48, heads: 24, ffn_size: 72, vocab_size: 259, max_positions: 33"
    [llama]="family: llama, layers: 9, hidden_size: 40, heads: 24, kv_heads: 2, head_dim: 4, ffn_size: 48, vocab_size: 263, tied: false"
    [qwen]="family: llama, layers: 8, hidden_size: 40, heads: 24, kv_heads: 1, head_dim: 4, ffn_size: 48, vocab_size: 263, tied: true, qk_norm: true, bias_qkv: true"
)
# A high rate turns 1e-16 into 1e-9 in 20 steps, in any layout
declare -A RATE=([gpt2]=1e-3 [llama]=5e-4 [qwen]=3e-4)
LIMIT=1e-10
precision=fp64 quick='' repeat='' shapes=() batches=''
for arg in "$@"; do
    case $arg in
    --quick) quick=1 ;;
    --fp32) precision=fp32 ;;
    --repeat) repeat=1 ;;
    --batch=*) batches=${arg#*=} ;;
    -*) sed -n '2,17s/^# //p' "$0" >&2; exit 2 ;;
    *) shapes+=("$arg") ;;
    esac
done
[ ${#shapes[@]} -gt 0 ] || shapes=(gpt2 llama)

# "T P D CHUNKS": tensor, pipeline, data
layouts() { # SHAPE
    local n t p layers=9
    [ "$1" != qwen ] || layers=8
    for n in 1 2 3 4 6 8; do
        for ((t = n; t >= 1; t--)); do
            ((n % t == 0)) || continue
            [ "$1:$t" != llama:3 ] || continue # 3 ranks cannot share 2 heads
            for ((p = 1; p <= n / t; p++)); do
                ((n / t % p == 0)) || continue
                echo "$t $p $((n / t / p)) 1"
                ((p == 1 || 2 * p > layers)) || echo "$t $p $((n / t / p)) 2"
            done
        done
    done
}
quick_layouts() {
    case $1 in
    gpt2) printf '%s\n' "2 1 2 1" "1 2 1 2" ;;
    llama) printf '%s\n' "4 1 1 1" "2 2 1 1" ;;
    *) printf '%s\n' "3 1 1 1" "1 2 2 1" ;;
    esac
}

# train DIR RANKS SHAPE KEY=VALUE...
train() {
    local dir=$TMP/$1 ranks=$2 shape=$3
    shift 3
    rm -rf "$dir"
    cat >"$dir.yaml" <<YAML
run: {dir: $dir}
model: {${MODEL[$shape]}}
data: {train: [$TMP/text]}
train: {steps: 20, seq_len: 33, precision: $precision}
optim: {lr: ${RATE[$shape]}, warmup_steps: 2, clip: 0.5, z_loss: 1e-4}
log: {interval: 1, tensorboard: false}
guard: {sigma: 0}
checkpoint: {interval: 1, keep: 30}
system: {blas_threads: 1}
YAML
    KOBOSHI_SET=$(printf '%s\n' "$@") timeout "${TABLE_LIMIT_S:-120}" mpirun --allow-run-as-root \
        --oversubscribe --bind-to none --mca btl "self,vader" -n "$ranks" \
        "$BUILD/koboshi-train" --config "$dir.yaml" </dev/null >"$dir.log" 2>&1 ||
        tail -n 3 "$dir.log" | sed 's/^/# /' >&2
    cat "$dir"/attempts/*/metrics.jsonl 2>/dev/null |
        jq -r '[.step, .loss, .grad_norm] | @tsv' >"$dir.tsv"
}

# Largest relative difference of column COLUMN, over the first STEPS steps.
off() { # A B COLUMN STEPS
    paste "$TMP/$1.tsv" "$TMP/$2.tsv" | head -n "$4" | awk -v c="$3" -v n="$4" '
        $c + 0 == 0 || $(c + 3) + 0 == 0 { none = 1; next }
        { d = ($c - $(c + 3)) / $c; if (d < 0) d = -d; if (d > m) m = d }
        END { if (NR != n || none) print "inf"; else printf "%.2g\n", m }'
}
within() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0 && a != "inf") }'; }
# Of the last checkpoint; two that cannot be read are not the same.
digest() { "$BUILD/koboshi" ckpt digest --run-dir "$TMP/$1" 20 2>&1 | cut -d' ' -f1 | grep -xE '[0-9a-f]{16,}' || echo "none of $1"; }

bad=0
row() { # GOOD TEXT
    [ "$1" = 0 ] || bad=1
    echo "$2 $([ "$1" = 0 ] && echo yes || echo "NO") |"
}

# One layout against `one`.
compare() { # SHAPE BATCH SPREAD T P D CHUNKS
    local shape=$1 batch=$2 spread=$3 t=$4 p=$5 d=$6 chunks=$7 again='' good=0
    local keys=(train.global_batch="$batch" train.micro_batch=2
        parallel.tensor="$t" parallel.pipeline="$p" parallel.chunks="$chunks")
    train some $((t * p * d)) "$shape" "${keys[@]}"
    if [ -n "$repeat" ]; then
        train more $((t * p * d)) "$shape" "${keys[@]}"
        again=differ
        ! cmp -s "$TMP/some.tsv" "$TMP/more.tsv" ||
            [ "$(digest some)" != "$(digest more)" ] || again=same
        [ $again = same ] || good=1
    fi
    local first all norm grads
    first=$(off one some 2 1) all=$(off one some 2 20) norm=$(off one some 3 20)
    if [ $precision = fp64 ]; then
        grads=$("$BUILD/tests/parity/apart" "$TMP/one" step-0000000001.a0001 \
            "$TMP/some" step-0000000001.a0001 exp_avg/ | cut -d' ' -f1)
        within "${grads:-inf}" $LIMIT && within "$all" $LIMIT &&
            within "$norm" $LIMIT || good=1
    else
        within "$first" 1e-6 && within "$all" "$spread" || good=1
        grads="$first"
    fi
    row $good "| $shape | $batch | $t x $p$([ "$chunks" = 1 ] || echo " ($chunks)") x $d | ${grads:-none} | $all | $norm | ${again:+$again, }"
}

"$BUILD/koboshi" data build --quiet --tokenizer byte --append-eod \
    --output "$TMP/text" "$HERE/../../LICENSE" >/dev/null 2>&1 || exit 1
[ -n "$batches" ] || batches=$([ -n "$quick" ] && echo 22 || echo 22 48)
if [ $precision = fp64 ]; then
    echo "| shape | batch | tensor x pipeline (chunks) x data | gradients | loss | norm | within $LIMIT |"
else
    echo "| shape | batch | tensor x pipeline (chunks) x data | loss of step 1 | loss | norm | within limits |"
fi
echo "|---|---|---|---|---|---|---|"
for shape in "${shapes[@]}"; do
    for batch in $batches; do
        spread=0
        if [ $precision = fp32 ]; then
            train one 1 "$shape" train.global_batch="$batch" train.micro_batch=1
            mv "$TMP/one.tsv" "$TMP/other.tsv"
        fi
        train one 1 "$shape" train.global_batch="$batch" train.micro_batch=2
        [ $precision = fp64 ] ||
            spread=$(awk -v s="$(off one other 2 20)" 'BEGIN { print 4 * s }')
        while read -r t p d chunks; do
            compare "$shape" "$batch" "$spread" "$t" "$p" "$d" "$chunks"
        done < <(if [ -n "$quick" ]; then quick_layouts "$shape"; else layouts "$shape"; fi)
    done
done
exit $bad
