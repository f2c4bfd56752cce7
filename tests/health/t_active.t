#!/bin/bash
# koboshi-health --active, with programs of ours in the place of the one that
# tries GPUs, and the driver's stand-in: whatever that program does, the report
# comes, in time, and what is not known is unknown.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
build=${CLUSTER_BUILD:-$here/../../build}
health=$build/koboshi-health
library=$build/tests/health/libfake_nvml.so
[ -x "$health" ] && [ -f "$library" ] || skip_all "the stand-in library is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
host=$here/hosts/good
cat >"$scratch/gpus" <<'END'
driver 570.1
gpus 3
gpu 0 name NVIDIA H200
gpu 0 uuid GPU-recorded-0
gpu 0 pci 00000000:1B:00.0
gpu 1 name NVIDIA H200
gpu 1 uuid GPU-recorded-1
gpu 1 pci 00000000:2B:00.0
gpu 2 name NVIDIA H200
gpu 2 uuid GPU-recorded-2
gpu 2 pci 00000000:3B:00.0
gpu 2 processes 1
END
export FAKE_NVML=$scratch/gpus
printf 'active:\n  seconds: 1\n' >"$scratch/site.yaml"

# trial NAME: a program from stdin that can call `line KIND GPU MEMBERS`.
trial() {
    { echo '#!/bin/bash'
      echo 'cat >"$0.request"'
      echo 'line() { echo "{\"kind\":\"$1\",\"gpu\":$2${3:+,}$3}"; }'
      echo 'good() { line product $1 "\"type\":\"bf16\",\"wrong\":0,\"differ\":0,\"runs\":9,\"bits\":\"aa\",\"tflops\":780"
        line memory $1 "\"wrong\":0,\"gb_per_s\":4300"
        line host $1 "\"wrong\":0,\"in_gb_per_s\":55,\"out_gb_per_s\":54"; }'
      echo 'end() { echo "{\"kind\":\"end\",\"seconds\":1}"; }'
      cat; } >"$scratch/$1"
    chmod +x "$scratch/$1"
}
# report TRIAL OPTIONS...
report() {
    local program=$1
    shift
    timeout 20 "$health" --replay "$host" --nvml "$library" --active \
        --expect "$scratch/site.yaml" --trial "$program" "$@" 2>&1
}

trial good <<<'good 0; good 1; end'
out=$(report "$scratch/good" --json --verdict)
like "$out" '"name": "bf16"' "figures are in the report"
is "$(tail -n 1 <<<"$out")" "warn gpu-busy GPU-recorded-2" "healthy GPUs"
like "$(cat "$scratch/good.request")" '"gpus":\[\{"pci":"00000000:1B:00.0"\},\{"pci":"00000000:2B:00.0"\}\]' \
    "the two that nobody uses are tried"
out=$(report "$scratch/good")
like "$out" "not tried: gpu 2: somebody uses it" "the third is left alone"
like "$out" "gpu 1: bf16 780 TFLOP/s, memory 4300 GB/s, host_in 55 GB/s, host_out 54 GB/s" \
    "figures for people"
like "$(report "$scratch/good" --prometheus)" \
    'koboshi_health_figure\{name="bf16",subject="gpu 1",unit="TFLOP/s"\} 780' \
    "figures for Prometheus"
report "$scratch/good" --gpus 1 >"$scratch/out"
like "$(cat "$scratch/good.request")" '"gpus":\[\{"pci":"00000000:2B:00.0"\}\]' "only one asked for"
sed -i '/^gpus 3/a gpu 0 minor 5\ngpu 1 minor 1' "$scratch/gpus"
report "$scratch/good" --gpus 0,5 >"$scratch/out"
like "$(cat "$scratch/good.request")" '"gpus":\[\{"pci":"00000000:1B:00.0"\}\]' "by the device files' numbers"
like "$(report "$scratch/good" --gpus 1,x)" "skipped.*active \(no idle GPU\)" "a list that is none: nothing is tried"

trial wrong <<<'good 1; line product 0 "\"type\":\"bf16\",\"wrong\":1,\"row\":5,\"first\":6,\"want\":\"0x40000000\",\"got\":\"0x40400000\",\"wrong_rows\":1,\"differ\":1,\"runs\":9,\"bits\":\"ab\",\"tflops\":780"
line memory 0 "\"wrong\":0,\"gb_per_s\":4300"; line host 0 "\"wrong\":0,\"in_gb_per_s\":55,\"out_gb_per_s\":54"; end'
out=$(report "$scratch/wrong" --verdict)
like "$out" "^fail +gpu-product-wrong GPU-recorded-0: .*bf16: row 5 column 6 is 3, not 2" "a wrong product"
report "$scratch/wrong" >"$scratch/out"
is $? 5 "is reason to keep jobs away"

