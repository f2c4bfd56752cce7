#!/bin/bash
# The trainer itself: a rank that crashes at the same step each time stops the
# run, which names the step; products that are not numbers for some steps roll
# it back to an older checkpoint, and it goes on with other data.
. "$(dirname "$0")/run.sh"
test_run 3
mishap=$CLUSTER_BUILD/tests/system/mishap.so
[ -f "$mishap" ] || { skip "mishap.so is not built"; tap_done; }

# begin NAME STEP:ATTEMPT:WHAT
begin() {
    run_write "$1"
    export LD_PRELOAD=$mishap MISHAP_STEP=$2
    ok "$1: submitted" run_submit -N 2
    unset LD_PRELOAD MISHAP_STEP
}

begin crash 70:0:segv
ok "crash: it ends" run_wait_over 90
is "$(run_state)" FAILED "crash: as failed" || run_diag
is "$(run_attempts)" 2 "crash: after the second time"
is "$(run_field '.event=="diagnosis"' cause)" rank_crash "crash: the cause"
like "$(run_field '.event=="stop"' message)" "signal 11 .*after step (69|70)" "crash: names the step"
like "$(run_field '.event=="stop"' why)" "twice without a newer checkpoint" "crash: and why it stops"
is "$(jq -r .counted "$RUN/attempts/0001/verdict.json")" true "crash: it counts"

begin spike 90:1:nan
ok "spike: it is judged" run_wait 60 '.event=="action" and .action=="roll_back"' || run_diag
ok "spike: as the step's" run_has '.event=="diagnosis" and .class=="step" and .cause=="loss"'
ok "spike: it ends" run_wait_over 90
is "$(run_state) $(run_step)" "COMPLETED $RUN_STEPS" "spike: well, at its last step" || run_diag
from=$(run_field '.event=="resume" and .attempt==2' step)
ok "spike: from a checkpoint that is older" test "$from" -gt 0 -a "$from" -lt 90
like "$(run_event '.attempt==2' | grep -i skip)" "skip" "spike: other data than before"
ok "spike: what came of it is a number" jq -se 'all(.[]; .loss < 10) and (last.loss < 4)' \
    "$RUN/attempts/0002/metrics.jsonl"
tap_done
