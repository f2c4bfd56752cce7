#!/bin/bash
# A rank is killed on a healthy node: relaunched in place, bit for bit.
. "$(dirname "$0")/run.sh"
test_run 3

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
ok "rank 1 is killed" cluster_signal "$(run_node_of_rank 1)" KILL koboshi-train
ok "its exit is seen" run_wait 20 '.event=="rank_exit" and .rank==1 and .signal==9'
ok "and diagnosed as a rank's" run_wait 20 '.event=="diagnosis" and .class=="rank"'
ok "launched again" run_wait 60 '.event=="first_step" and .attempt==2'
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
run_ends_as_unbroken
tap_done
