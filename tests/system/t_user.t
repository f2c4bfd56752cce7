#!/bin/bash
# Nobody trains: what a user without any right does works, and heals, as what
# root does; what is in the run directory is the user's alone.
RUN_STEPS=160
. "$(dirname "$0")/run.sh"
test_run 3 recovery.silent_limit=3s

# All of the other tests' runs are root's.
user=nobody
as_user() { setpriv --reuid=$user --regid="$(id -g $user)" --clear-groups "$@"; }
sbatch() { as_user "$(type -P sbatch)" "$@"; }
chmod 1777 "$CLUSTER_DIR"
chown $user "$RUN"
ok "a user submits" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
victim=$(run_field '.event=="launch"' 'nodes[]' | grep -vx "$(run_batch_host)" | head -n 1)
cluster_kill_node "$victim"
ok "a node's death requeues it" run_wait 60 '.event=="requeue"'
unset -f sbatch # the unbroken run may be root's
run_ends_as_unbroken 120
like "$(scontrol show job "$JOB" -o)" "ExcNodeList=$victim" "without that node"
is "$(find "$RUN" ! -user $user | head -n 3)" "" "all in the run directory is the user's"
is "$(find "$RUN" -mindepth 1 -perm /077 | head -n 3)" "" "and private"
ok "koboshi status" as_user koboshi status "$RUN"
ok "koboshi report" as_user koboshi report "$RUN"
ok "koboshi ckpt verify" as_user koboshi ckpt verify --run-dir "$RUN"
ok "koboshi generate" as_user koboshi generate --run-dir "$RUN" --tokens 8 --prompt "The"
tap_done
