#!/bin/bash
# A training node is cut off, a spare goes on in its place, and the node comes
# back while the new attempt writes: its old rank harms nothing.
. "$(dirname "$0")/run.sh"
test_run 4

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_checkpoint 60 40
lost=$(run_node_of_rank 1)
cluster_cut_node "$lost"
ok "the loss of $lost is seen" run_wait 30 ".event==\"watcher_lost\" and .node==\"$lost\""
ok "the next step is made without it" run_wait 60 '.event=="first_step" and .attempt==2'
ok "its old rank is still there" cluster_pids "$lost" koboshi-train
cluster_restore_node "$lost"
ok "the new attempt saves" run_wait 60 '.event=="checkpoint_saved" and .attempt==2'
run_ends_as_unbroken
is "$(run_attempts)" 2 "two attempts in all"
tap_done
