#!/bin/bash
# The health gate in prolog and epilog on a real cluster: who pays for it, what
# is written, who is drained and who is not. koboshi-health is a stand-in whose
# answer each node takes from a file, so that a node can be made sick.
. "$(dirname "$0")/../cluster/under_slurm.sh"
fake=$CLUSTER_BUILD/tests/system/gate-fake
mkdir -p "$fake"
export CLUSTER_PLUGIN_ARGS="bindir=$fake health_timeout=3"
export TEST_TIME_S=200
cat >"$fake/koboshi" <<'EOF'
#!/bin/sh
echo "a plan"
EOF
cat >"$fake/koboshi-health" <<EOF
#!/bin/sh
host=\$(cat /proc/sys/kernel/hostname)
echo "\$*" >>"$fake/calls.\$host"
. "$fake/answer.\$host"
EOF
chmod +x "$fake"/koboshi "$fake"/koboshi-health
test_under_slurm 5

# answer NODE VERDICT EXIT CODE SUBJECT
answer() {
    echo "echo '{\"schema\":1,\"verdict\":\"$2\",\"findings\":[]}'
        echo '$2 $4 $5' >&2; exit $3" >"$fake/answer.$1"
}
all_well() {
    local i
    rm -f "$fake"/calls.*
    for i in 1 2 3 4 5; do
        answer node$i ok 0 - -
        cluster_enter node$i rm -rf /run/koboshi
    done
}
calls() { cat "$fake/calls.$1" 2>/dev/null | wc -l; }
reason() { sinfo -h -N -n "$1" -o %E | head -n 1; }
state() { sinfo -h -N -n "$1" -o %T | head -n 1; }
touch "$CLUSTER_DIR/run.yaml"
# job NODE...: a job that asked for the gate, on these nodes; waits for its end.
job() {
    timeout 60 sbatch -W -Q -o "$CLUSTER_DIR/out" \
        --llm-train="$CLUSTER_DIR/run.yaml" "$@" <<'EOF'
#!/bin/bash
srun -l bash -c 'ls -l /run/koboshi; cat /run/koboshi/gate.$SLURM_JOB_ID.json; true'
EOF
}
# Prolog and epilog are over.
idle() { [ "$(sinfo -h -N -t idle,drained -o %N | sort -u | wc -l)" = 5 ]; }
settled() { wait_until 30 idle; }

all_well
ok "a job that did not ask" timeout 20 srun -N1 -w node1 true
is "$(calls node1)" 0 "starts no look"
nok "and leaves no folder" cluster_enter node1 test -e /run/koboshi

ok "a job that asked" job -N1 -w node1
like "$(cat "$CLUSTER_DIR/out")" '"verdict":"ok"' "its steps read the verdict"
like "$(cat "$CLUSTER_DIR/out")" '-rw-r--r-- 1 root root .* gate\.' \
    "root's file, for all to read"
like "$(cat "$fake/calls.node1")" '--json --verdict --level gate' \
    "koboshi-health was asked as agreed"
settled
is "$(calls node1)" 1 "the epilog used the fresh report again"
is "$(cluster_enter node1 sh -c 'ls /run/koboshi | grep -c ^gate')" 0 \
    "the job's verdict is gone with the job"
ok "another job" job -N1 -w node1
is "$(calls node1)" 1 "used the report of a minute ago"

all_well
ok "a job on two nodes" job -N2 -w node1,node2
like "$(cat "$CLUSTER_DIR/out")" '^1: .*gate\.' "the node without the batch script has its verdict"
settled
is "$(calls node1) $(calls node2)" "1 1" "each node was looked at"

all_well
ok "with --llm-health=off" job -N1 -w node1 --llm-health=off
is "$(calls node1)" 0 "nothing is looked at"

all_well
ok "with --llm-health=full" job -N1 -w node1 --llm-health=full
like "$(head -n 1 "$fake/calls.node1")" '--level full .*--active$' \
    "the GPUs are tried, too"
settled
is "$(grep -c -- --active "$fake/calls.node1")" 1 "before the job alone"

