#!/bin/bash
# scontrol requeue, as a preemption does it: saved, nothing counted, goes on.
. "$(dirname "$0")/run.sh"
test_run 3

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
ok "requeued" scontrol requeue "$JOB"
ok "it runs again" run_wait 90 '.event=="first_step" and .attempt==2' || run_diag
is "$(run_count '.event=="diagnosis" and (.class=="rank" or .class=="node")')" 0 "nobody is blamed"
run_ends_as_unbroken
tap_done
