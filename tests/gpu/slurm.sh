#!/bin/bash
# slurm - the real thing on a GPU machine: a private Slurm cluster, sbatch
# --llm-train, NCCL between its nodes, a fault, and the run going on.
#
# usage: slurm.sh [CASE...]      cases: unbroken killed stopped cut; with two cards
#                                also one linked (both cards on one node)
#
# Settings as all.sh says, and
#   SLURM_DEBS    folder of Debian's packages where the machine has not Slurm
#   SLURM_CARDS   GPUs (1): node N has card (N - 1) modulo that; nodes that share
#                 one are told apart by NCCL_HOSTID
#   CLUSTER_BUILD build folder, or one that holds stage/ and stage.prefix (tests/cluster)
# Sums have the same bits only where NCCL sums the same way: algorithm, protocol
# and channels are pinned.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lab.sh"
SLURM_CARDS=${SLURM_CARDS:-1}
part=slurm
[ "$SLURM_CARDS" = 1 ] || part=two
export GPU_BIN GPU_TOKENS GPU_OUT GPU_WORK GPU_DEVICE SLURM_CARDS PART=$part

# In a task, on its node: which card, and which host NCCL takes it for.
write_prolog() {
    local list=${CUDA_VISIBLE_DEVICES:-$(seq -s ' ' 0 $((SLURM_CARDS - 1)))}
    cat >"$GPU_WORK/prolog" <<EOF
#!/bin/sh
echo "export NCCL_HOSTID=\$SLURMD_NODENAME"
set -- ${list//,/ }
[ "\$SLURM_GPUS_PER_NODE" = 1 ] && shift \$(((\${SLURMD_NODENAME#node} - 1) % \$#)) &&
    echo "export CUDA_VISIBLE_DEVICES=\$1"
exit 0
EOF
    chmod +x "$GPU_WORK/prolog"
}

if [ -z "${CLUSTER_NODES:-}" ]; then
    [ -z "${SLURM_DEBS:-}" ] || . "$here/debs.sh" "$SLURM_DEBS"
    write_prolog
    [ "$GPU_DEVICE" = cpu ] || export CLUSTER_CGROUP=${CLUSTER_CGROUP-cgroup/v1}
    export CLUSTER_GPUS=$SLURM_CARDS CLUSTER_CPUS=4 CLUSTER_MEMORY_MB=16000 CLUSTER_LOGS=$GPU_OUT/logs/cluster
    export CLUSTER_CONF="TaskProlog=$GPU_WORK/prolog" CLUSTER_TIME_S=${PART_LIMIT:-480}
    . "$here/../cluster/cluster.sh"
    cluster_run 3 "$here/slurm.sh" "$@"
    exit
fi

. "$here/../system/run.sh"
RUN_STEPS=${SLURM_STEPS:-160}
export NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MIN_NCHANNELS=2 NCCL_MAX_NCHANNELS=2
export NCCL_SOCKET_IFNAME=eth0 NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
RUN_TEXT=$GPU_TOKENS

begin() { # NAME
    run_write "$1" model.preset="${SLURM_PRESET:-gpt2-nano}" model.vocab_size="${SLURM_VOCAB:-50257}" \
        train.device="$GPU_DEVICE" train.deterministic=true health.mode=off \
        checkpoint.interval=20 log.tensorboard=false log.interval=10
}

memory() { # MiB in use on each card
    nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i $CUDA_VISIBLE_DEVICES} --query-gpu=memory.used \
        --format=csv,noheader,nounits 2>/dev/null | tr '\n' ' '
}
ranks() { cluster_pids node1 koboshi-train; cluster_pids node2 koboshi-train; cluster_pids node3 koboshi-train; }
time_of() { run_field "$1" time; }
# Seconds from $begin_s; null where there is none.
since() { python3 -c 'import sys
print(round(float(sys.argv[1]) - float(sys.argv[2]), 3))' "$1" "$begin_s" 2>/dev/null || echo null; }

end() { # waits for the job's end; the digest of its weights
    run_wait_over 150 && run_state_is COMPLETED || { run_diag >&2; return 1; }
    run_weights "$RUN"
}

# One fault: a run, struck at some step, must end as the unbroken one.
fault() { # CASE STRIKE SBATCH ARGUMENTS...
    local struck old after gone first known digest good=false want
    begin "$1"
    run_submit "${@:3}" || return 1
    run_wait_checkpoint 120 40 || { run_diag; put "$PART" "$1" false '"why": "it did not train"'; return 1; }
    old=$(ranks)
    struck=$($2 "$(run_node_of_rank 1)")
    begin_s=$(echo "$struck" | jq -r .time)
    # shellcheck disable=SC2086
    gone=$(python3 "$here/fault.py" gone $(still_counted "$1" $old))
    run_wait 120 '.event=="first_step" and .attempt==2' || run_diag
    first=$(time_of '.event=="first_step" and .attempt==2')
    known=$(time_of '.event=="diagnosis" and .attempt==1')
    peer=$(time_of '.event=="rank_exit" and .attempt==1 and .rank==0')
    [ "$1" != cut ] || cluster_restore_node node2
    digest=$(end)
    want=$(sed -n 's/.*"case": "unbroken".*"weights": "\([^"]*\)".*/\1/p' "$GPU_OUT/results/$PART.jsonl" | tail -n 1)
    [ -n "$want" ] && [ "$digest" = "$want" ] && good=true
    # shellcheck disable=SC2086
    python3 "$here/fault.py" gone $old >/dev/null
    after=$(memory)
    put "$PART" "$1" $good "\"known_s\": $(since "$known"), \"peer_ended_s\": $(since "$peer"),
 \"gone_s\": $(since "$gone"), \"first_step_s\": $(since "$first"), \"struck\": $struck,
 \"diagnosis\": \"$(run_field '.event=="diagnosis"' class)/$(run_field '.event=="diagnosis"' cause)\",
 \"launched_s\": $(since "$(time_of '.event=="launch" and .attempt==2')"),
 \"ranks_up_s\": $(since "$(time_of '.event=="rank_hello" and .attempt==2')"),
 \"loaded_s\": $(since "$(time_of '.event=="resume" and .attempt==2')"),
 \"weights\": \"$digest\", \"mib_before\": \"$MIB\", \"mib_after\": \"$after\""
}
# A node that is cut off cannot be told to end its ranks: the others count.
still_counted() {
    if [ "$1" = cut ]; then cluster_pids node1 koboshi-train; else echo "${@:2}"; fi
}
strike_kill() { python3 "$here/fault.py" strike KILL "$(cluster_pids "$1" koboshi-train | head -n 1)"; }
strike_stop() { python3 "$here/fault.py" strike STOP "$(cluster_pids "$1" koboshi-train | head -n 1)"; }
strike_cut() { cluster_cut_node "$1" && echo "{\"time\": $(date +%s.%N)}"; }

# Seconds from the job's first line to its first step, by part.
unbroken() { # CASE SBATCH ARGUMENTS...
    local digest good=false
    begin "$1"
    begin_s=$(date +%s.%N)
    run_submit "${@:2}" || return 1
    digest=$(end) && good=true
    put "$PART" "$1" $good "\"weights\": \"$digest\", \"attempt_s\": $(since "$(time_of '.event=="attempt_start"')"),
 \"launched_s\": $(since "$(time_of '.event=="launch"')"), \"ranks_up_s\": $(since "$(time_of '.event=="rank_hello"')"),
 \"loaded_s\": $(since "$(time_of '.event=="resume"')"), \"first_step_s\": $(since "$(time_of '.event=="first_step"')"),
 \"rank\": \"$(grep -ho 'first step .* after the start.*' "$RUN.job.out" | head -n 1)\""
}

MIB=$(memory)
cases="unbroken killed stopped cut"
[ "$SLURM_CARDS" = 1 ] || cases="unbroken killed stopped cut linked one"
for case in "${@:-$cases}"; do
    for one in $case; do
        had "$PART" "$one" && continue
        case $one in
        unbroken) unbroken unbroken -N 2 --gpus-per-node=1 ;;
        one) unbroken one -N 1 --gpus-per-node=1 ;;
        killed) fault killed strike_kill -N 2 --gpus-per-node=1 ;;
        stopped) fault stopped strike_stop -N 2 --gpus-per-node=1 ;;
        cut) fault cut strike_cut -N 3 --gpus-per-node=1 --llm-spares=1 ;;
        linked) fault linked strike_kill -N 1 --ntasks-per-node=2 --gpus-per-node=2 ;;
        esac
        [ -z "${RUN:-}" ] || tar -C "$CLUSTER_DIR" -czf "$GPU_OUT/logs/$PART-$one.tgz" \
            --exclude='*.safetensors' "$(basename "$RUN")" "$(basename "$RUN").job.out" 2>/dev/null
    done
done
