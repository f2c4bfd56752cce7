# slurm_conf - the private cluster's configuration files.
# Sourced by cluster.sh; writes into $CLUSTER_DIR/etc. What a test may choose
# comes in CLUSTER_* variables, the defaults of which stand in cluster.sh.
# shellcheck shell=bash

# One line a node; slurm.conf of N and what they all have.
slurm_conf_nodes() {
    local i
    for ((i = 1; i <= $1; i++)); do
        echo "NodeName=$(cluster_name $i) NodeAddr=$CLUSTER_NET.$((CLUSTER_FIRST_HOST - 1 + i)) $2"
    done
}

# slurm.conf of one control host and N nodes on one bridge. proctrack and task
# plugins are those that need neither systemd nor cgroups; timeouts are short,
# so that a dead node is DOWN within half a minute.
slurm_conf_write() {
    local nodes=$1 gres=
    [ "$CLUSTER_GPUS" = 0 ] || gres=" Gres=gpu:$CLUSTER_GPUS"
    cat >"$CLUSTER_DIR/etc/slurm.conf" <<EOF
ClusterName=koboshi
SlurmctldHost=$CLUSTER_CTL($CLUSTER_NET.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=6817
SlurmdPort=6818
AuthType=auth/munge
AuthInfo=socket=$CLUSTER_DIR/munge/socket,cred_expire=$CLUSTER_CRED_EXPIRE

StateSaveLocation=$CLUSTER_DIR/state
SlurmdSpoolDir=$CLUSTER_DIR/spool/%n
TmpFS=$CLUSTER_DIR/tmp/%n
SlurmctldPidFile=$CLUSTER_DIR/pid/slurmctld.pid
SlurmdPidFile=$CLUSTER_DIR/pid/slurmd.%n.pid
SlurmctldLogFile=$CLUSTER_DIR/log/slurmctld.log
SlurmdLogFile=$CLUSTER_DIR/log/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose

ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,bf_interval=5,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides

ReturnToService=2
JobRequeue=1
SlurmdTimeout=$CLUSTER_SLURMD_TIMEOUT
SlurmctldTimeout=30
InactiveLimit=0
KillWait=$CLUSTER_KILL_WAIT
MinJobAge=300
WaitTime=0
TCPTimeout=2
MessageTimeout=10
UnkillableStepTimeout=30
HealthCheckInterval=0
PlugStackConfig=$CLUSTER_DIR/etc/plugstack.conf
${gres:+GresTypes=gpu}
$CLUSTER_CONF
$(slurm_conf_nodes "$nodes" "CPUs=$CLUSTER_CPUS RealMemory=$CLUSTER_MEMORY_MB$gres State=UNKNOWN")
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
EOF
}

# Where systemd does not make the control groups, Slurm must not ask it for them.
slurm_conf_write_cgroup() {
    [ -n "$CLUSTER_CGROUP" ] || return 0
    echo "CgroupPlugin=$CLUSTER_CGROUP" >"$CLUSTER_DIR/etc/cgroup.conf"
}

# Cards that are not there: gres.conf wants device nodes, links to /dev/null do.
slurm_conf_write_gres() {
    local i
    : >"$CLUSTER_DIR/etc/gres.conf"
    [ "$CLUSTER_GPUS" != 0 ] || return 0
    mkdir -p "$CLUSTER_DIR/dev"
    for ((i = 0; i < CLUSTER_GPUS; i++)); do
        ln -sfn /dev/null "$CLUSTER_DIR/dev/nvidia$i"
    done
    echo "Name=gpu File=$CLUSTER_DIR/dev/nvidia[0-$((CLUSTER_GPUS - 1))]" \
        >"$CLUSTER_DIR/etc/gres.conf"
}

# Koboshi's plugin if it has been built, as a site would load it.
slurm_conf_write_plugstack() {
    : >"$CLUSTER_DIR/etc/plugstack.conf"
    [ -f "$CLUSTER_PLUGIN" ] || return 0
    echo "optional $CLUSTER_PLUGIN state_dir=/run/koboshi.state${CLUSTER_PLUGIN_ARGS:+ $CLUSTER_PLUGIN_ARGS}" \
        >"$CLUSTER_DIR/etc/plugstack.conf"
}
