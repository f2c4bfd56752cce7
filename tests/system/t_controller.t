#!/bin/bash
# slurmctld is away: in mid-run nobody notices; while the job is to be requeued
# it waits for it and is requeued without the bad node.
# long: 40 s of slurmctld away and back
. "$(dirname "$0")/run.sh"
test_run 4 recovery.silent_limit=3s train.global_batch=12 train.steps=500

ok "submitted" run_submit -N 3
ok "it trains" run_wait_checkpoint 60 40
cluster_stop_slurmctld
at=$(run_step)
ok "steps go on without slurmctld" run_wait_step 20 $((at + 10))
cluster_start_slurmctld
ok "it is back" wait_until 20 scontrol ping
is "$(run_attempts) $(run_state)" "1 RUNNING" "the run did not notice"

victim=$(run_field '.event=="launch"' 'nodes[]' | grep -vx "$(run_batch_host)" | head -n 1)
cluster_stop_slurmctld
cluster_kill_node "$victim"
ok "a node's death is seen without it" run_wait 20 '.event=="diagnosis" and .class=="node"' || run_diag
sleep 5
cluster_start_slurmctld
ok "back again" wait_until 20 scontrol ping
ok "the job runs again" run_wait 60 '.event=="first_step" and .attempt==2' || run_diag
like "$(scontrol show job "$JOB" -o)" "ExcNodeList=$victim" "without that node"
ok "the job ends" run_wait_over 100
is "$(run_state) $(run_step)" "COMPLETED 500" "at its last step" || run_diag
tap_done
