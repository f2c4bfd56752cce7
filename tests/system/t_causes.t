#!/bin/bash
# Causes that a trainer does not bring about at a word, told apart by a user's
# own script, koboshi-supervise and a stand-in for the ranks.
. "$(dirname "$0")/run.sh"
test_run 4 recovery.stall_min=5s recovery.silent_limit=3s
standin=$CLUSTER_BUILD/tests/supervise/rank_standin
[ -x "$standin" ] || { skip "rank_standin is not built"; tap_done; }

cat >"$CLUSTER_DIR/own.sh" <<EOF
#!/bin/bash
#SBATCH --requeue --no-kill --open-mode=append
exec koboshi-supervise --program $standin
EOF

# begin NAME STEP:RANK:ATTEMPT:WHAT STEPS: a job whose rank does WHAT.
begin() {
    run_write "$1" recovery.stall_min=5s recovery.silent_limit=3s
    export STANDIN_FAULT=$2 STANDIN_STEPS=$3 STANDIN_STEP_MS=50
    cd "$CLUSTER_DIR" || return 1
    JOB=$(sbatch --parsable --llm-train="$RUN_YAML" --output="$RUN.job.out" \
        -N 3 --llm-spares=1 own.sh 2>"$RUN.submit")
    ok "$1: submitted" test -n "$JOB"
}
ends() { ok "$1: it ends as $2" wait_until 60 run_state_is "$2" || run_diag; }
cause() { is "$(run_field '.event=="diagnosis"' cause)" "$2" "$1: the cause"; }
said() { ok "$1: $3" run_has ".event==\"$2\"" || run_diag; }

begin left 10:1:1:exit0 40
ends left COMPLETED
cause left rank_left
is "$(run_attempts)" 2 "left: one more attempt"

begin again 10:1:0:exit12 40
ends again FAILED
cause again rank_error
is "$(run_attempts)" 2 "again: stops at the second time"
like "$(run_field '.event=="stop"' message)" "after step 9" "again: names the step"

begin writer 10:1:1:writer 400
ends writer COMPLETED
cause writer stall
like "$(run_field '.event=="diagnosis"' evidence)" "rank 1 .* writes the checkpoint of step" \
    "writer: says what hangs"

begin user 5:0:1:error 40
ends user FAILED
cause user user_error
is "$(run_attempts)" 1 "user: no second attempt"

begin watcher 0:0:0:nothing 200
ok "watcher: it runs" run_wait 30 '.event=="first_step"'
node=$(run_node_of_rank 1)
for pid in $(cluster_pids "$node" koboshi-supervise); do
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -- '--node' && kill -KILL "$pid"
done
ok "watcher: its loss is seen" run_wait 10 ".event==\"watcher_lost\" and .node==\"$node\""
ends watcher COMPLETED
is "$(run_attempts)" 1 "watcher: the run did not notice"

begin spare 0:0:0:nothing 200
ok "spare: it runs" run_wait 30 '.event=="first_step"'
node=$(run_field '.event=="attempt_start"' 'spares[0]')
cluster_kill_node "$node"
ok "spare: its loss is seen" run_wait 20 ".event==\"watcher_lost\" and .node==\"$node\""
ends spare COMPLETED
is "$(run_attempts)" 1 "spare: the run did not notice"
cluster_restore_node "$node"
ok "spare: back" wait_until 60 cluster_all_idle 4

# Dead, and Slurm does not know it yet: not the first of the job's nodes, which
# runs the batch script.
cluster_kill_node node2
begin before 0:0:0:nothing 40
ends before COMPLETED
ok "before: trained without it" run_has \
    '.event=="launch" and (.nodes|tostring|contains("node2")|not)'
tap_done
