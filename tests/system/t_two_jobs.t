#!/bin/bash
# Two jobs with one run directory: the later one is refused while the other
# lives, by its number; also when both start in the same moment. When the other
# is gone, its run is gone on with.
RUN_STEPS=400
. "$(dirname "$0")/run.sh"
test_run 4

output_of() { cat "$CLUSTER_DIR/$1.out" 2>/dev/null; }
state_of() { scontrol show job "$1" -o | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }
over() { case $(state_of "$1") in PENDING | CONFIGURING | RUNNING | COMPLETING) return 1 ;; esac; }
exit_of() { scontrol show job "$1" -o | grep -oE ' ExitCode=[0-9]+' | cut -d= -f2; }
another() {
    sbatch --parsable --llm-train="$RUN_YAML" --output="$CLUSTER_DIR/$1.out" \
        -N 2 "${@:2}" </dev/null 2>>"$RUN.submit"
}

ok "one job trains" run_submit -N 2
ok "it makes steps" run_wait_step 60 20
second=$(another second)
ok "a second one ends at once" wait_until 30 over "$second"
is "$(state_of "$second") $(exit_of "$second")" "FAILED 2" "refused"
like "$(output_of second)" "in use: '$RUN': job $JOB, attempt 1; wait for it, cancel it" \
    "naming the first"
is "$(run_attempts)" 1 "it left no attempt behind"
is "$(run_state)" RUNNING "the first runs on"
scancel "$JOB"
ok "the first is cancelled" run_wait_over 40
is "$(run_count '.event=="resume"')" 1 "it was never disturbed"

# Both at once: one of them goes on from there, the other is refused.
held=$(another a --hold)
held2=$(another b --hold)
scontrol release "$held,$held2"
one_is_over() { over "$held" || over "$held2"; }
ok "two that start in the same moment: one ends" wait_until 40 one_is_over
loser=$held winner=$held2 out=a
over "$held" || { loser=$held2 winner=$held out=b; }
is "$(state_of "$loser") $(exit_of "$loser")" "FAILED 2" "refused"
like "$(output_of $out)" "in use: '$RUN': job $winner, " "naming the other"
JOB=$winner
ok "which trains" run_wait 60 '.event=="first_step" and .attempt>1' || run_diag
is "$(run_field '.event=="resume" and .attempt>1' step | grep -c '^[1-9]')" 1 "from the first's checkpoint"
run_ends_as_unbroken
tap_done
