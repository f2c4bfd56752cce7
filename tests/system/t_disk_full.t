#!/bin/bash
# The file system of the run directory is full in mid-run and stays so: the run
# ends as failed and says why, nothing that is half written looks committed;
# with room again the next job goes on.
RUN_STEPS=300
export CLUSTER_RUN_MB=40
. "$(dirname "$0")/run.sh"
test_run 2 checkpoint.interval=40 checkpoint.keep=2

# To what a checkpoint does not fit in.
fill() {
    dd if=/dev/zero of="$RUN/filler" bs=64k status=none 2>/dev/null
    [ "$(df --output=avail "$RUN" | tail -n 1)" -lt 128 ]
}
torn() {
    cat "$RUN"/attempts/*/{journal,metrics}.jsonl |
        jq -cR 'fromjson? // "torn"' | grep -c '^"torn"'
}

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
ok "the disk is full" fill
ok "the job ends" run_wait_over 60
is "$(run_state)" FAILED "a run whose last checkpoint is not there is not done" || run_diag
exit_of() { scontrol show job "$1" -o | grep -oE ' ExitCode=[0-9]+' | cut -d= -f2; }
is "$(exit_of "$JOB")" 2 "as what the user must mend"
like "$(grep supervise "$RUN.job.out")" "No space left on device" "it says why"
like "$(grep stops "$RUN.job.out")" "make room in the run directory" "and what to do"
is "$(run_attempts)" 1 "no further attempt is begun"
for dir in $(run_checkpoints); do
    ok "committed and whole: $(basename "$dir")" \
        koboshi ckpt verify --run-dir "$RUN" "$(basename "$dir")"
done
is "$(torn)" 0 "journal and metrics are whole lines"

# Full at submit: refused. Full only when the job starts: no node is blamed.
nok "refused while it is full" run_submit -N 2
rm "$RUN/filler"
ok "submitted with room, held" run_submit -N 2 --hold
ok "the disk is full again" fill
ok "it starts" scontrol release "$JOB"
ok "it ends" run_wait_over 40
is "$(run_state) $(exit_of "$JOB")" "FAILED 2" "as what the user must mend" || run_diag
is "$(scontrol show job "$JOB" -o | grep -o 'Restarts=[0-9]*')" "Restarts=0" "not requeued for it"

rm "$RUN/filler"
ok "submitted again, with room" run_submit -N 2
ok "it resumes" run_wait 20 '.event=="resume" and .attempt>1 and .step>=40' || run_diag
run_ends_as_unbroken 30
tap_done
