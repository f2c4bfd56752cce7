#!/bin/bash
# figures - measures the table of recovery figures on the private cluster of 5
# nodes (SlurmdTimeout=10, cred_expire=5, KillWait=5), recovery's settings as
# they are by default, and prints rows for bench/RESULTS.md: the median of the
# rounds, all rounds beside it, Slurm's part and ours apart.
#
# usage: tests/bench/figures.sh [-n ROUNDS] [FIGURE...]      (default 5, all)
#   rank      rank killed -> known -> first new step
#   spare     node powered off silently -> known -> first new step, with spare
#   cut       node cut off -> known
#   requeue   node powered off silently -> first new step, requeued
#   hang      one rank stopped in compute, one in a collective -> known, named
#   ckpt      step time lost to a checkpoint
#   submit    plan and refusal at submit
#   launch    srun -N5 true with and without the plugin
#   station   supervisor with 1,250 simulated nodes of 8 ranks
# CLUSTER_KILL_WAIT=30 tests/bench/figures.sh spare: the same with KillWait=30.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../system/run.sh"

rounds=${FIGURES_ROUNDS:-5}
if [ "${1:-}" = -n ]; then
    rounds=$2
    shift 2
fi
export FIGURES_ROUNDS=$rounds TEST_TIME_S=${TEST_TIME_S:-3000} RUN_STEPS=100000
[ -n "${CLUSTER_NODES:-}" ] || export FIGURES="${*:-rank spare cut requeue hang ckpt submit launch station}"
# No limits of the tests: a user's, which are recovery's own defaults.
run_more() { printf '%s\n' run.name=figures train.global_batch=12; }
test_run 5

commit=$(git -C "$RUN_HERE" rev-parse --short HEAD 2>/dev/null || echo unknown)
now() { date +%s.%N; }
minus() { awk "BEGIN { printf \"%.2f\", $1 - $2 }"; }
plus() { awk "BEGIN { printf \"%.2f\", $1 + $2 }"; }
median() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END {
    print NR ? (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) : "none" }'; }
row() { # WHAT GOAL VALUES...
    local what=$1 goal=$2
    shift 2
    echo "| $(date -u +%F) | $commit | $what | $goal | $(median "$@") | $* |"
}
trouble() { diag "no figure: $*"; run_diag >&2; }
# The time of the first event that a filter picks, waited for.
at() { run_wait "$1" "$2" || { trouble "$2"; return 1; }; run_field "$2" time; }

# begin NAME SBATCH-ARGUMENTS...: a run that trains and has a checkpoint.
begin() {
    local name=$1
    shift
    run_write "$name"
    run_submit "$@" && run_wait_checkpoint 90 40 || { trouble "$name does not train"; return 1; }
}
finish() {
    scancel "$JOB"
    run_wait_over 60
    wait_until 90 cluster_all_idle 5
    rm -rf "$RUN"
}
training_not_host() {
    run_event ".event==\"launch\"" | tail -n 1 | jq -r '.nodes[]' |
        grep -vx "$(run_batch_host)" | head -n 1
}

figure_rank() {
    local i t known=() step=()
    begin rank -N 2 || return
    for ((i = 1; i <= rounds; i++)); do
        local node newest
        node=$(run_node_of_rank 1)
        newest=$(run_checkpoint_step "$(run_newest)")
        t=$(now)
        cluster_signal "$node" KILL koboshi-train
        known+=("$(minus "$(at 30 ".event==\"rank_exit\" and .rank==1 and .attempt==$i")" "$t")")
        step+=("$(minus "$(at 60 ".event==\"first_step\" and .attempt==$((i + 1))")" "$t")")
        run_wait_checkpoint 60 $((newest + 40))
    done
    finish
    row "rank killed -> known, s" 1 "${known[@]}"
    row "rank killed -> first new step, s" "" "${step[@]}"
}

# node_lost HOW(kill|cut): rounds of one job each; sets known, step.
node_lost() {
    local i t node
    known=() step=() lost=()
    for ((i = 1; i <= rounds; i++)); do
        begin "$1$i" -N 4 --llm-spares=1 || return
        node=$(training_not_host)
        at_step=$(run_step)
        t=$(now)
        "cluster_$1_node" "$node"
        known+=("$(minus "$(at 40 '.event=="diagnosis" and .attempt==1')" "$t")")
        step+=("$(minus "$(at 90 '.event=="first_step" and .attempt==2')" "$t")")
        lost+=($((at_step - $(run_field '.event=="resume" and .attempt==2' step))))
        scancel "$JOB"
        run_wait_over 60
        cluster_restore_node "$node"
        finish
    done
}
figure_spare() {
    local known step lost
    node_lost kill
    row "node powered off silently -> known, s (KillWait=$CLUSTER_KILL_WAIT)" 10 "${known[@]}"
    row "node death -> first new step, with spare, s (KillWait=$CLUSTER_KILL_WAIT)" 15 "${step[@]}"
    row "steps lost to it (checkpoint.interval 20)" 20 "${lost[@]}"
}
figure_cut() {
    local known step lost
    node_lost cut
    row "node cut off -> known, s" 10 "${known[@]}"
}

