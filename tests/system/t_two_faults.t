#!/bin/bash
# Two nodes of infrastructure fail one after the other before a checkpoint was
# made between: two different causes, so the run goes on.
# long: two recoveries
. "$(dirname "$0")/run.sh"
test_run 5 checkpoint.interval=60 recovery.silent_limit=3s

other_than_host() {
    run_event ".event==\"launch\" and .attempt==$1" | jq -r '.nodes[]' |
        grep -vx "$(run_batch_host)" | head -n 1
}
ok "submitted" run_submit -N 4 --llm-spares=2
ok "it trains" run_wait_checkpoint 60 60
first=$(other_than_host 1)
cluster_kill_node "$first"
ok "a spare goes on" run_wait 60 '.event=="first_step" and .attempt==2' || run_diag
second=$(other_than_host 2)
cluster_kill_node "$second" loud
ok "the second spare goes on" run_wait 60 '.event=="first_step" and .attempt==3' || run_diag
is "$(run_field '.event=="resume" and .attempt==3' step)" \
    "$(run_field '.event=="resume" and .attempt==2' step)" "from the same checkpoint"
nok "two nodes were blamed, not one" test "$first" = "$second"
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
run_ends_as_unbroken
is "$(run_attempts)" 3 "three attempts in all"
tap_done
