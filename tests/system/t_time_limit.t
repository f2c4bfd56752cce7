#!/bin/bash
# The time limit comes near: saved in its last quarter, requeued, gone on from
# there. The ranks are stopped most of the time, so that the steps last longer
# than 45 s on any machine.
. "$(dirname "$0")/run.sh"
RUN_STEPS=1200
export TEST_TIME_S=300
test_run 3 checkpoint.interval=2000

to_ranks() {
    local i
    for i in 1 2 3; do cluster_signal "node$i" "$1" koboshi-train 2>/dev/null; done
}
slow_down() {
    while [ ! -e "$CLUSTER_DIR/full-speed" ]; do
        to_ranks STOP
        sleep 0.4
        to_ranks CONT
        sleep 0.05
    done
}

ok "submitted with a minute" run_submit -N 2 --time=1
ok "it trains" run_wait_step 60 20
slow_down &
ok "it runs again before it is done" run_wait 120 '.event=="resume" and .attempt==2' || run_diag
touch "$CLUSTER_DIR/full-speed"
wait $!
ok "from where it was, not from an old checkpoint" test \
    "$(run_field '.event=="resume" and .attempt==2' step)" -gt 0
nok "not killed at the limit" grep -q 'TIME LIMIT' "$RUN.job.out"
run_ends_as_unbroken 240
tap_done
