#!/bin/bash
# Two runs on the same nodes at once: ports, shared memory, sockets and files
# are each one's own; what befalls one does not touch the other.
# long: two runs at a time
export CLUSTER_CPUS=4
. "$(dirname "$0")/run.sh"
test_run 2

ok "one run is submitted" run_submit -N 2 -w node1,node2
one=$JOB
run_write second
ok "another, on the same nodes" run_submit -N 2 -w node1,node2
second=$RUN
ok "it trains" run_wait_step 60 20
RUN=$CLUSTER_DIR/run
ok "so does the first" run_wait_step 60 20
is "$(squeue -h -t R -o %i | wc -l)" 2 "both at once"

# Its own rank, by the run directory in its environment.
rank_of() {
    local pid
    for pid in $(cluster_pids node2 koboshi-train); do
        tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "KOBOSHI_RUN_DIR=$1" && echo "$pid"
    done
}
ok "the second's rank is killed" kill -KILL "$(rank_of "$second")"
RUN=$second
ok "the second goes on" run_wait 60 '.event=="first_step" and .attempt==2' || run_diag
RUN=$CLUSTER_DIR/run
is "$(run_attempts)" 1 "the first did not notice"
JOB=$one
run_ends_as_unbroken
RUN=$second JOB=$((one + 1))
ok "the second ends" run_wait_over 120
want=$(run_weights "$CLUSTER_DIR/run")
is "$(run_state) $(run_weights "$RUN")" "COMPLETED $want" "with the same weights" || run_diag
tap_done
