#!/bin/bash
# The time limit comes near: saved in its last quarter, requeued, gone on from
# there. The steps must take longer than 45 s on an idle machine too.
. "$(dirname "$0")/run.sh"
RUN_STEPS=1600
export TEST_TIME_S=400
test_run 3 checkpoint.interval=2000

ok "submitted with a minute" run_submit -N 2 --time=1
ok "it trains" run_wait_step 60 20
ok "it runs again before it is done" run_wait 120 '.event=="resume" and .attempt==2' || run_diag
ok "from where it was, not from an old checkpoint" test \
    "$(run_field '.event=="resume" and .attempt==2' step)" -gt 0
nok "not killed at the limit" grep -q 'TIME LIMIT' "$RUN.job.out"
run_ends_as_unbroken 240
tap_done
