#!/bin/bash
# A run that nothing befalls: it ends, has falling loss, reports one attempt,
# and trains to the same bits as `srun koboshi-train` without a supervisor.
. "$(dirname "$0")/run.sh"
test_run 3

ok "submitted without a script" run_submit -N 2
ok "it ends" run_wait_over 120
is "$(run_state)" COMPLETED "well" || run_diag
is "$(run_step)" "$RUN_STEPS" "at its last step"
is "$(run_attempts)" 1 "in one attempt"
ok "the journal says done" run_has '.event=="done"'
nok "and of no loss" run_has '.event=="watcher_lost"'
ok "the loss fell" jq -se '(first.loss) > 1.1 * (last.loss)' "$RUN"/attempts/0001/metrics.jsonl
supervised=$(run_weights "$RUN")

run_write alone
ok "srun koboshi-train alone trains" \
    srun -N2 --ntasks-per-node=1 --mpi=pmix --output="$RUN.out" \
    koboshi-train --config "$RUN_YAML" --run-dir "$RUN"
like "$(head -n 3 "$RUN.out")" unsupervised "and says that it is unsupervised"
is "$(run_weights "$RUN")" "$supervised" "to the same weights"
tap_done
