# run - what the system tests of a training run share: real text, a run.yaml, a
# submitted job, its journal to wait on, its final weights.
# Sourced after under_slurm.sh; test_run N sets up a cluster and a run.
#
#   . "$(dirname "$0")/run.sh"
#   test_run 4 recovery.silent_limit=3s
#   run_submit -N 3 --llm-spares=1
#   ok "it trains" run_wait_step 60 20
#   ...
#   run_ends_as_unbroken
#   tap_done
# shellcheck shell=bash

RUN_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/cluster/under_slurm.sh
. "$RUN_HERE/../cluster/under_slurm.sh"
# shellcheck source=tests/text.sh
. "$RUN_HERE/../text.sh"

RUN_STEPS=${RUN_STEPS:-240}

# The configuration of all these tests; a test adds KEY=VALUE. Two ranks, a
# model small enough that steps are short, and limits short enough for a test.
run_defaults() {
    cat <<EOF
run.name=test
train.steps=$RUN_STEPS
train.seq_len=128
train.global_batch=8
train.micro_batch=2
model.preset=llama-micro
data.train=$RUN_TEXT
optim.lr=1e-3
optim.warmup_steps=10
checkpoint.interval=20
checkpoint.keep=3
log.interval=1
guard.healthy_after=5
eval.interval=0
system.blas_threads=1
health.mode=gate
EOF
    run_more
}
# Limits short enough for a test; a script that wants others has its own.
run_more() {
    cat <<EOF
recovery.silent_limit=4s
recovery.heartbeat=500ms
recovery.stall_min=8s
recovery.wireup_limit=20s
EOF
}

# KEY=VALUE lines to YAML: dotted keys become nested ones, later lines win.
run_yaml() {
    awk -F= '{
        key = $1; sub(/^[^=]*=/, ""); value[key] = $0
        if (!(key in seen)) { seen[key] = 1; order[++n] = key }
    } END {
        for (i = 1; i <= n; i++) {
            split(order[i], part, "[.]")
            if (!(part[1] in done)) { done[part[1]] = 1; section[++m] = part[1] }
        }
        for (j = 1; j <= m; j++) {
            print section[j] ":"
            for (i = 1; i <= n; i++) {
                split(order[i], part, "[.]")
                if (part[1] == section[j])
                    print "  " substr(order[i], length(part[1]) + 2) ": " value[order[i]]
            }
        }
    }'
}

# run_write NAME [KEY=VALUE...]: $RUN is the run directory, $RUN_YAML its file.
run_write() {
    RUN=$CLUSTER_DIR/$1
    RUN_YAML=$CLUSTER_DIR/$1.yaml
    shift
    mkdir -p "$RUN"
    {
        run_defaults
        echo "run.dir=$RUN"
        [ $# = 0 ] || printf '%s\n' "$@"
    } | run_yaml >"$RUN_YAML"
}

# test_run NODES [KEY=VALUE...]: to be called first.
test_run() {
    export TEST_TIME_S=${TEST_TIME_S:-300}
    [ -n "${CLUSTER_NODES:-}" ] || run_needs
    test_under_slurm "$1"
    shift
    RUN_TEXT=$CLUSTER_BUILD/tests/text/man
    run_write run "$@"
}

# Outside the cluster: what must be there before it is worth starting one.
run_needs() {
    local program
    command -v jq >/dev/null || skip_all "jq is not installed"
    for program in koboshi koboshi-train koboshi-supervise spank_koboshi.so; do
        [ -e "$CLUSTER_BUILD/$program" ] || skip_all "$program is not built"
    done
    text_tokens "$CLUSTER_BUILD/tests/text" ||
        { echo "not ok 1 - token file of real text"; exit 1; }
}

# ---- The job --------------------------------------------------------------

# run_submit [SBATCH ARGUMENTS...]: sets JOB.
run_submit() {
    cd "$CLUSTER_DIR" || return 1
    JOB=$(sbatch --parsable --llm-train="$RUN_YAML" --output="$RUN.job.out" \
        --open-mode=append "$@" </dev/null 2>"$RUN.submit")
    [ -n "$JOB" ] || { diag "sbatch: $(cat "$RUN.submit")"; return 1; }
}

run_state() { scontrol show job "$JOB" -o 2>/dev/null | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }
run_state_is() { [ "$(run_state)" = "$1" ]; }
run_over() { case $(run_state) in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;; *) return 1 ;; esac; }
run_batch_host() { scontrol show job "$JOB" -o | grep -o 'BatchHost=[^ ]*' | cut -d= -f2; }

# ---- What it wrote --------------------------------------------------------

