#!/bin/bash
# Fewer cores than ranks: a job that asks for GPUs alone gets one core a node on
# many sites. Ranks share it, and the user is told what to ask for.
export CLUSTER_GPUS=2
. "$(dirname "$0")/run.sh"
test_run 1 train.steps=20 train.device=cpu health.mode=off
ok "submitted" run_submit -N 1 --gpus-per-node=2
ok "it ends" run_wait_over 90
is "$(run_state) $(run_step)" "COMPLETED 20" "at its last step" || run_diag
like "$(scontrol show job "$JOB" -o)" " NumCPUs=1 " "with one core"
is "$(run_count '.event=="rank_hello"')" 2 "and two ranks"
like "$(cat "$RUN.job.out")" "2 ranks a node share 1 core;" "which is said"
tap_done
