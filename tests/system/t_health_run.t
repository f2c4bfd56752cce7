#!/bin/bash
# Health in mid-run: a warning changes nothing, an Xid 79 on a training node
# makes the run save, replace the node and go on.
# long: looks come each 30 s
export RUN_STEPS=${RUN_STEPS:-700}
. "$(dirname "$0")/run.sh"
export TEST_TIME_S=400
test_run 4

# On each node koboshi-health is what its file says.
program=$(command -v koboshi-health)
cp "$program" "$CLUSTER_DIR/real-health"
cat >"$CLUSTER_DIR/health" <<EOF
#!/bin/sh
sick=$CLUSTER_DIR/sick.\$(cat /proc/sys/kernel/hostname)
[ ! -d "\$sick" ] || set -- --json --replay "\$sick"
exec "$CLUSTER_DIR/real-health" "\$@"
EOF
chmod +x "$CLUSTER_DIR/health"
for i in 1 2 3 4; do
    cluster_enter node$i mount --bind "$CLUSTER_DIR/health" "$program"
done
hosts=$RUN_HERE/../health/hosts
# sick NODE CASE: this node is now that recorded host.
sick() {
    rm -rf "$CLUSTER_DIR/sick.new"
    cp -r "$hosts/good" "$CLUSTER_DIR/sick.new"
    cp -r "$hosts/$2/." "$CLUSTER_DIR/sick.new"
    mv "$CLUSTER_DIR/sick.new" "$CLUSTER_DIR/sick.$1"
}

ok "submitted" run_submit -N 3 --llm-spares=1
ok "it trains" run_wait_step 90 5
one=$(run_node_of_rank 0)
two=$(run_node_of_rank 1)
sick "$one" disk-full
sick "$two" gpu-xids
ok "the Xid is found" run_wait 60 ".event==\"diagnosis\" and (.subject|contains(\"$two\"))"
ok "a spare is taken" run_wait 30 '.event=="action" and (.spare // "") != ""'
ok "the next step is made" run_wait 90 '.event=="first_step" and .attempt==2'
nok "without $two" run_has ".event==\"launch\" and .attempt==2 and (.nodes|tostring|contains(\"$two\"))"
ok "with $one, which has a warning only" run_has \
    ".event==\"launch\" and .attempt==2 and (.nodes|tostring|contains(\"$one\"))"
is "$(run_count '.event=="requeue"')" 0 "without a requeue"
run_ends_as_unbroken 200
tap_done
