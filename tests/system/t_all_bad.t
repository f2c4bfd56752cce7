#!/bin/bash
# Every node is bad: the job says so and ends instead of waiting for nodes that
# it has excluded itself.
. "$(dirname "$0")/run.sh"
fake=$CLUSTER_BUILD/tests/system/all-bad-fake
mkdir -p "$fake"
ln -sf "$CLUSTER_BUILD/koboshi" "$fake/koboshi"
cat >"$fake/koboshi-health" <<'EOS'
#!/bin/sh
echo '{"schema":1,"verdict":"fail","findings":[{"code":"fan-dead","subject":"node","severity":"fail","class":"node","message":"no fan turns","advice":"","evidence":""}]}'
echo 'fail fan-dead node' >&2
exit 5
EOS
chmod +x "$fake/koboshi-health"
export CLUSTER_PLUGIN_ARGS="bindir=$fake may_drain=no"
test_run 3

ok "submitted" run_submit -N 2
ok "it ends" run_wait_over 150 || run_diag
is "$(run_state)" FAILED "as failed"
like "$(grep -a stops "$RUN.job.out" | tail -n 1)" "no fan turns|fan-dead" "saying what is bad"
like "$(run_event '.event=="stop"' | tail -n 1)" "excluded|nodes" "and that no nodes are left"
nok "no step was made" run_has '.event=="first_step"'
tap_done
