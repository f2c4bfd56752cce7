#!/bin/bash
# cluster - a private Slurm cluster on one machine, for tests and the demo.
#
# slurmctld, munged, N nodes and whoever talks to them live inside one outer
# set of namespaces (under_slurm.sh or `cluster.sh run` makes it), so no packet
# leaves it, two clusters run side by side, and when its first process ends the
# kernel ends everything in it. Each node is a network, uts, mount and pid
# namespace of its own with a cable to a bridge: it can be switched off, cut
# off and plugged in again. Needs root.
#
# usage: cluster.sh run N [COMMAND...]    a cluster around COMMAND, or a shell
#        inside it: kill-node NODE [loud] | cut-node NODE | restore-node NODE |
#                   kill-slurmd NODE | signal NODE SIGNAL PROGRAM |
#                   stop-slurmctld | start-slurmctld |
#                   enter NODE COMMAND... | status
# Sourced, it gives the same as functions: cluster_start, cluster_kill_node...

CLUSTER_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CLUSTER_TREE=${CLUSTER_TREE:-$(cd "$CLUSTER_HERE/../.." && pwd)}
CLUSTER_BUILD=${CLUSTER_BUILD:-$CLUSTER_TREE/build}
export CLUSTER_TREE CLUSTER_BUILD

# What a test may choose.
export CLUSTER_SLURMD_TIMEOUT=${CLUSTER_SLURMD_TIMEOUT:-10}
export CLUSTER_KILL_WAIT=${CLUSTER_KILL_WAIT:-5}
export CLUSTER_CRED_EXPIRE=${CLUSTER_CRED_EXPIRE:-5}
export CLUSTER_CPUS=${CLUSTER_CPUS:-2}
export CLUSTER_MEMORY_MB=${CLUSTER_MEMORY_MB:-4000}
export CLUSTER_GPUS=${CLUSTER_GPUS:-0}
export CLUSTER_CONF=${CLUSTER_CONF:-}
# Host names in place of node1, node2...
export CLUSTER_NAMES=${CLUSTER_NAMES:-}
# Slurm's cgroup plugin, as cgroup/v1; unset: what it finds by itself.
export CLUSTER_CGROUP=${CLUSTER_CGROUP:-}
# $CLUSTER_DIR/run a file system of its own, so small; unset: it is not.
export CLUSTER_RUN_MB=${CLUSTER_RUN_MB:-}
export CLUSTER_PLUGIN_ARGS=${CLUSTER_PLUGIN_ARGS:-}

CLUSTER_NET=10.77.0
CLUSTER_FIRST_HOST=11
CLUSTER_CTL=ctl
CLUSTER_NODE=node
CLUSTER_BRIDGE=switch

# shellcheck source=tests/cluster/slurm_conf.sh
. "$CLUSTER_HERE/slurm_conf.sh"

# Name and number of a node: node1... or the words of CLUSTER_NAMES.
cluster_name() {
    local names
    # shellcheck disable=SC2206
    names=($CLUSTER_NAMES)
    echo "${names[$1 - 1]:-$CLUSTER_NODE$1}"
}
cluster_index() {
    local name i=0
    for name in $CLUSTER_NAMES; do
        i=$((i + 1))
        [ "$name" != "$1" ] || { echo $i; return; }
    done
    echo "${1#"$CLUSTER_NODE"}"
}
cluster_cable() { echo "cable$(cluster_index "$1")"; }
cluster_address() { echo "$CLUSTER_NET.$((CLUSTER_FIRST_HOST - 1 + $(cluster_index "$1")))"; }
# The node's first process as seen from the control host; nothing when off.
cluster_node_pid() {
    local pid
    pid=$(cat "$CLUSTER_DIR/pid/$1.init" 2>/dev/null) || return 1
    kill -0 "$pid" 2>/dev/null && echo "$pid"
}

# ---- The outer namespaces -------------------------------------------------

