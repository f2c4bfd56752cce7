#!/bin/bash
# Damaged checkpoints: flipped, cut short, half written. Each is recognised and
# put aside with a reason, the next older is taken; none valid: the run stops.
. "$(dirname "$0")/run.sh"
RUN_STEPS=400
test_run 3

shard() { find "$1" -name 'shard-*.safetensors' -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2; }
flip() {
    local file at byte
    file=$(shard "$1")
    at=$(($(stat -c %s "$file") / 2))
    byte=$(od -An -tu1 -j $at -N 1 "$file")
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$file" bs=1 seek=$at conv=notrunc status=none
}
cut_short() { truncate -s -100 "$(shard "$1")"; }
stop_run() {
    scancel "$JOB"
    run_wait_over 40
}
quarantined() { [ -n "$(find "$RUN/ckpt/quarantine" -maxdepth 1 -name "$(basename "$1")*" 2>/dev/null)" ]; }

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 60
ok "cancelled" stop_run
bad1=$(run_newest)
flip "$bad1"
bad2=$(run_checkpoints | tail -n 2 | head -n 1)
cut_short "$bad2"
good=$(run_checkpoints | tail -n 3 | head -n 1)

ok "submitted again" run_submit -N 2
ok "it resumes" run_wait 60 '.event=="first_step" and .attempt==2' || run_diag
like "$(run_field '.event=="resume" and .attempt==2' checkpoint)" "$(basename "$good")" \
    "from the newest good checkpoint"
ok "the flipped one is in quarantine" quarantined "$bad1"
ok "the cut one is in quarantine" quarantined "$bad2"
ok "with reasons" test "$(run_count '.event=="checkpoint_quarantined" and (.reason|length) > 5')" -ge 2
ok "cancelled again" stop_run

# All of them damaged: never silently from step 0.
for dir in $(run_checkpoints); do cut_short "$dir"; done
ok "submitted a third time" run_submit -N 2
ok "it ends" run_wait_over 60
is "$(run_state)" FAILED "as failed"
ok "and says why" run_has '.event=="stop" and (.message|test("checkpoint"))' || run_diag
nok "no step was made" run_has '.event=="first_step" and .attempt==3'
tap_done
