#!/bin/bash
# The wall clock jumps an hour ahead, then two back, on all nodes and in mid-run:
# nobody is late, nothing is saved for a time limit that is not near.
# long: one more kind of run
. "$(dirname "$0")/run.sh"
RUN_STEPS=500
test_run 2 train.global_batch=4
mishap=$CLUSTER_BUILD/tests/system/mishap.so
[ -f "$mishap" ] || { skip "mishap.so is not built"; tap_done; }
ahead=$CLUSTER_DIR/ahead

export LD_PRELOAD=$mishap MISHAP_CLOCK=$ahead
ok "submitted with an hour" run_submit -N 2 --time=60
unset LD_PRELOAD MISHAP_CLOCK
ok "it trains" run_wait_step 60 60
echo 3600 >"$ahead.new" && mv "$ahead.new" "$ahead"
at=$(run_step)
ok "an hour ahead" run_wait_step 30 $((at + 60)) || run_diag
echo -3600 >"$ahead.new" && mv "$ahead.new" "$ahead"
at=$(run_step)
ok "two hours back" run_wait_step 30 $((at + 60)) || run_diag
run_ends_as_unbroken
is "$(run_attempts)" 1 "in one attempt" || run_diag
is "$(run_count '.event=="signal" or .event=="stall" or .event=="watcher_lost"')" 0 \
    "nobody was late, no limit near"
tap_done