# Names of all hosts, as a site's name service would give them.
cluster_write_hosts() {
    local i
    echo "127.0.0.1 localhost"
    echo "$CLUSTER_NET.1 $CLUSTER_CTL"
    for ((i = 1; i <= $1; i++)); do
        echo "$CLUSTER_NET.$((CLUSTER_FIRST_HOST - 1 + i)) $(cluster_name $i)"
    done
}

# A /sys that shows the network of this namespace; the control groups, which
# slurmd insists on, are carried over by way of folder $1.
cluster_fresh_sys() {
    mkdir -p "$1"
    mount --rbind /sys/fs/cgroup "$1" 2>/dev/null || return 0
    if mount -t sysfs sysfs /sys 2>/dev/null; then
        mount --rbind "$1" /sys/fs/cgroup
    fi
    umount -l "$1"
}

# The staged installation over its prefix, seen in here only: programs find
# each other where configure said. What the machine has there stays visible.
cluster_mount_stage() {
    local stage=$CLUSTER_BUILD/stage prefix
    prefix=$(cat "$stage.prefix" 2>/dev/null) || return 0
    [ -d "$stage$prefix" ] || return 0
    mkdir -p "$prefix"
    mount -t overlay overlay -o "lowerdir=$stage$prefix:$prefix" "$prefix" 2>/dev/null ||
        mount --bind "$stage$prefix" "$prefix"
    export PATH=$prefix/bin:$prefix/sbin:$PATH
    export MANPATH=$prefix/share/man:
    CLUSTER_PLUGIN=$(find "$prefix/lib" -name spank_koboshi.so 2>/dev/null | head -n 1)
}

cluster_prepare() {
    mkdir -p "$CLUSTER_DIR"/{etc,munge,state,spool,pid,log,tmp}
    chmod 755 "$CLUSTER_DIR" "$CLUSTER_DIR/munge"
    hostname $CLUSTER_CTL
    mount --make-rprivate /
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    if [ -n "${CLUSTER_RUN_MB:-}" ]; then
        mkdir -p "$CLUSTER_DIR/run"
        mount -t tmpfs -o "size=${CLUSTER_RUN_MB}m,mode=755" tmpfs "$CLUSTER_DIR/run"
    fi
    cluster_fresh_sys "$CLUSTER_DIR/tmp/cgroup"
    cluster_write_hosts "$1" >"$CLUSTER_DIR/etc/hosts"
    [ -e /etc/hosts ] || : >/etc/hosts # the least of Debians has none
    mount --bind "$CLUSTER_DIR/etc/hosts" /etc/hosts
    CLUSTER_PLUGIN=
    cluster_mount_stage
    ip link set lo up
    ip link add $CLUSTER_BRIDGE type bridge
    ip addr add $CLUSTER_NET.1/24 dev $CLUSTER_BRIDGE
    ip link set $CLUSTER_BRIDGE up
}

# ---- Daemons --------------------------------------------------------------

cluster_start_munged() {
    /usr/sbin/mungekey -c -k "$CLUSTER_DIR/munge/key"
    /usr/sbin/munged --force --foreground --num-threads=4 \
        --group-update-time=-1 --key-file="$CLUSTER_DIR/munge/key" \
        --socket="$CLUSTER_DIR/munge/socket" \
        --pid-file="$CLUSTER_DIR/munge/pid" \
        --log-file="$CLUSTER_DIR/log/munged.log" \
        --seed-file="$CLUSTER_DIR/munge/seed" \
        >"$CLUSTER_DIR/log/munged.out" 2>&1 </dev/null &
    cluster_wait 10 test -S "$CLUSTER_DIR/munge/socket"
}

cluster_start_slurmctld() {
    local afresh=-c
    [ ! -f "$CLUSTER_DIR/state/job_state" ] || afresh=
    setsid /usr/sbin/slurmctld -D $afresh >>"$CLUSTER_DIR/log/slurmctld.out" 2>&1 </dev/null &
    echo $! >"$CLUSTER_DIR/pid/slurmctld"
}