# What the driver says while it runs, and counters that it moved.
cp "$scratch/gpus" "$scratch/gpus.quiet"
cat >>"$scratch/gpus" <<'END'
gpu 0 temperature 84
gpu 0 temperature_slowdown 87
gpu 0 clock_reasons 0
gpu 0 pcie_gen 3
gpu 0 pcie_gen_max 5
gpu 0 nvlink_errors 0
gpu 0 nvlinks 18
gpu 0 nvlinks_active 18
END
trial moves <<<'good 0; good 1; end; sleep 0.5
sed -i "s/^gpu 0 clock_reasons 0/gpu 0 clock_reasons 72/; s/^gpu 0 nvlink_errors 0/gpu 0 nvlink_errors 3/" "$FAKE_NVML"
sleep 0.7'
out=$(report "$scratch/moves")
like "$out" "^warn +gpu-pcie-slow GPU-recorded-0: .*generation 3 of 5" "a slow PCI link under load"
like "$out" "^warn +gpu-hw-slowdown GPU-recorded-0: .*under load: clock reasons 0x48" "slowed down under load"
like "$out" "^warn +gpu-hot GPU-recorded-0: .*under load: 84 degrees" "hot under load"
like "$out" "^warn +gpu-nvlink-errors GPU-recorded-0: .*under load: nvlink_errors 3, before 0" "a counter that moved"
like "$out" "^note +gpu 0 under load: 84 degrees, clock reasons 0x48, PCI generation 3" "noted"
mv "$scratch/gpus.quiet" "$scratch/gpus"

# The site's limits are checked.
for line in 'seconds: 90' 'share_percent: 101' 'bf16_tflops: -1' 'bf16_tflops: fast'; do
    printf 'active:\n  %s\n' "$line" >"$scratch/wrong.yaml"
    out=$(report "$scratch/good" --expect "$scratch/wrong.yaml")
    is $? 2 "refused: $line"
done
printf 'active:\n  bf16_tflop: 500\n' >"$scratch/wrong.yaml"
like "$(report "$scratch/good" --expect "$scratch/wrong.yaml")" "active.bf16_tflops" "a key that is none: the nearest is named"

# unknown NAME: what that trial is told as, and that nothing is worse.
unknown() {
    local began=$SECONDS out
    out=$(report "$scratch/$1" --verdict)
    like "$out" "^unknown active-unknown $2" "$1: unknown"
    like "$(tail -n 1 <<<"$out")" "^unknown active-unknown" "$1: and no worse"
    [ $((SECONDS - began)) -lt 10 ]
    is $? 0 "$1: in time"
}
trial hangs <<<'good 0; exec sleep 100'
unknown hangs "node: .*took longer than 2.[0-9]+ s\\)"
like "$(report "$scratch/hangs")" "gpu 0: bf16 780" "what it said before counts"
trial stubborn <<<'trap "" TERM; while :; do sleep 1; done'
unknown stubborn "node: .*took longer"
trial crashes <<<'good 0; kill -SEGV $$'
unknown crashes "node: .*signal 11"
trial fails <<<'good 0; echo "it broke" >&2; exit 3'
unknown fails "node: .*exited with 3: it broke"
trial garbage <<<'head -c 200000 /dev/urandom; yes | head -c 3000000'
unknown garbage "node: .*lines are not understood"
trial silent <<<':'
unknown silent "node: .*did not come to its end"
unknown absent "node: .*not installed"
like "$(report "$scratch/silent" --nvml /nonexistent.so)" "skipped.*active \(no GPU\)" "no GPU"
like "$(FAKE_FAULT='processes 0 hangs' report "$scratch/good" --patience 0.05)" \
    "^unknown probe-hung active.*at NVML processes of gpu 0" "the driver hangs"
sed -i '$a gpu 0 pcie_gen 3\ngpu 0 pcie_gen_max 5\ngpu 0 temperature 60' "$scratch/gpus"
trial slow <<<'good 0; sleep 1; good 1; end'
like "$(report "$scratch/slow")" "^warn +gpu-pcie-slow GPU-recorded-0: .*generation 3 of 5" \
    "a PCI link that stays slow under load"
sed -i '/pcie_gen\|temperature/d' "$scratch/gpus"
sed -i 's/^gpu 2 processes.*//; /^gpus 3/a gpu 0 mig 1\ngpu 1 compute_mode 2\ngpu 2 lost 1' "$scratch/gpus"
rm -f "$scratch/good.request"
like "$(report "$scratch/good")" "skipped.*active \(no idle GPU\)" "instances, exclusive, lost: none is tried"
[ ! -e "$scratch/good.request" ]
is $? 0 "and the program is not started"
# The real one, where it is built and there is no GPU.
if [ -x "$build/koboshi-health-gpu" ] && [ ! -e /dev/nvidiactl ]; then
    sed -i '/ mig \| compute_mode \| lost /d' "$scratch/gpus"
    sed -i 's/seconds: 1/seconds: 5/' "$scratch/site.yaml"
    like "$(report "$build/koboshi-health-gpu")" \
        "^unknown active-unknown GPU-recorded-1: .*CUDA [0-9]+ at start" "without a driver: unknown"
fi
tap_done
