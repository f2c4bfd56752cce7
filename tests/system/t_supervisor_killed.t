#!/bin/bash
# The supervisor itself is killed: the batch script starts it again, nothing is
# counted as a failure of the run.
. "$(dirname "$0")/run.sh"
test_run 3

# The supervisor, not the watcher beside it: the one without --node or --rank.
supervisor() {
    local pid
    for pid in $(cluster_pids "$(run_batch_host)" koboshi-supervise); do
        tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qE -- '--(node|rank)' || echo "$pid"
    done | head -n 1
}

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
pid=$(supervisor)
ok "the supervisor is killed" kill -KILL "$pid"
another() { [ -n "$(supervisor)" ] && [ "$(supervisor)" != "$pid" ]; }
ok "it is started again" wait_until 30 another
at=$(run_step)
ok "the run goes on" run_wait_step 60 $((at + 20)) || run_diag
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
run_ends_as_unbroken
tap_done
