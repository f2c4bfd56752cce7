#!/bin/bash
# Jobs that start a run again: with more steps and another number of ranks, after
# all checkpoints went bad, and afresh.
RUN_STEPS=40
. "$(dirname "$0")/run.sh"
test_run 2 checkpoint.keep=2
sed -i '/blas_threads/d' "$RUN_YAML"

# again STEPS SBATCH-ARGUMENTS...: the run's next job; it is over.
again() {
    sed -i "s/^  steps: .*/  steps: $1/" "$RUN_YAML"
    shift
    run_submit "$@" && run_wait_over 90
}
resumed() { run_event '.event=="resume"' | tail -n 1 | jq -r .step; }
failed_with() { scontrol show job "$JOB" -o | grep -oE 'ExitCode=[0-9]+' | cut -d= -f2; }

# ---- More steps, more ranks ------------------------------------------------
ok "one rank trains" again 40 -N 1
is "$(run_state) $(run_step)" "COMPLETED 40" "all its steps" || run_diag
ok "two go on" again 80 -N 2
is "$(run_state) $(resumed) $(run_step)" "COMPLETED 40 80" "from the last one to the new end" || run_diag
is "$(koboshi ckpt show --json --run-dir "$RUN" | jq -c '.state.data.sets[0].index[0]')" \
    320 "in the order of the first start"
is "$(grep -c 'blas_threads: [1-9]' "$RUN/run.yaml")" 1 "the threads of a rank are kept too"

# ---- All checkpoints bad -----------------------------------------------------
truncate -s 1000 "$RUN"/ckpt/step-*/shard-*
ok "a job that finds all damaged ends" again 120 -N 2
is "$(run_state) $(failed_with)" "FAILED 17" "without a step" || run_diag
like "$(cat "$RUN.job.out")" "none is valid.*--llm-resume=fresh" "saying so, and how to begin again"
ok "so does the next" again 120 -N 2
is "$(run_state) $(failed_with)" "FAILED 17" "though they are in quarantine by now" || run_diag
nok "a step of which there is none is refused" run_submit -N 2 --llm-resume=77
like "$(cat "$RUN.submit")" "--llm-resume.*no checkpoint of step 77" "saying so"
ok "one that is told to begin afresh does" again 40 -N 2 --llm-resume=fresh
is "$(run_state) $(resumed) $(run_step)" "COMPLETED 0 40" "from step 0" || run_diag

# ---- Without a supervisor ----------------------------------------------------
alone() {
    env "$@" srun -N1 -n1 --mpi=pmix --output="$RUN.alone" \
        koboshi-train --config "$RUN_YAML"
}
ok "koboshi-train alone finds all steps done" alone KOBOSHI_SET=run.name=alone
like "$(cat "$RUN.alone")" "all 40 steps were there" "and says so"
ok "unless it is told a step" alone KOBOSHI_RESUME=20
like "$(cat "$RUN.alone")" "resumed from checkpoint step-0000000020" "to go on from"
nok "one that there is" alone KOBOSHI_RESUME=21
like "$(cat "$RUN.alone")" "no checkpoint of step 21" "or it passes nothing over"
ok "or to begin afresh" alone KOBOSHI_RESUME=fresh
like "$(cat "$RUN.alone")" "weights by seed" "from step 0"
tap_done
