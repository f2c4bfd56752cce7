#!/bin/bash
# A node whose health gate fails is replaced before the first step, drained by
# root, and the run ends as if nothing had been.
. "$(dirname "$0")/run.sh"
fake=$CLUSTER_BUILD/tests/system/gate-run-fake
mkdir -p "$fake"
ln -sf "$CLUSTER_BUILD/koboshi" "$fake/koboshi"
# The gate of node2 sees an Xid 79; all other looks are what they are.
cat >"$fake/koboshi-health" <<EOF
#!/bin/sh
if [ "\$(cat /proc/sys/kernel/hostname)" = node2 ]; then
    exec "$CLUSTER_BUILD/koboshi-health" "\$@" --replay "$fake/xid"
fi
exec "$CLUSTER_BUILD/koboshi-health" "\$@"
EOF
chmod +x "$fake/koboshi-health"
rm -rf "$fake/xid"
cp -r "$RUN_HERE/../health/hosts/good" "$fake/xid"
cp "$RUN_HERE/../health/hosts/klog-xids/dev/kmsg" "$fake/xid/dev/kmsg"
export CLUSTER_PLUGIN_ARGS="bindir=$fake"
test_run 4

ok "submitted" run_submit -N 3 --llm-spares=1 -w node1,node2,node3
ok "preflight finds it" run_wait 60 \
    '.event=="preflight" and .node=="node2" and .ok==false'
like "$(run_event '.event=="preflight" and .node=="node2"' | head -n 1)" \
    "gpu-xid-fatal" "by the gate's verdict"
ok "it trains" run_wait 60 '.event=="first_step"'
nok "without node2" run_has '.event=="launch" and (.nodes|tostring|contains("node2"))'
is "$(sinfo -h -N -n node2 -o %E | head -n 1)" "koboshi: gpu-xid-fatal 0000:3b:00" \
    "root drained it, and says why"
is "$(sinfo -h -N -t drain -o %N | sort -u)" node2 "and no other"
run_ends_as_unbroken
tap_done
