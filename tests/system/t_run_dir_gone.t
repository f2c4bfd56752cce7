#!/bin/bash
# The run directory is read-only from mid-run on, or gone: the run ends as
# failed and says so, no node is blamed; when it is back the next job goes on.
# long: four jobs
RUN_STEPS=300
export CLUSTER_RUN_MB=60
. "$(dirname "$0")/run.sh"
test_run 2 checkpoint.interval=40

exit_of() { scontrol show job "$JOB" -o | grep -oE ' ExitCode=[0-9]+' | cut -d= -f2; }
# fails NAME REGEX: the job ends, as what the user must mend.
fails() {
    ok "$1: the job ends" run_wait_over 120
    is "$(run_state) $(exit_of)" "FAILED 2" "$1: as what the user must mend"
    like "$(grep -a 'supervise:' "$RUN.job.out" | tail -n 6)" "$2" "$1: it says why"
    is "$(scontrol show job "$JOB" -o | grep -o 'Restarts=[0-9]*')" "Restarts=0" "$1: no requeue"
}

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
ok "the file system is read-only" mount -o remount,ro "$CLUSTER_DIR/run"
fails read-only "Read-only file system"
mount -o remount,rw "$CLUSTER_DIR/run"

ok "submitted again" run_submit -N 2
ok "it goes on" run_wait 60 '.event=="resume" and .attempt>1 and .step>=40' || run_diag
at=$(run_step)
ok "it makes steps" run_wait_step 30 $((at + 20))
mkdir "$RUN/away"
for name in attempts ckpt; do mv "$RUN/$name" "$RUN/away/"; done
fails gone "No such file or directory"
for name in attempts ckpt; do
    rm -rf "${RUN:?}/$name"
    mv "$RUN/away/$name" "$RUN/"
done

ok "submitted a third time" run_submit -N 2
ok "it goes on again" run_wait 60 '.event=="resume" and .attempt>2 and .step>=40' || run_diag
run_ends_as_unbroken 60
tap_done
