#!/bin/bash
# Suspended for longer than any limit, then resumed: nobody was at fault.
. "$(dirname "$0")/run.sh"
test_run 3

ok "submitted" run_submit -N 2
ok "it trains" run_wait_step 60 40
ok "suspended" scontrol suspend "$JOB"
ok "it is" wait_until 10 run_state_is SUSPENDED
sleep 20
ok "resumed" scontrol resume "$JOB"
at=$(run_step)
ok "it goes on" run_wait_step 30 $((at + 20)) || run_diag
is "$(run_attempts)" 1 "in the same attempt"
is "$(run_count '.event=="diagnosis"')" 0 "with nothing to diagnose"
run_ends_as_unbroken
tap_done
