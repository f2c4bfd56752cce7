#!/bin/bash
# The file server is slow: the supervisor hangs in an fsync for a minute, and
# nobody requeues the job; each fsync of the ranks takes seconds, and nobody
# calls that a hang; the time limit comes while a checkpoint is being written.
# long: a minute's wait
. "$(dirname "$0")/run.sh"
RUN_STEPS=1500
export TEST_TIME_S=900
test_run 3 checkpoint.interval=50 train.global_batch=16 recovery.stall_min=30s
mishap=$CLUSTER_BUILD/tests/system/mishap.so
[ -f "$mishap" ] || { skip "mishap.so is not built"; tap_done; }
slow=$CLUSTER_DIR/slow

export LD_PRELOAD=$mishap MISHAP_FSYNC=$slow
ok "submitted" run_submit -N 3 --llm-spares=1
unset LD_PRELOAD MISHAP_FSYNC
ok "it trains" run_wait_checkpoint 60 50
begin=$(date +%s)
echo "koboshi-supervise 60 once" >"$slow.new" && mv "$slow.new" "$slow"
gone() { [ ! -e "$slow" ]; }
ok "the supervisor is stuck in an fsync" wait_until 60 gone
sleep 45
is "$(run_state) $(run_attempts)" "RUNNING 1" "nobody requeues" || run_diag
wake=$((begin + 75 - $(date +%s)))
[ $wake -le 0 ] || sleep $wake
is "$(scontrol show job "$JOB" -o | grep -o 'Restarts=[0-9]*')" "Restarts=0" "nor afterwards"
is "$(run_count '.event=="diagnosis"')" 0 "there was nothing to diagnose" || run_diag

# Fsyncs of 3 s: a checkpoint takes 9 and more.
echo "koboshi-train 3" >"$slow.new" && mv "$slow.new" "$slow"
at=$(run_step)
ok "with a slow disk steps go on" run_wait_step 180 $((at + 60))
newest=$(run_newest)
another() { [ "$(run_newest)" != "$newest" ]; }
ok "and checkpoints are made" wait_until 120 another
is "$(run_attempts)" 1 "nobody calls it a hang" || run_diag
run_wait 20 '.event=="checkpoint_saved"'
scontrol requeue "$JOB"
ok "requeued in the middle of a write" wait_until 60 eval '! run_state_is RUNNING'
rm "$slow"
ok "it runs again" run_wait 120 '.event=="first_step" and .attempt==2' || run_diag
run_ends_as_unbroken 400
tap_done
