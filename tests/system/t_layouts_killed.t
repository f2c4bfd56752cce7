#!/bin/bash
# long: a run and its unbroken twin for each layout
# A rank is killed in each kind of layout (tensor, pipeline, interleaved, all of
# them with data): the run goes on and ends with the unbroken run's weights.
RUN_STEPS=100 TEST_TIME_S=900
. "$(dirname "$0")/run.sh"
test_run 4

# killed NAME NODES RANK KEY=VALUE...
killed() {
    local name=$1 rank=$3
    RUN_NODES=$2
    shift 3
    run_write "$name" "$@"
    ok "$name: submitted" run_submit -N "$RUN_NODES"
    ok "it trains" run_wait_checkpoint 90 20
    ok "rank $rank is killed" cluster_signal "$(run_node_of_rank "$rank")" KILL koboshi-train
    ok "and diagnosed as a rank's" run_wait 20 '.event=="diagnosis" and .class=="rank"'
    ok "launched again" run_wait 60 '.event=="first_step" and .attempt==2'
    run_ends_as_unbroken
}

killed tensor 2 1 parallel.tensor=2
killed pipeline 2 1 parallel.pipeline=2
killed interleaved 2 0 parallel.pipeline=2 parallel.chunks=2 model.layers=4
killed all 4 3 parallel.tensor=2 parallel.pipeline=2
killed data 4 2 parallel.tensor=2
tap_done