# It saves its state and ends; starting it again recovers that.
cluster_stop_slurmctld() {
    local pid
    pid=$(cat "$CLUSTER_DIR/pid/slurmctld") || return 1
    kill -TERM "$pid"
    cluster_wait 20 cluster_gone "$pid"
}
cluster_gone() { ! kill -0 "$1"; }

# Switch a node on: its namespaces, then the cable into them.
cluster_start_node() {
    local name=$1 outer init cable address
    cable=$(cluster_cable "$name")
    address=$(cluster_address "$name")
    mkdir -p "$CLUSTER_DIR/spool/$name" "$CLUSTER_DIR/tmp/$name"
    chmod 1777 "$CLUSTER_DIR/tmp/$name"
    ip link del "$cable" 2>/dev/null
    setsid unshare --net --uts --mount --pid --fork --mount-proc \
        --kill-child=KILL "$CLUSTER_HERE/node.sh" "$name" \
        "$address" $CLUSTER_NET.1 \
        >>"$CLUSTER_DIR/log/$name.out" 2>&1 </dev/null &
    outer=$!
    # Its only child is the node's init: nothing above may start another.
    cluster_wait 5 pgrep -P $outer || return 1
    init=$(pgrep -P $outer | head -n 1)
    echo "$init" >"$CLUSTER_DIR/pid/$name.init"
    ip link add "$cable" type veth peer name eth0 netns "$init" &&
        ip link set "$cable" master $CLUSTER_BRIDGE up
}

# Poll a command until it succeeds, at most SECONDS.
cluster_wait() {
    local tries=$(($1 * 50))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.02
    done
}

cluster_idle_n() { timeout 5 sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l; }
cluster_all_idle() { [ "$(cluster_idle_n)" = "$1" ]; }

# cluster_start N: everything up and N nodes idle, or 1 with a word why.
cluster_start() {
    local i
    cluster_prepare "$1" || return 1
    slurm_conf_write "$1"
    slurm_conf_write_gres
    slurm_conf_write_cgroup
    slurm_conf_write_plugstack
    export SLURM_CONF=$CLUSTER_DIR/etc/slurm.conf
    cluster_start_munged || { echo "cluster: munged does not start" >&2; return 1; }
    cluster_start_slurmctld
    for ((i = 1; i <= $1; i++)); do
        cluster_start_node "$(cluster_name $i)" ||
            { echo "cluster: $(cluster_name $i) does not start" >&2; return 1; }
    done
    cluster_wait 30 cluster_all_idle "$1" && return 0
    echo "cluster: not $1 idle nodes after 30 s" >&2
    sinfo -N -l >&2
    return 1
}

# ---- What can befall a node ------------------------------------------------

# Power off: first the cable leaves the switch, so that not a FIN comes out,
# then all processes die. With `loud` the cable stays: peers see closed
# connections, as after a kernel panic with reboot or a daemon's crash.
cluster_kill_node() {
    local pid
    pid=$(cluster_node_pid "$1") || return 0
    [ "${2:-}" = loud ] || cluster_cut_node "$1"
    kill -KILL "$pid"
    rm -f "$CLUSTER_DIR/pid/$1.init"
}

# The cable leaves the switch; both ends keep their carrier.
cluster_cut_node() { ip link set "$(cluster_cable "$1")" nomaster; }

# Plug in a node that was cut off, or switch on one that is off.
cluster_restore_node() {
    if cluster_node_pid "$1" >/dev/null; then
        ip link set "$(cluster_cable "$1")" master $CLUSTER_BRIDGE
    else
        cluster_start_node "$1"
    fi
}

# cluster_enter NODE COMMAND...
cluster_enter() {
    local pid
    pid=$(cluster_node_pid "$1") || { echo "cluster: $1 is off" >&2; return 1; }
    shift
    nsenter -t "$pid" -n -u -m -p -r "$@"
}

