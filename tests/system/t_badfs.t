#!/bin/bash
# One node sees the run directory through a file system that behaves badly: old
# attributes and names, ESTALE, EIO when a file is closed, hangs. The run loses
# at most a checkpoint, and ends as the unbroken one.
# long: needs libfuse3, four runs
. "$(dirname "$0")/run.sh"
export TEST_TIME_S=900
badfs=$CLUSTER_BUILD/tests/system/badfs
if [ -z "${CLUSTER_NODES:-}" ]; then
    pkg-config --exists fuse3 2>/dev/null && [ -c /dev/fuse ] || skip_all "libfuse3-dev or /dev/fuse is missing"
    # shellcheck disable=SC2046
    ${CC:-gcc} -O1 $(pkg-config --cflags fuse3) -o "$badfs" "$RUN_HERE/badfs.c" $(pkg-config --libs fuse3) ||
        skip_all "badfs does not compile"
fi
test_run 3 checkpoint.interval=30

control=$CLUSTER_DIR/control
behave() { echo "$*" >"$control.new" && mv "$control.new" "$control"; }
well() { rm -f "$control"; }
# begin NAME NODE SECONDS: that node has the run directory by way of badfs.
begin() {
    well
    run_write "$1" checkpoint.interval=30
    behind=$2
    cluster_enter "$2" "$badfs" "$RUN" "$RUN" "$control" "$3" >"$CLUSTER_DIR/$1.badfs" 2>&1 &
    ok "$1: mounted on $2" wait_until 10 cluster_enter "$2" grep -q " $RUN fuse" /proc/mounts
    ok "$1: submitted" run_submit -N 3 --llm-spares=1
    ok "$1: it trains" run_wait_checkpoint 60 30 || run_diag
}
end() {
    well
    ok "$1: it ends" run_wait_over 200
    is "$(run_state) $(run_step)" "COMPLETED $RUN_STEPS" "$1: at its last step" || run_diag
    is "$(run_weights "$RUN")" "$want" "$1: with the weights of the unbroken run"
    [ "$(run_state)" = COMPLETED ] || scancel "$JOB"
    cluster_enter "$behind" umount -l "$RUN"
    wait_until 60 cluster_all_idle 3
}
want=$(run_reference)

for node in node1 node2; do
    begin "stale-$node" $node 15
    ok "stale-$node: a rank is killed" cluster_signal "$(run_node_of_rank 1)" KILL koboshi-train
    ok "stale-$node: it goes on" run_wait 90 '.event=="first_step" and .attempt==2' || run_diag
    end "stale-$node"
done

begin estale node2 0
behave estale 40
at=$(run_step)
ok "estale: steps go on" run_wait_step 60 $((at + 60)) || run_diag
end estale

begin close node2 0
behave close 1
newest=$(run_newest)
at=$(run_step)
ok "close: steps go on" run_wait_step 60 $((at + 70)) || run_diag
is "$(run_newest)" "$newest" "close: nothing is called committed meanwhile"
end close

begin hang node2 0
behave hang 1
ok "hang: it is seen" run_wait 120 '.event=="diagnosis"' || run_diag
like "$(run_field '.event=="diagnosis"' subject) $(run_field '.event=="diagnosis"' evidence)" \
    "node2" "hang: and on which node"
ok "hang: it goes on without it" run_wait 120 '.event=="first_step" and .attempt>=2' || run_diag
end hang
tap_done
