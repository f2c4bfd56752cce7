#!/bin/bash
# Slurm's daemons come and go: slurmd of a training node is killed and started
# again, a rank dies while slurmctld is away, the job is requeued while it is
# being requeued.
# long: four of Slurm's restarts
. "$(dirname "$0")/run.sh"
RUN_STEPS=900
export TEST_TIME_S=400 CLUSTER_KILL_WAIT=15
test_run 4 recovery.silent_limit=3s train.global_batch=4

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
node=$(run_node_of_rank 1)
ok "slurmd of $node is killed" cluster_kill_slurmd "$node"
sleep 5
ok "and started again" cluster_enter "$node" /usr/sbin/slurmd -N "$node"
at=$(run_step)
ok "steps go on" run_wait_step 30 $((at + 30))
sleep 12 # SlurmdTimeout, should it have forgotten the job
is "$(run_attempts) $(run_state)" "1 RUNNING" "the run did not notice" || run_diag

cluster_stop_slurmctld
ok "a rank dies while slurmctld is away" cluster_signal "$node" KILL koboshi-train
sleep 20
cluster_start_slurmctld
ok "slurmctld is back" wait_until 20 scontrol ping
ok "the ranks are launched again" run_wait 60 '.event=="first_step" and .attempt>=2' || run_diag
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
is "$(run_count '.event=="diagnosis" and .cause=="launch"')" 0 "srun waited for it" || run_diag

now=$(run_attempts)
at=$(run_step)
scontrol requeue "$JOB"
scontrol requeue "$JOB"
ok "requeued while it is requeued, it runs again" \
    run_wait 90 ".event==\"first_step\" and .attempt>$now" || run_diag
ok "from where it was" test "$(run_field ".event==\"resume\" and .attempt>$now" step)" -ge "$at"
is "$(scontrol show job "$JOB" -o | grep -o 'Restarts=[0-9]*')" "Restarts=1" "by one requeue"
run_ends_as_unbroken 240
tap_done
