#!/bin/bash
# A node is cut from the supervisor's host alone, not from slurmctld nor from
# the other watchers: it must not requeue the job on its own. A spare takes its
# place; the watcher is heard again afterwards and changes nothing.
# long: waits for what must not happen
. "$(dirname "$0")/run.sh"
RUN_STEPS=900
export TEST_TIME_S=400
test_run 4 recovery.silent_limit=3s train.global_batch=4

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_checkpoint 60 40
host=$(run_batch_host)
lost=$(run_node_of_rank 1)
ok "$lost is cut from $host" cluster_enter "$lost" ip route add blackhole "$(cluster_address "$host")/32"
ok "a spare takes its place" run_wait 60 '.event=="first_step" and .attempt==2' || run_diag
sleep 25 # long enough for two rounds of the watchers' vote, and more
is "$(run_count '.event=="requeue"')" 0 "the supervisor did not requeue"
is "$(scontrol show job "$JOB" -o | grep -o 'Restarts=[0-9]*')" "Restarts=0" "nor did the watcher"
cluster_enter "$lost" ip route del blackhole "$(cluster_address "$host")/32"
run_ends_as_unbroken 200
is "$(run_attempts)" 2 "two attempts in all"
tap_done
