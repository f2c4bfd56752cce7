#!/bin/bash
# Mistakes that can be known at submit: a message that names the place and the
# fix, exit code 1, nothing submitted.
. "$(dirname "$0")/run.sh"
test_run 2

# refused NAME REGEX [KEY=VALUE...]: sbatch refuses and its message matches.
refused() {
    local name=$1 regex=$2 rc
    shift 2
    run_write run "$@"
    run_submit -N 2 >/dev/null
    rc=$?
    is "$rc,$JOB" "1," "$name: nothing is submitted"
    like "$(cat "$RUN.submit")" "$regex" "$name: says so"
    [ -z "$JOB" ] || scancel "$JOB"
}

refused "an unknown key" "learning_rat.*optim\.lr|run\.yaml:[0-9]+.*optim\.l" optim.learning_rat=1
refused "a key nearly right" "train\.steps" train.step=100
refused "a word for a number" "run\.yaml:[0-9]+.*train\.steps|train\.steps.*run\.yaml:[0-9]+" train.steps=many
refused "out of range" "optim\.lr" optim.lr=100
refused "a batch that does not divide" "global_batch" train.global_batch=7
refused "no token file" "nowhere.*koboshi data build" "data.train=$CLUSTER_DIR/nowhere"
printf x >"$CLUSTER_DIR/torn.idx"
cp "$RUN_TEXT.bin" "$CLUSTER_DIR/torn.bin"
refused "a torn index" "torn" "data.train=$CLUSTER_DIR/torn"
refused "a run directory that cannot be" "/proc/koboshi" run.dir=/proc/koboshi

# A file system that only the nodes may have is no mistake that sbatch can see.
run_write run data.train=/no-such-mount/text
is "$(cd "$CLUSTER_DIR" && sbatch --llm-train="$RUN_YAML" --llm-dry-run -N 2 </dev/null \
    2>&1 | grep -c "no-such-mount/text' cannot be seen from here")" 1 \
    "what this host cannot see is a warning"

run_write run
run_submit -N 2 --llm-set=train.steps=none >/dev/null
like "$(cat "$RUN.submit")" "train\.steps" "--llm-set is checked too"
is "$(cd "$CLUSTER_DIR" && sbatch --parsable --llm-train="$RUN_YAML" --llm-dry-run -N 2 \
    </dev/null 2>/dev/null | grep -c '^[0-9]*$')" 0 "--llm-dry-run submits nothing"
is "$(squeue -h | wc -l)" 0 "the queue is empty"
tap_done