# Ours: from the diagnosis to the requeue call, and from the job's start (whole
# seconds, rounded down) to the first step. The rest is Slurm's.
figure_requeue() {
    local i t node all=() ours=() slurms=()
    for ((i = 1; i <= rounds; i++)); do
        local diagnosed asked started first
        begin "requeue$i" -N 3 || return
        node=$(training_not_host)
        t=$(now)
        cluster_kill_node "$node"
        diagnosed=$(at 40 '.event=="diagnosis" and .attempt==1')
        asked=$(at 20 '.event=="requeue"')
        first=$(at 120 '.event=="first_step" and .attempt==2') || return
        started=$(date -d "$(scontrol show job "$JOB" -o | grep -o ' StartTime=[^ ]*' | cut -d= -f2)" +%s)
        all+=("$(minus "$first" "$t")")
        ours+=("$(plus "$(minus "$asked" "$diagnosed")" "$(minus "$first" "$started")")")
        slurms+=("$(minus "$started" "$asked")")
        scancel "$JOB"
        run_wait_over 60
        cluster_restore_node "$node"
        finish
    done
    row "node death -> first new step, by requeue, in all, s" 45 "${all[@]}"
    row "of which ours (decision to requeue call, job start to first step), s" 8 "${ours[@]}"
    row "of which Slurm's (requeue call to job start), s" "" "${slurms[@]}"
}

figure_hang() {
    local i t named=0 tries=0 compute=() collective=()
    begin hang -N 2 || return
    for ((i = 1; i <= 2 * rounds; i++)); do
        local newest a b d
        a=$(run_node_of_rank 0) b=$(run_node_of_rank 1)
        newest=$(run_checkpoint_step "$(run_newest)")
        t=$(now)
        if [ $((i % 2)) = 1 ]; then
            cluster_signal "$b" STOP koboshi-train
        else # rank 0 is late, rank 1 stops where it waits for it
            cluster_signal "$a" STOP koboshi-train
            sleep 0.7
            cluster_signal "$b" STOP koboshi-train
            cluster_signal "$a" CONT koboshi-train
        fi
        d=$(at 120 ".event==\"diagnosis\" and .attempt==$i") || return
        [ $((i % 2)) = 1 ] && compute+=("$(minus "$d" "$t")") || collective+=("$(minus "$d" "$t")")
        tries=$((tries + 1))
        [ "$(run_field ".event==\"diagnosis\" and .attempt==$i" rank)" = 1 ] && named=$((named + 1))
        run_wait 90 ".event==\"first_step\" and .attempt==$((i + 1))"
        run_wait_checkpoint 60 $((newest + 40))
    done
    finish
    row "rank hangs in compute -> known, s" "30 or 3 x the slowest step" "${compute[@]}"
    row "rank hangs in a collective -> known, s" "30 or 3 x the slowest step" "${collective[@]}"
    row "the right rank named, times of $tries" "$tries" "$named"
}

# Over a run's steps: how much longer the step is that follows a save's begin.
figure_ckpt() {
    local i lost=()
    for ((i = 1; i <= rounds; i++)); do
        run_write "ckpt$i" model.preset=llama-nano checkpoint.interval=10 train.global_batch=16
        run_submit -N 2 && run_wait_step 120 90 || { trouble ckpt; return; }
        lost+=("$(cat "$RUN"/attempts/*/metrics.jsonl | jq -sr '
            map(select(.step > 20))
            | (map(select(.step % 10 > 2 or .step % 10 == 0) | .iteration_ms) | sort | .[length / 2 | floor]) as $usual
            | (map(select(.step % 10 == 1 or .step % 10 == 2) | .iteration_ms) | sort | .[length / 2 | floor]) as $after
            | ($after - $usual) / $usual * 1000 | round / 10')")
        finish
    done
    row "step time lost to a checkpoint, % of a step" 5 "${lost[@]}"
}

figure_submit() {
    local i t plan=() refuse=() cold=()
    for ((i = 1; i <= 4 * rounds; i++)); do
        t=$(now)
        koboshi plan --submit "$RUN_YAML" >/dev/null 2>&1
        plan+=("$(awk "BEGIN { printf \"%.0f\", ($(now) - $t) * 1000 }")")
    done
    run_write wrong train.step=1
    for ((i = 1; i <= 4 * rounds; i++)); do
        t=$(now)
        sbatch --llm-train="$RUN_YAML" -N 2 </dev/null >/dev/null 2>&1
        refuse+=("$(awk "BEGIN { printf \"%.0f\", ($(now) - $t) * 1000 }")")
    done
    for ((i = 1; i <= rounds; i++)); do
        sync
        echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || break
        t=$(now)
        koboshi plan --submit "$RUN_YAML" >/dev/null 2>&1
        cold+=("$(awk "BEGIN { printf \"%.0f\", ($(now) - $t) * 1000 }")")
    done
    row "plan at submit, ms" 100 "${plan[@]}"
    row "refusal at submit (the whole sbatch), ms" 100 "${refuse[@]}"
    [ ${#cold[@]} = 0 ] || row "plan at submit from a cold cache, ms" 200 "${cold[@]}"
}

# Pairs, so that a busy machine weighs on both.
figure_launch() {
    local i with=() without=() conf=$CLUSTER_DIR/etc/plugstack.conf
    cp "$conf" "$CLUSTER_DIR/plugstack.kept"
    launch_ms() {
        local t
        t=$(now)
        srun -Q -N5 true 2>/dev/null
        awk "BEGIN { printf \"%.0f\", ($(now) - $t) * 1000 }"
    }
    for ((i = 1; i <= 4 * rounds; i++)); do
        with+=("$(launch_ms)")
        : >"$conf"
        without+=("$(launch_ms)")
        cp "$CLUSTER_DIR/plugstack.kept" "$conf"
    done
    row "srun -N5 true with the plugin, no --llm-train, ms" "" "${with[@]}"
    row "the same without the plugin, ms" "" "${without[@]}"
}

figure_station() {
    "$CLUSTER_BUILD/tests/supervise/bench_station" 1250 20 | sed 's/^/| 1,250 nodes of 8 ranks: /; s/$/ |/'
}

echo "Load $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores; $rounds rounds."
echo
echo "| date | commit | quantity | goal | median | rounds |"
echo "|---|---|---|---|---|---|"
for figure in $FIGURES; do
    "figure_$figure"
done
