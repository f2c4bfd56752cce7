#!/bin/bash
# A rank hangs: first in compute, so that its peers wait for it in a collective;
# then in a collective that its peers have entered too. The one that is guilty
# is named.
. "$(dirname "$0")/run.sh"
test_run 3

rank0() { run_node_of_rank 0; }
rank1() { run_node_of_rank 1; }

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 20
ok "rank 1 stops" cluster_signal "$(rank1)" STOP koboshi-train
ok "the stall is seen" run_wait 60 '.event=="stall" and .attempt==1' || run_diag
ok "rank 1 is blamed" run_wait 10 \
    '.event=="diagnosis" and .attempt==1 and (.subject|tostring|test("rank 1|node2"))' || run_diag
ok "the run goes on" run_wait 60 '.event=="first_step" and .attempt==2'

# Rank 1 waits in a collective for rank 0, stops there, and rank 0 goes on.
ok "it trains again" run_wait_checkpoint 60 60
ok "rank 0 stops" cluster_signal "$(rank0)" STOP koboshi-train
sleep 1
ok "rank 1 stops in a collective" cluster_signal "$(rank1)" STOP koboshi-train
ok "rank 0 goes on" cluster_signal "$(rank0)" CONT koboshi-train
ok "the stall is seen" run_wait 60 '.event=="stall" and .attempt==2' || run_diag
ok "the run goes on" run_wait 60 '.event=="first_step" and .attempt==3' || run_diag
run_ends_as_unbroken
tap_done
