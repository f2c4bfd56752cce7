#!/bin/bash
# The batch host dies, and the supervisor with it; a spare is left. Slurm lets
# such a job stay for ever: the watchers requeue it.
. "$(dirname "$0")/run.sh"
test_run 5

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_checkpoint 60 40
host=$(run_batch_host)
cluster_kill_node "$host"
ok "it runs again elsewhere" run_wait 120 '.event=="first_step" and .attempt==2' || run_diag
nok "without $host" run_has ".event==\"launch\" and .attempt==2 and (.nodes|tostring|contains(\"$host\"))"
like "$(scontrol show job "$JOB" -o)" "Restarts=1 " "by one requeue"
run_ends_as_unbroken
tap_done
