#!/bin/bash
# A mistake that only shows while it runs: the job stops within one attempt and
# says what to fix.
. "$(dirname "$0")/run.sh"
test_run 3
cp "$RUN_TEXT".bin "$CLUSTER_DIR/own.bin"
cp "$RUN_TEXT".idx "$CLUSTER_DIR/own.idx"
run_write run "data.train=$CLUSTER_DIR/own"

# The token file goes away between submit and start.
ok "submitted, held" run_submit -N 2 --hold
rm "$CLUSTER_DIR/own.bin"
ok "released" scontrol release "$JOB"
ok "it ends" run_wait_over 60
is "$(run_state)" FAILED "as failed"
ok "within one attempt" test "$(run_attempts)" -le 1
is "$(run_count '.event=="requeue"')" 0 "and no requeue"
like "$(cat "$RUN.job.out"; run_event '.event=="stop"')" "own" "the file is named" || run_diag
tap_done
