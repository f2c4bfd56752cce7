#!/bin/bash
# node - the init of one node of the private cluster: process 1 of the node's
# own pid, net, uts and mount namespaces, made by cluster.sh. Starts slurmd and
# reaps; when it is killed, every process of the node dies with it.
# usage: node.sh NAME ADDRESS GATEWAY
set -u
. "$(dirname "$0")/cluster.sh"
name=$1 address=$2 gateway=$3

# What a node does not share with the others: shared memory, /run (the gate's
# verdicts), /tmp, and a /sys that shows this node's own network. The build
# tree stays visible where the clone lies under /tmp.
private_folders() {
    local keep=$CLUSTER_DIR/tmp/$name.tree
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=755 tmpfs /run
    cluster_fresh_sys "$CLUSTER_DIR/tmp/$name.cgroup"
    case $CLUSTER_TREE/ in
    /tmp/*)
        mkdir -p "$keep"
        mount --bind "$CLUSTER_TREE" "$keep"
        ;;
    esac
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    case $CLUSTER_TREE/ in
    /tmp/*)
        mkdir -p "$CLUSTER_TREE"
        mount --move "$keep" "$CLUSTER_TREE"
        ;;
    esac
}

# cluster.sh puts the other end of the cable in once it knows this process.
network() {
    local tries=0
    ip link set lo up
    until ip link show eth0 >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 500 ] || return 1
        sleep 0.01
    done
    ip addr add "$address/24" dev eth0
    ip link set eth0 up
    ip route add default via "$gateway"
}

hostname "$name"
private_folders
network || { echo "node: $name: no cable came" >&2; exit 1; }
trap : TERM INT HUP
/usr/sbin/slurmd -D -N "$name" </dev/null &
while :; do
    wait
    sleep 0.2
done
