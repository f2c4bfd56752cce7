#!/bin/bash
# Host names of the shapes that Slurm allows: zero padding, dashes, digits
# inside, one with no digit, dots, upper case, two number parts, more than 15 letters. A
# run on all of them, with a loss and a requeue, and lists that name the right.
# long: one more kind of run
export CLUSTER_NAMES="gpu-a001 gpu-a002 r1-n07 login 8bit.rack-3.example 
    DGX-H100-00012-sixteen-plus"
. "$(dirname "$0")/run.sh"
test_run 6 recovery.silent_limit=3s

all=$(scontrol show hostnames "$(sinfo -h -o %N | paste -sd,)" | sort | paste -sd ' ')
is "$all" "$(printf '%s\n' $CLUSTER_NAMES | sort | paste -sd ' ')" "Slurm has them all"
ok "submitted" run_submit -N 6 --llm-spares=4
ok "it trains" run_wait_checkpoint 60 40 || run_diag
is "$(run_event '.event=="watcher_up"' | jq -r .node | sort -u | paste -sd ' ')" "$all" "a watcher on each"
is "$(run_event '.event=="attempt_start"' | jq -r '(.nodes + .spares)[]' | sort | paste -sd ' ')" "$all" \
    "each trains or is a spare"
# One after the other until each name has been lost or trained.
for attempt in 2 3; do
    lost=$(run_event '.event=="launch"' | tail -n 1 | jq -r '.nodes[]' | grep -vx "$(run_batch_host)" | tail -n 1)
    cluster_kill_node "$lost"
    ok "$lost dies, a spare goes on" run_wait 60 ".event==\"first_step\" and .attempt==$attempt" || run_diag
    nok "without $lost" run_has ".event==\"launch\" and .attempt==$attempt and (.nodes|any(.==\"$lost\"))"
done
run_ends_as_unbroken
tap_done
