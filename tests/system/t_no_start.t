#!/bin/bash
# A node on which nothing of ours can start fails each job at once: it is left
# out after the first time, the spare or another node takes its place.
# long: a requeue
. "$(dirname "$0")/run.sh"
test_run 4

# What node2 has in the program's place ends at once.
broken=$CLUSTER_DIR/broken
printf '#!/bin/sh\nexit 1\n' >"$broken"
chmod +x "$broken"
cluster_enter node2 mount --bind "$broken" "$(type -P koboshi-supervise)"

ok "submitted" run_submit -N 3 --llm-spares=1 -w node1,node2,node3
ok "it trains" run_wait 60 '.event=="first_step"' || run_diag
nok "without node2" run_has '.event=="launch" and (.nodes|any(.=="node2"))'
is "$(run_attempts)" 1 "in the first attempt"
scancel "$JOB"
ok "cancelled" run_wait_over 40

run_write bare
ok "submitted, no spare" run_submit -N 2
ok "it requeues itself or finds another" run_wait 120 '.event=="first_step"' || run_diag
nok "without node2" run_has '.event=="launch" and (.nodes|any(.=="node2"))'
ok "node2 failed it at most once" test "$(run_attempts)" -le 2
run_ends_as_unbroken
tap_done
