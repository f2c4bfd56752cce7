#!/bin/bash
# The private cluster itself: it runs jobs on all nodes, wires PMIx ranks, and
# a node can be switched off, seen DOWN, and switched on again.
. "$(dirname "$0")/../cluster/under_slurm.sh"
export TEST_TIME_S=120
test_under_slurm 3

node_state() { sinfo -h -n "$1" -o %t | head -n 1; }
is_down() { case $(node_state "$1") in down*) ;; *) return 1 ;; esac; }
is_idle() { [ "$(node_state "$1")" = idle ]; }
joined() { sort | paste -sd ' '; }

is "$(srun -N3 hostname | joined)" "node1 node2 node3" "a task on each node"
is "$(srun -N3 ls /sys/class/net | sort -u | joined)" "eth0 lo" \
    "a node sees its own network only"
is "$(srun -N3 bash -c 'touch /tmp/$(hostname) /dev/shm/$(hostname) /run/$(hostname)
    ls /tmp /dev/shm /run | grep -c ^node' | sort -u)" 3 \
    "/tmp, /dev/shm and /run are each node's own"
ok "hosts have names" srun -N1 -w node2 bash -c 'exec 3<>/dev/tcp/ctl/6817'

hello=$CLUSTER_BUILD/tests/cluster/pmix_hello
if [ -x "$hello" ]; then
    is "$(srun -N3 -n3 --mpi=pmix timeout 20 "$hello" | joined)" \
        "rank 0 of 3 rank 1 of 3 rank 2 of 3" "PMIx wires three ranks"
else
    skip "pmix_hello is not built"
fi

cluster_kill_node node3
nok "a dead node does not answer" cluster_enter node3 true
ok "the others go on" srun -N2 -w node1,node2 true
ok "the dead node goes DOWN" wait_until 45 is_down node3
cluster_restore_node node3
ok "switched on, it is idle again" wait_until 20 is_idle node3
is "$(srun -N1 -w node3 hostname)" node3 "and runs tasks"

reach_node2() {
    cluster_enter node1 timeout 3 bash -c "exec 3<>/dev/tcp/node2/6818"
}
ok "node1 reaches node2" reach_node2
cluster_cut_node node2
nok "not when node2 is cut off" reach_node2
cluster_restore_node node2
ok "plugged in again it is" timeout 10 srun -N1 -w node2 true

srun -N1 -w node1 sleep 60 &
ok "a process of a node is found by name" wait_until 5 cluster_pids node1 sleep
ok "and killed" cluster_signal node1 KILL sleep
tap_done
