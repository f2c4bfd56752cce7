#!/bin/bash
# The batch host dies and the job has no spare: the one watcher that is left
# has a majority only with nobody to ask; it must still requeue the job.
. "$(dirname "$0")/run.sh"
test_run 4

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
host=$(run_batch_host)
cluster_kill_node "$host"
ok "it runs again elsewhere" run_wait 120 '.event=="first_step" and .attempt==2' || run_diag
run_ends_as_unbroken
tap_done