all_well
echo "sleep 60" >"$fake/answer.node1"
SECONDS=0
ok "a look that hangs" job -N1 -w node1
like "$(cat "$CLUSTER_DIR/out")" '"verdict":"unknown"' "is unknown"
[ $SECONDS -lt 12 ]
is $? 0 "and costs its deadline at most ($SECONDS s)"
echo "echo garbage; echo fail x y >&2; exit 9" >"$fake/answer.node2"
ok "a look that answers nonsense" job -N1 -w node2
echo "kill -SEGV \$\$" >"$fake/answer.node3"
ok "a look that crashes" job -N1 -w node3
settled
is "$(state node1) $(state node2) $(state node3)" "idle idle idle" \
    "none of these drains"

all_well
answer node1 fail 5 "disk-bad" '/var;reboot'
ok "a node that fails: the job itself is not failed" job -N1 -w node1
ok "the node is drained" wait_until 20 [ "$(reason node1)" = "koboshi: disk-bad /var_reboot" ]
is "$(reason node1)" "koboshi: disk-bad /var_reboot" "with code and subject"
settled
ok "its uptime is kept, so that old log lines are settled" \
    cluster_enter node1 test -s /run/koboshi/klog.after

answer node2 drain 4 "disk-bad" /var
ok "a second node of five" job -N1 -w node2
settled
is "$(state node2)" idle "is not drained: one is the limit of so few"

scontrol update NodeName=node1 State=UNDRAIN
cluster_enter node1 rm -f /run/koboshi/last.gate.json
ok "repaired, but sick again" job -N1 -w node1
settled
is "$(reason node1)" "koboshi: disk-bad /var_reboot" "it is drained again"
scontrol update NodeName=node1 State=UNDRAIN
cluster_enter node1 rm -f /run/koboshi/last.gate.json
ok "repaired and sick for the third time" job -N1 -w node1
settled
is "$(state node1)" idle "is not drained: two an hour, whoever resumed it"

# health.mode of the run's file, where nothing is typed.
all_well
cat >"$fake/koboshi" <<EOF
#!/bin/sh
echo "a plan"
echo "koboshi-submit: KOBOSHI_GATE=\$(cat "$fake/mode")"
EOF
echo off >"$fake/mode"
ok "health.mode: off" job -N2 -w node1,node2
is "$(calls node1) $(calls node2)" "0 0" "nothing is looked at, on both nodes"
echo full >"$fake/mode"
ok "health.mode: full" job -N2 -w node1,node2
like "$(cat "$fake/calls.node2")" '--level full' "reaches the prolog of the other node, too"
settled
echo "whatever; reboot" >"$fake/mode"
all_well
ok "a word that is none" job -N1 -w node1
like "$(cat "$fake/calls.node1")" '--level gate' "is not taken"
is "$(timeout 20 sbatch --llm-dry-run --llm-train="$CLUSTER_DIR/run.yaml")" "a plan" \
    "nobody sees that line"

# What a job suspects makes root's own check look closer, and drains nothing.
all_well
ok "a job that suspects its node" timeout 60 sbatch -W -Q -o /dev/null -N1 -w node1 \
    --llm-train="$CLUSTER_DIR/run.yaml" \
    --wrap 'echo suspect-hang >/run/koboshi/suspect.$SLURM_JOB_ID; echo drain-me >>/run/koboshi/suspect.$SLURM_JOB_ID'
settled
is "$(calls node1)" 2 "the epilog does not use the fresh report"
like "$(tail -n 1 "$fake/calls.node1")" \
    '--level full .*--history=[^ ]*/health.json --job=[0-9]+ --suspect=suspect-hang --active$' \
    "but looks closer, knowing what for"
is "$(state node1)" idle "and finds nothing"
is "$(cluster_enter node1 sh -c 'ls /run/koboshi | grep -c suspect\\.[0-9]')" 0 "the file is gone"

# A drain of somebody else's while the job runs: the epilog finds it.
all_well
timeout 60 sbatch -W -Q -N1 -w node3 -o /dev/null \
    --llm-train="$CLUSTER_DIR/run.yaml" --wrap "touch $CLUSTER_DIR/runs; sleep 4" &
wait_until 20 test -e "$CLUSTER_DIR/runs"
answer node3 fail 5 disk-bad /var
cluster_enter node3 rm -f /run/koboshi/last.gate.json
scontrol update NodeName=node3 State=DRAIN Reason="mine: do not touch"
wait
settled
is "$(calls node3)" 2 "the epilog looked again"
is "$(reason node3)" "mine: do not touch" "another's reason stands"
scontrol update NodeName=node3 State=UNDRAIN

