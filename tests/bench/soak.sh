#!/bin/bash
# soak - a run of many faults: one a minute, chosen by chance, for 20 minutes.
# Says each fault and how long until the next new step, and at the end the
# effective training time ratio. Every step that was made twice must have had
# the same loss both times; the run must be alive, and go on, at the end.
#
# usage: tests/bench/soak.sh [MINUTES [SEED]]     (20, the date)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../system/run.sh"
if [ -z "${CLUSTER_NODES:-}" ]; then
    export SOAK_MIN=${1:-${SOAK_MIN:-20}} SOAK_SEED=${2:-${SOAK_SEED:-$(date +%s)}}
    export TEST_TIME_S=$((SOAK_MIN * 60 + 500)) RUN_STEPS=1000000
fi
EVERY_S=${SOAK_EVERY_S:-60}
RANDOM=$((SOAK_SEED % 32768))
nodes=6
test_run $nodes recovery.silent_limit=8s recovery.heartbeat=1s recovery.stall_min=15s \
    recovery.max_restarts=1000 checkpoint.interval=50 log.interval=1 eval.interval=0

faults=(rank_killed rank_hangs node_silent node_loud node_cut batch_host
    watcher_killed supervisor_killed requeue suspend slurmctld slurmd)

# ---- One fault each; each says whom ---------------------------------------------

rank_node() { run_node_of_rank $((RANDOM % 2)); }
but_host() {
    run_event '.event=="launch"' | tail -n 1 | jq -r '.nodes[]' | grep -vx "$(run_batch_host)" | head -n 1
}
back_later() { # NODE: not before Slurm has called it down
    (sleep 35; cluster_restore_node "$1") &
}
supervise_pid() { # NODE REGEX of the argument that tells it apart
    local pid
    for pid in $(cluster_pids "$1" koboshi-supervise); do
        tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qE -- "$2" && echo "$pid"
    done | head -n 1
}
fault_rank_killed() { whom=$(rank_node); cluster_signal "$whom" KILL koboshi-train; }
fault_rank_hangs() { whom=$(rank_node); cluster_signal "$whom" STOP koboshi-train; }
fault_node_silent() { whom=$(but_host); cluster_kill_node "$whom"; back_later "$whom"; }
fault_node_loud() { whom=$(but_host); cluster_kill_node "$whom" loud; back_later "$whom"; }
fault_node_cut() { whom=$(but_host); cluster_cut_node "$whom"; back_later "$whom"; }
fault_batch_host() { whom=$(run_batch_host); cluster_kill_node "$whom"; back_later "$whom"; }
fault_watcher_killed() { whom=$(but_host); kill -KILL "$(supervise_pid "$whom" --node)"; }
fault_supervisor_killed() {
    whom=$(run_batch_host)
    kill -KILL "$(supervise_pid "$whom" 'koboshi-supervise *$')"
}
fault_requeue() { whom=$JOB; scontrol requeue "$JOB"; }
fault_suspend() { whom=$JOB; scontrol suspend "$JOB"; sleep 10; scontrol resume "$JOB"; }
fault_slurmctld() { whom=ctl; cluster_stop_slurmctld; sleep 10; cluster_start_slurmctld; }
fault_slurmd() {
    whom=$(but_host)
    cluster_kill_slurmd "$whom"
    sleep 3
    cluster_enter "$whom" /usr/sbin/slurmd -N "$whom"
}

# The newest attempt's last line: the files grow long.
run_step() {
    local file
    for file in $(find "$RUN"/attempts -name metrics.jsonl -size +0 2>/dev/null | sort -r); do
        tail -n 2 "$file" | jq -R 'fromjson? | .step // empty' | tail -n 1 | grep . && return
    done
    echo -1
}

# ---- The run ----------------------------------------------------------------------

# Is there a first step of an attempt after NUMBER?
begun_after() { run_has ".event==\"first_step\" and .attempt>$1"; }
# A node that waits to be called well again (a drain of Slurm's own).
heal_nodes() {
    local node
    for node in $(sinfo -h -N -t drain,drained,draining -o %N 2>/dev/null | sort -u); do
        scontrol update NodeName="$node" State=UNDRAIN 2>/dev/null
    done
}

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_checkpoint 60 50
begin=$(date +%s.%N)
end=$(($(date +%s) + SOAK_MIN * 60))
n=0
echo "# seed $SOAK_SEED; second: fault: whom: seconds to the first step of the next attempt, none: not noticed (attempts)"
while [ "$(date +%s)" -lt $end ] && ! run_over; do
    minute=$(date +%s)
    fault=${faults[RANDOM % ${#faults[@]}]}
    newest=$(run_step)
    before=$(run_attempts)
    t=$(date +%s.%N)
    "fault_$fault" >/dev/null 2>&1
    # A new attempt; or, when there is none for 40 s, steps that go on.
    if wait_until 40 begun_after "$before"; then
        again=1
    elif run_wait_step 5 $((newest + 30)) && [ "$(run_attempts)" = "$before" ]; then
        again=0
    else
        again=1
        wait_until 150 begun_after "$before" || again=never
    fi
    took=$again
    if [ "$again" = 0 ]; then
        took=none
    elif [ "$again" = 1 ]; then
        took=$(run_event ".event==\"first_step\" and .attempt>$before" | head -n 1 |
            jq -r --argjson t "$t" '.time - $t | . * 10 | round / 10')
    fi
    n=$((n + 1))
    printf '# %5d s  %-18s %-8s %6s s  (%s)\n' "$((minute - ${begin%.*}))" "$fault" "$whom" "$took" "$(run_attempts)"
    [ "$took" != never ] || { run_diag; diag "$(squeue -h -o '%T %r %S'; sinfo -h -N -o '%N=%t' | paste -sd ' ')"; }
    heal_nodes
    left=$((minute + EVERY_S - $(date +%s)))
    [ $left -le 0 ] || sleep $left
done
finish=$(date +%s.%N)
ok "after $n faults the run is alive" eval '! run_over' || run_diag
at=$(run_step)
ok "and goes on" run_wait_step 150 $((at + 20))
scancel "$JOB"
run_wait_over 60

# Time of steps that counted in the end, over all time since the first.
all=$CLUSTER_DIR/steps
cat "$RUN"/attempts/*/metrics.jsonl | jq -cR 'fromjson?' >"$all"
jq -sr --argjson begin "$begin" --argjson finish "$finish" '
    map(select(.time > $begin and .time < $finish)) | group_by(.step)
    | (map(last.iteration_ms) | add / 1000) as $useful
    | "# effective training time ratio: \($useful / ($finish - $begin) * 1000 | round / 1000)"
      + " (\(length) steps, \($useful | round) s of \($finish - $begin | round) s)"' "$all"
is "$(jq -s 'group_by(.step) | map(select((map(.loss) | unique | length) > 1)) | length' "$all")" 0 \
    "every step that was made again had the same loss again"
echo "# load at the end $(cut -d' ' -f1-3 /proc/loadavg)"
tap_done
