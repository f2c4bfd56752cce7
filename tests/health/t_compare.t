#!/bin/bash
# Reports of 200 nodes beside each other, and the text for Prometheus.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
health=${CLUSTER_BUILD:-$here/../../build}/koboshi-health
[ -x "$health" ] || skip_all "koboshi-health is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# report HOST NAME: the JSON of a recorded host under a name.
report() {
    cp -r "$here/hosts/good" "$scratch/host"
    cp -r "$here/hosts/$2/." "$scratch/host"
    sed -i "s/^host .*/host $1/" "$scratch/host/facts"
    "$health" --replay "$scratch/host" --json >"$scratch/reports/$1.json"
    rm -r "$scratch/host"
}
mkdir "$scratch/reports"
report n000 gpu-good
for i in $(seq -w 1 197); do
    sed "s/n000/n$i/" "$scratch/reports/n000.json" >"$scratch/reports/n$i.json"
done
report n198 gpu-lost
report n199 gpu-busy
sed -i 's/570.86.15/550.1/' "$scratch/reports/n077.json"
for i in 010 020 030; do
    sed -i 's/"findings": \[\]/"findings": [{"code":"load-high","severity":"warn","subject":"node"}]/; s/"verdict": "ok"/"verdict": "warn"/' "$scratch/reports/n$i.json"
done
figure='{"name":"bf16","subject":"gpu 3","value":780.5,"unit":"TFLOP\/s"}'
sed -i "s/\"figures\": \[\]/\"figures\": [$figure]/" "$scratch"/reports/*.json
sed -i 's/780.5/412.5/' "$scratch/reports/n150.json"
begin=$(date +%s%N)
out=$("$health" --compare "$scratch/reports")
is $? 0 "compared"
took=$((($(date +%s%N) - begin) / 1000000))
[ $took -lt 1000 ]
is $? 0 "200 nodes in $took ms"
like "$out" "^200 nodes: 195 ok 4 warn 1 fail$|^200 nodes: 195 ok .*1 fail" "verdicts"
like "$out" "^fail +gpu-lost on 1: n198$" "the worst first"
like "$out" "^warn +load-high on 3: n010, n020, n030$" "and where"
like "$out" "^differs gpu driver: 550.1, usually 570.86.15: n077$" "who differs"
is "$(grep -c '^differs' <<<"$out")" 1 "and nobody else"
is "$(grep '^slow' <<<"$out")" "slow    bf16: 412.5 TFLOP/s, usually 780.5: n150 gpu 3" "and who is slow"
is "$(grep -E '^[a-z]' <<<"$out" | grep -v differs | head -n 1 | cut -d' ' -f1)" fail "in order"

echo '{"a":' >"$scratch/reports/zz.json"
like "$("$health" --compare "$scratch/reports")" "^no report in 1: .*zz.json" "a file that is none is told"
"$health" --compare "$scratch/reports/zz.json" >/dev/null 2>&1
is $? 2 "no report at all is an error"
"$health" --compare >/dev/null 2>&1
is $? 2 "nothing to compare too"

report p gpu-memory
cp -r "$here/hosts/good" "$scratch/host"
cp -r "$here/hosts/gpu-memory/." "$scratch/host"
out=$("$health" --replay "$scratch/host" --prometheus)
like "$out" '^koboshi_health_verdict 4$' "Prometheus: the verdict"
like "$out" '^koboshi_health_finding\{code="gpu-remap-failed",severity="fail",subject="GPU-recorded-3"\} 1$' "and findings"
is "$(grep -vE '^(#|[a-z_]+(\{[^}]*\})? [0-9.]+$)' <<<"$out")" "" "every line is of the format"
is "$(grep -v '^#' <<<"$out" | cut -d' ' -f1 | sort | uniq -d)" "" "no series twice"
# Options that would say nothing alone are refused by name.
for words in "--json --prometheus" "--gpus 0" "--suspect suspect-hang" "--job 3" "--run-dir /tmp"; do
    out=$("$health" --replay "$scratch/host" $words 2>&1)
    is "$? $(grep -c -- ": --.*: " <<<"$out")" "2 1" "$words: $out"
done
tap_done
