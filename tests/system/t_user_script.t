#!/bin/bash
# What a user's own script may do: the supervisor twice, one after the other,
# twice at once, once in each task of a step; the trainer twice. One run comes
# of it, with the weights of the unbroken one.
# long: four runs
. "$(dirname "$0")/run.sh"
export TEST_TIME_S=600
test_run 3

# script NAME LINES: a job of that script on two nodes.
script() {
    run_write "$1"
    {
        echo '#!/bin/bash'
        echo '#SBATCH --requeue --no-kill --open-mode=append'
        cat
    } >"$CLUSTER_DIR/$1.sh"
    cd "$CLUSTER_DIR" || return 1
    JOB=$(sbatch --parsable --llm-train="$RUN_YAML" --output="$RUN.job.out" -N 2 \
        "$1.sh" 2>"$RUN.submit")
    ok "$1: submitted" test -n "$JOB" || diag "$(cat "$RUN.submit")"
}
end() {
    ok "$1: it ends" run_wait_over 150
    is "$(run_state) $(run_step)" "COMPLETED $RUN_STEPS" "$1: at its last step" || run_diag
    is "$(run_weights "$RUN")" "$want" "$1: with the weights of the unbroken run"
    [ "$(run_state)" = COMPLETED ] || scancel "$JOB"
    wait_until 60 cluster_all_idle 3
}
want=$(run_reference)

script twice <<'EOS'
koboshi-supervise && koboshi-supervise
EOS
end twice
is "$(run_count '.event=="first_step"')" 1 "twice: trained once"

script at-once <<'EOS'
koboshi-supervise &
sleep 4
koboshi-supervise
code=$?
wait
exit $code
EOS
end at-once

script each-task <<'EOS'
srun --overlap --ntasks-per-node=1 -N 2 koboshi-supervise
exit 0
EOS
end each-task

script trainer-twice <<'EOS'
srun --mpi=pmix --ntasks-per-node=1 -N 2 koboshi-train
srun --mpi=pmix --ntasks-per-node=1 -N 2 koboshi-train
EOS
end trainer-twice
like "$(cat "$RUN.job.out")" "all $RUN_STEPS steps were there" "trainer-twice: the second says so"
tap_done