# The real koboshi-health on recorded hosts and a driver that hangs.
hosts=$CLUSTER_TREE/tests/health/hosts
cp -r "$hosts/good" "$CLUSTER_DIR/xid"
cp "$hosts/klog-xids/dev/kmsg" "$CLUSTER_DIR/xid/dev/kmsg"
# really NODE OPTIONS...
really() {
    local node=$1
    shift
    echo "exec $CLUSTER_BUILD/koboshi-health \"\$@\" $*" >"$fake/answer.$node"
}
all_well
lib=$CLUSTER_BUILD/tests/health/libfake_nvml.so
if [ -f "$lib" ]; then
    {
        echo "export FAKE_NVML=$hosts/gpu-good/gpus FAKE_FAULT='temperature 3 hangs'"
        echo "exec $CLUSTER_BUILD/koboshi-health \"\$@\" --nvml $lib --patience 0.2"
    } >"$fake/answer.node2"
    SECONDS=0
    ok "a driver that hangs" job -N1 -w node2
    like "$(cat "$CLUSTER_DIR/out")" '"evidence": "longer than .*NVML temperature of gpu 3' \
        "is a finding, with the call"
    [ $SECONDS -lt 15 ]
    is $? 0 "and holds the job for its deadline at most ($SECONDS s)"
    settled
    is "$(state node2)" idle "and drains nothing"

    # The trial of the job's GPUs, by a program of ours: a wrong product.
    cat >"$CLUSTER_DIR/trial" <<'EOF'
#!/bin/sh
echo '{"kind":"product","gpu":0,"type":"bf16","wrong":1,"row":5,"first":6,"want":"0x40000000","got":"0x40400000","wrong_rows":1,"differ":1,"runs":9,"bits":"ab","tflops":780}'
echo '{"kind":"memory","gpu":0,"wrong":0,"gb_per_s":4300}'
echo '{"kind":"host","gpu":0,"wrong":0,"in_gb_per_s":55,"out_gb_per_s":55}'
echo '{"kind":"end","seconds":1}'
EOF
    chmod +x "$CLUSTER_DIR/trial"
    {
        echo "export FAKE_NVML=$hosts/gpu-h200-real/gpus"
        echo "exec $CLUSTER_BUILD/koboshi-health \"\$@\" --replay $hosts/good --nvml $lib --trial $CLUSTER_DIR/trial"
    } >"$fake/answer.node5"
    ok "a GPU that computes wrong" job -N1 -w node5
    settled
    is "$(state node5)" idle "is not seen by a mere look"
    ok "and a job that asks for more" job -N1 -w node5 --llm-health=full
    settled
    is "$(reason node5)" "koboshi: gpu-product-wrong GPU-recorded-0" "finds it before it begins"
    scontrol update NodeName=node5 State=UNDRAIN
else
    skip "no stand-in for the driver"
fi
really node4 --replay "$CLUSTER_DIR/xid"
ok "an Xid 79 in the kernel log" job -N1 -w node4
settled
is "$(reason node4)" "koboshi: gpu-xid-fatal 0000:3b:00" "drains, naming the GPU"
scontrol update NodeName=node4 State=UNDRAIN
cluster_enter node4 rm -f /run/koboshi/last.gate.json
cluster_enter node4 sh -c 'echo 900000 >/run/koboshi/klog.after'
ok "after a drain and a repair" job -N1 -w node4
settled
is "$(state node4)" idle "the old line does not drain it again"

# All at once: a dead file server.
all_well
for i in 1 2 3 4 5; do answer node$i fail 5 server-dead nfs1; done
ok "a job on five sick nodes" timeout 60 sbatch -W -Q -N5 -o /dev/null \
    --llm-train="$CLUSTER_DIR/run.yaml" --wrap 'srun -N5 true'
settled
n=$(sinfo -h -N -t drain -o %N | wc -l)
[ "$n" -le 1 ]
is $? 0 "at most one of five is drained ($n)"
diag "$(sinfo -N -h -o '%N %T %E')"
tap_done
