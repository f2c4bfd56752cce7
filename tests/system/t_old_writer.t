#!/bin/bash
# The batch host freezes and is cut off while its rank 0 is just about to commit
# a checkpoint. The job starts anew elsewhere; then the old writer goes on and
# commits: readers ignore what an older attempt committed so late.
. "$(dirname "$0")/run.sh"
RUN_STEPS=700
export TEST_TIME_S=400
test_run 5

stopper=$CLUSTER_BUILD/tests/system/stop_at_commit.so
[ -f "$stopper" ] || { skip "stop_at_commit.so is not built"; tap_done; }
export LD_PRELOAD=$stopper STOP_AT_COMMIT=$CLUSTER_DIR/stop-now
ok "submitted" run_submit -N 3 --llm-spares=1
unset LD_PRELOAD
ok "it trains" run_wait_checkpoint 60 40
touch "$STOP_AT_COMMIT"
ok "rank 0 stops before a commit" wait_until 20 test -e "$STOP_AT_COMMIT.stopped"
host=$(run_batch_host)
late=$(cat "$STOP_AT_COMMIT.stopped")
nok "the checkpoint is not committed" test -e "$late"
cluster_cut_node "$host"
ok "its supervisor and watcher freeze too" cluster_signal "$host" STOP koboshi-supervise

ok "the job goes on elsewhere" run_wait 120 '.event=="first_step" and .attempt>=2' || run_diag
ok "and saves" run_wait 60 '.event=="checkpoint_saved" and .attempt>=2'
now=$(run_attempts)
ok "the old writer goes on" cluster_signal "$host" CONT koboshi-train
# It commits late, or finds its folder put aside: either way nobody reads it.
# (Its peers are gone, so it ends.)
ended() { [ -z "$(cluster_pids "$host" koboshi-train)" ]; }
ok "and ends" wait_until 60 ended
ok "its supervisor wakes up" cluster_signal "$host" CONT koboshi-supervise
cluster_restore_node "$host"
gone() { [ -z "$(cluster_pids "$host" koboshi-supervise)" ]; }
ok "and steps down" wait_until 90 gone

# Another start must not take what was committed late.
if cluster_signal "$(run_node_of_rank 1)" KILL koboshi-train; then
    ok "one more attempt makes a step" run_wait 60 ".event==\"first_step\" and .attempt>$now" || run_diag
else
    skip "the run is over already"
fi
nok "no attempt resumed from the late checkpoint" run_has \
    ".event==\"resume\" and (.checkpoint|tostring|contains(\"$(basename "$(dirname "$late")")\"))"
run_ends_as_unbroken
tap_done
