#!/bin/bash
# A node of the run and the only spare die together: the spare is bad too, so
# the job requeues itself without either.
# long: Slurm's own time to call a node down
. "$(dirname "$0")/run.sh"
test_run 5 recovery.silent_limit=3s

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_checkpoint 60 40
spare=$(run_field '.event=="attempt_start"' 'spares[0]')
victim=$(run_field '.event=="launch"' 'nodes[]' | grep -vx "$(run_batch_host)" | head -n 1)
cluster_kill_node "$spare"
cluster_kill_node "$victim"
ok "the job requeues itself" run_wait 60 '.event=="requeue"' || run_diag
excluded() { scontrol show hostnames "$(scontrol show job "$JOB" -o | grep -o 'ExcNodeList=[^ ]*' | cut -d= -f2)" | sort | paste -sd ' '; }
# Three good nodes are left of five.
ok "it runs again" run_wait 120 '.event=="first_step" and .attempt>=2' || run_diag
is "$(excluded)" "$(printf '%s\n' "$spare" "$victim" | sort | paste -sd ' ')" "without either"
run_ends_as_unbroken
tap_done