# Process ids (the control host's) of a program on a node, oldest first. The
# name is the whole of argv[0]'s last part, as Linux cuts comm at 15 bytes.
cluster_pids() {
    local init pid argv0
    init=$(cluster_node_pid "$1") || return 1
    for pid in $(pgrep --ns "$init" --nslist pid .); do
        IFS= read -r -d '' argv0 2>/dev/null <"/proc/$pid/cmdline" || continue
        [ "${argv0##*/}" = "$2" ] && echo "$pid"
    done
}

# cluster_signal NODE SIGNAL PROGRAM: each such process; 1 when there is none.
cluster_signal() {
    local pids
    pids=$(cluster_pids "$1" "$3")
    [ -n "$pids" ] || return 1
    # shellcheck disable=SC2086
    kill "-$2" $pids
}

cluster_kill_slurmd() { cluster_signal "$1" KILL slurmd; }

# ---- The program -----------------------------------------------------------

# cluster_run N COMMAND...: make the outer namespaces and run it in there.
cluster_run() {
    local nodes=$1 rc
    shift
    [ "$(id -u)" = 0 ] || { echo "cluster: needs root: sudo $0 ..." >&2; return 1; }
    CLUSTER_DIR=$(mktemp -d "${CLUSTER_SCRATCH:-/var/tmp}/koboshi.XXXXXX")
    export CLUSTER_DIR
    trap 'rm -rf "$CLUSTER_DIR"; exit 143' INT TERM HUP PIPE
    timeout --foreground --signal=KILL "${CLUSTER_TIME_S:-0}" \
        unshare --net --mount --uts --pid --fork --mount-proc \
        --kill-child=KILL "$CLUSTER_HERE/cluster.sh" inside "$nodes" "$@"
    rc=$?
    [ $rc = 0 ] || cluster_keep_logs
    rm -rf "$CLUSTER_DIR"
    return $rc
}

# After a failure: the cluster's logs and the run directories' small files.
cluster_keep_logs() {
    [ -n "${CLUSTER_LOGS:-}" ] || return 0
    rm -rf "$CLUSTER_LOGS"
    mkdir -p "$CLUSTER_LOGS"
    cp -r "$CLUSTER_DIR/log" "$CLUSTER_DIR/etc" "$CLUSTER_LOGS/"
    (
        cd "$CLUSTER_DIR" || exit
        find . -type f \( -name "*.out" -o -name "*.json*" -o -name "*.yaml" -o -path "*/logs/*" \) -size -2M -print0 |
            tar --null -cT - | tar -xC "$CLUSTER_LOGS"
    )
    echo "# logs kept in $CLUSTER_LOGS"
}

# Process 1 of the outer namespaces.
cluster_inside() {
    local nodes=$1
    shift
    cluster_start "$nodes" || exit 1
    export CLUSTER_NODES=$nodes
    cd "${CLUSTER_CWD:-$CLUSTER_DIR}" || exit 1
    "$@"
}

cluster_main() {
    local verb=${1:-}
    [ $# -gt 0 ] && shift
    case $verb in
    run)
        local nodes=${1:?how many nodes}
        shift
        [ $# -gt 0 ] || set -- bash -i
        cluster_run "$nodes" "$@"
        ;;
    inside) cluster_inside "$@" ;;
    kill-node | cut-node | restore-node | kill-slurmd | signal | enter | \
        stop-slurmctld | start-slurmctld)
        : "${CLUSTER_DIR:?only inside cluster.sh run}"
        "cluster_${verb//-/_}" "$@"
        ;;
    status) sinfo -N -l ;;
    *)
        sed -n '/^# usage/,/^# Sourced/p' "$0" | sed 's/^# //'
        exit 2
        ;;
    esac
}

[ "${BASH_SOURCE[0]}" != "$0" ] || cluster_main "$@"
