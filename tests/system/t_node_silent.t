#!/bin/bash
# A training node dies and not a packet says so: a spare takes its place.
. "$(dirname "$0")/run.sh"
test_run 4

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_checkpoint 60 40
dead=$(run_node_of_rank 1)
cluster_kill_node "$dead"
ok "the loss of $dead is seen" run_wait 20 ".event==\"watcher_lost\" and .node==\"$dead\""
ok "and diagnosed as the node's" run_wait 20 \
    ".event==\"diagnosis\" and .class==\"node\" and (.subject|contains(\"$dead\"))"
ok "a spare is taken" run_wait 20 '.event=="action" and (.spare // "") != ""'
ok "the next step is made" run_wait 60 '.event=="first_step" and .attempt==2'
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
nok "and without $dead" run_has ".event==\"launch\" and .attempt==2 and (.nodes|tostring|contains(\"$dead\"))"
run_ends_as_unbroken
tap_done
