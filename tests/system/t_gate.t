#!/bin/bash
# One node fails the health gate: it is drained with a reason of ours, and the
# job trains without it.
. "$(dirname "$0")/run.sh"
test_run 4

# Root cannot write its own places: what a broken disk looks like.
cluster_enter node2 mount -t tmpfs -o ro tmpfs /var/log
ok "submitted" run_submit -N 3 --llm-spares=1 --llm-health=gate
ok "it trains" run_wait 90 '.event=="first_step"' || run_diag
nok "not on node2" run_has '.event=="launch" and (.nodes|tostring|contains("node2"))'
like "$(sinfo -h -n node2 -o %T)" "drain" "node2 is drained"
like "$(scontrol show node node2 | grep -o 'Reason=.*')" "koboshi: " "with a reason of ours"
run_ends_as_unbroken
tap_done