# All events so far, oldest attempt first; a torn last line is left out.
run_journal() {
    cat "$RUN"/attempts/*/journal.jsonl 2>/dev/null | jq -cR 'fromjson? // empty'
}
# run_event FILTER: the events that a jq condition picks.
run_event() { run_journal | jq -c "select($1)"; }
run_has() { [ -n "$(run_event "$1")" ]; }
run_count() { run_event "$1" | wc -l; }
# run_field FILTER NAME: a field of the first such event.
run_field() { run_event "$1" | head -n 1 | jq -r ".$2"; }
# The newest step in the metrics; -1 before the first.
run_step() {
    cat "$RUN"/attempts/*/metrics.jsonl 2>/dev/null |
        jq -R 'fromjson? | .step // empty' | tail -n 1 | grep . || echo -1
}
run_step_reached() { [ "$(run_step)" -ge "$1" ]; }
run_attempts() { find "$RUN/attempts" -mindepth 1 -maxdepth 1 -type d | wc -l; }

run_wait() { wait_until "$1" run_has "$2"; }
run_wait_step() { wait_until "$1" run_step_reached "$2"; }
run_wait_over() { wait_until "$1" run_over; }
# A committed checkpoint of at least this step.
run_wait_checkpoint() { wait_until "$1" run_checkpoint_reached "$2"; }
run_checkpoint_reached() {
    local newest
    newest=$(run_newest) && [ "$(run_checkpoint_step "$newest")" -ge "$1" ]
}
run_checkpoint_step() { basename "$1" | sed 's/^step-0*\([0-9]\)/\1/; s/\.a.*//'; }
# Folder of the newest committed checkpoint.
run_newest() { run_checkpoints | tail -n 1 | grep .; }
run_checkpoints() {
    find "$RUN/ckpt" -mindepth 2 -maxdepth 2 -name manifest.json -path '*/step-*' \
        -not -path '*/quarantine/*' 2>/dev/null | sed 's|/manifest.json$||' | sort
}

# The node of a rank in the newest attempt, by the ranks' own hello.
run_node_of_rank() {
    run_event ".event==\"rank_hello\" and .rank==$1" | tail -n 1 | jq -r .node
}

# What is known when a run went wrong.
run_diag() {
    diag "state $(run_state), step $(run_step), attempts $(run_attempts)"
    diag "$(run_journal | grep -vE '"event":"checkpoint_(pruned|saved|healthy)' |
        tail -n 15 | cut -c 1-250)"
    diag "$(grep -v ' iteration ' "$RUN.job.out" 2>/dev/null | tail -n 15 | cut -c 1-250)"
}

# ---- Final weights --------------------------------------------------------

# The digest of all tensors of a run's newest checkpoint.
run_weights() { koboshi ckpt digest --run-dir "$1" | cut -d' ' -f1 | grep .; }

# The same run, on the same cluster, that nothing befell; kept for the next
# test with the same programs, text and configuration.
run_reference() {
    local mine=$RUN yaml=$RUN_YAML job=$JOB key kept
    key=$(cat "$CLUSTER_BUILD/koboshi-train" "$RUN_TEXT.bin" \
        <(grep -v "  dir:\|^  name:" "$yaml"; echo "${RUN_NODES:-2}") | sha256sum | cut -c 1-16)
    kept=$CLUSTER_BUILD/tests/text/weights.$key
    (
        flock 9
        [ -s "$kept" ] && exit 0
        RUN=$CLUSTER_DIR/unbroken.$key RUN_YAML=$CLUSTER_DIR/unbroken.$key.yaml
        sed "s|^  dir: .*|  dir: $RUN|" "$yaml" >"$RUN_YAML"
        mkdir -p "$RUN"
        run_submit -N "${RUN_NODES:-2}" && run_wait_over 240 && run_state_is COMPLETED ||
            { run_diag; exit 1; }
        run_weights "$RUN" >"$kept"
    ) 9>"$kept.lock" || return 1
    RUN=$mine RUN_YAML=$yaml JOB=$job
    cat "$kept"
}

# The job ends well, at its last step, with the weights of the unbroken run.
run_ends_as_unbroken() {
    local want
    if ! ok "the job ends" run_wait_over "${1:-150}" ||
        ! is "$(run_state)" COMPLETED "it completed"; then
        run_diag
        return 1
    fi
    is "$(run_step)" "$RUN_STEPS" "at its last step"
    want=$(run_reference) || diag "the unbroken run failed: $want"
    is "$(run_weights "$RUN")" "$want" "final weights are those of the unbroken run"
}
