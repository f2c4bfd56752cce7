#!/bin/bash
# Health in mid-run, by a stand-in for the GPU driver that the ranks' nodes load:
# a warning changes nothing, an Xid 79 replaces the node within two seconds, a
# fault that leaves time makes the ranks save first, and the run goes on to its
# end, at length with the weights of one that nothing befell. A driver that hangs
# holds up nobody.
export RUN_STEPS=${RUN_STEPS:-300}
. "$(dirname "$0")/run.sh"
[ -f "$CLUSTER_BUILD/tests/health/libfake_nvml.so" ] || skip_all "no stand-in for the driver"
export TEST_TIME_S=300
test_run 5

# Each node's driver: GPUs, events and faults of its own.
nvml=$CLUSTER_DIR/nvml
mkdir -p "$nvml"
cp "$CLUSTER_BUILD/tests/health/libfake_nvml.so" "$nvml/libnvidia-ml.so.1"
for i in 1 2 3 4 5; do
    cp "$RUN_HERE/../health/hosts/gpu-good/gpus" "$nvml/gpus.node$i"
    : >"$nvml/events.node$i"
done
sed -i 's/^driver .*/driver 550.1/' "$nvml"/gpus.node{3,5}
export LD_LIBRARY_PATH=$nvml FAKE_NVML=$nvml/gpus.%h FAKE_EVENTS=$nvml/events.%h \
    FAKE_FAULT=$nvml/fault.%h
# event NODE XID GPU
event() { echo "$2 $3" >>"$nvml/events.$1"; }
finding() { run_wait "$1" ".event==\"finding\" and .node==\"$2\" and .code==\"$3\" and .choice==\"$4\""; }

ok "submitted" run_submit -N 4 --llm-spares=2
ok "it trains" run_wait_step 90 5
ok "who differs from the others is said" wait_until 20 grep -q \
    "nodes: differs gpu driver: 550.1, usually 570.86.15: node[35]" "$RUN.job.out"
one=$(run_node_of_rank 0)
two=$(run_node_of_rank 1)
# Both watches are up when their drivers' events are heard.
event "$one" 13 2
ok "a warning is told" finding 30 "$one" gpu-xid-app ignore
event "$two" 43 1
ok "a note of the driver too" finding 30 "$two" gpu-xid-info ignore
echo "temperature 3 hangs" >"$nvml/fault.$one"
before=$(date +%s.%N)
event "$two" 79 4
ok "an Xid 79" finding 30 "$two" gpu-xid-fatal replace
ok "is the diagnosis" run_wait 10 ".event==\"diagnosis\" and (.subject|contains(\"$two\"))"
took=$(jq -n "$(run_field '.event=="diagnosis"' time) - $before")
ok "within 2 s ($took s)" jq -ne "$took < 2"
ok "the next attempt makes a step" run_wait 60 '.event=="first_step" and .attempt==2'
nok "without $two" run_has ".event==\"launch\" and .attempt==2 and (.nodes|tostring|contains(\"$two\"))"
is "$(cluster_enter "$two" cat "/run/koboshi/suspect.$JOB")" suspect-health \
    "root's own check in the epilog will be told"
ok "with $one, which had a warning only" run_has \
    ".event==\"launch\" and .attempt==2 and (.nodes|tostring|contains(\"$one\"))"
three=$(run_node_of_rank 1)
event "$three" 95 0
ok "an uncontained memory error" finding 30 "$three" gpu-xid "save and replace"
ok "makes the ranks save" run_wait 30 '.event=="checkpoint_saved" and .attempt==2'
ok "and the last spare take its place" run_wait 60 '.event=="first_step" and .attempt==3'
nok "without $three" run_has ".event==\"launch\" and .attempt==3 and (.nodes|tostring|contains(\"$three\"))"
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
is "$(ls "$RUN/attempts/0001/health" | wc -l)" 4 "each node's report is kept"
if [ -n "${KOBOSHI_TEST_LONG:-}" ]; then
    run_ends_as_unbroken 200
else
    ok "the job ends" run_wait_over 100
    is "$(run_state) $(run_step)" "COMPLETED $RUN_STEPS" "at its last step"
fi
like "$(grep -l pcie_replays "$RUN"/health/*.json | wc -l)" "[1-4]" "and counters are remembered"
tap_done
