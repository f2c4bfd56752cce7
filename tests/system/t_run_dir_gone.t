#!/bin/bash
# The run directory is read-only from mid-run on: the run ends as failed and says
# so, no node is blamed, and the next job goes on. It is gone: the run ends well,
# and says what it misses.
# long: three jobs
RUN_STEPS=300
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
# On every node, as when the server exports it so from now on.
read_only() {
    local node part
    for node in node1 node2; do
        for part in attempts ckpt; do
            cluster_enter "$node" mount --bind "$RUN/$part" "$RUN/$part" &&
                cluster_enter "$node" mount -o remount,bind,ro "$RUN/$part" || return 1
        done
    done
}
writable() {
    local node part
    for node in node1 node2; do
        for part in attempts ckpt; do cluster_enter "$node" umount -l "$RUN/$part"; done
    done
}
ok "the run directory is read-only" read_only
fails read-only "Read-only file system"
ok "and writable again" writable

ok "submitted again" run_submit -N 2
ok "it goes on" run_wait 60 '.event=="resume" and .attempt>1 and .step>=40' || run_diag
at=$(run_step)
ok "it makes steps" run_wait_step 30 $((at + 20))
mv "$RUN" "$RUN.away"
# What is needed is made again; what was recorded so far is missed.
ok "gone: the job ends" run_wait_over 120
is "$(run_state)" COMPLETED "gone: well"
like "$(grep -a 'supervise:' "$RUN.job.out" | tail -n 6)" "No such file or directory" "gone: it says what it misses"
want=$(run_reference)
is "$(run_weights "$RUN")" "$want" "gone: the last checkpoint is there, as that of the unbroken run"
tap_done
