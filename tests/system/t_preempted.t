#!/bin/bash
# Preempted by a partition of higher priority: saved in its grace time, started
# again when there is room, no restart counted.
# long: the job comes back in its own time
RUN_STEPS=600
. "$(dirname "$0")/run.sh"
export CLUSTER_CONF="PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 GraceTime=0 State=UP
PartitionName=DEFAULT PriorityTier=1 GraceTime=20"
test_run 2 checkpoint.interval=5000

ok "submitted" run_submit -N 2
ok "it trains" run_wait_step 60 40
urgent=$(sbatch --parsable -p high -N 2 --exclusive --output=/dev/null --wrap 'sleep 8')
ok "an urgent job takes its nodes" wait_until 60 eval \
    'squeue -h -j "$urgent" -t R -o %i | grep -q .' || run_diag
ok "Slurm's reason was seen" run_has '.event=="diagnosis" and .cause=="preempted"' || run_diag
at=$(run_step)
ok "it runs again afterwards" run_wait 120 '.event=="first_step" and .attempt==2' || run_diag
is "$(run_field '.event=="resume" and .attempt==2' step)" "$at" "from its last step"
is "$(jq -r .counted "$RUN/attempts/0001/verdict.json")" false "no restart is counted"
is "$(run_count '.event=="requeue"')" 0 "nor did it requeue itself"
run_ends_as_unbroken
tap_done
