#!/bin/bash
# koboshi-health --pairs on several nodes, with a program of ours in the place
# of the one that sums, and --compare on their reports: who is to blame.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
build=${CLUSTER_BUILD:-$here/../../build}
health=$build/koboshi-health
library=$build/tests/health/libfake_nvml.so
[ -x "$health" ] && [ -f "$library" ] || skip_all "the stand-in library is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/gpus" <<'END'
driver 570.1
gpus 1
gpu 0 name NVIDIA H200
gpu 0 uuid GPU-recorded-0
gpu 0 pci 00000000:1B:00.0
END
export FAKE_NVML=$scratch/gpus
cp -r "$here/hosts/good" "$scratch/host"
# The program: BAD lists nodes that fail, SLOW nodes that are slow; it knows
# both of a pair by the port: the first round's is even.
cat >"$scratch/trial" <<'END'
#!/bin/bash
request=$(cat)
echo "$request" >>"$scratch/requests"
value() { sed "s/.*\"$1\":\"*\([^,\"}]*\).*/\1/" <<<"$request"; }
me=${nodes%%$self*}
index=$(tr -cd , <<<"$me" | wc -c)
n=$(($(tr -cd , <<<"$nodes" | wc -c) + 1))
round=$(($(value port) % 2))
other=$(((index + round) % 2 ? index - 1 : index + 1))
[ $other -ge 0 ] && [ $other -lt $n ] || other=$((n - 1 - index))
partner=$(cut -d, -f$((other + 1)) <<<"$nodes")
speed=300
for name in $self $partner; do
    [[ " $SLOW " != *" $name "* ]] || speed=100
    [[ " $BAD " != *" $name "* ]] || error=1
done
if [ "$error" ]; then
    echo '{"kind":"reduce","gpu":0,"what":"pair","error":"rank 1 is not there"}'
else
    echo "{\"kind\":\"reduce\",\"gpu\":0,\"what\":\"pair\",\"gb_per_s\":$speed,\"wrong\":0}"
fi
echo '{"kind":"end","seconds":1}'
END
chmod +x "$scratch/trial"
export scratch

# try NODE,NODE,...: their reports, and what is said of them.
try() {
    export nodes=$1 self
    rm -rf "$scratch/reports" "$scratch/requests"
    mkdir "$scratch/reports"
    for self in ${nodes//,/ }; do
        sed -i "s/^host .*/host $self/" "$scratch/host/facts"
        KOBOSHI_SECRET=00ff timeout 20 "$health" --replay "$scratch/host" --nvml "$library" \
            --trial "$scratch/trial" --pairs "$nodes" --pairs-self "$self" \
            --pairs-port 30000 --json >"$scratch/reports/$self.json"
    done
    "$health" --compare "$scratch/reports" | grep '^pair'
}

export BAD='' SLOW=''
is "$(try a,b,c,d)" "pairs of 4 nodes: 4 fit, 0 to blame, 0 unclear, 0 not known" "all fit"
is "$(wc -l <"$scratch/requests")" 8 "each node was tried twice"
is "$(grep -c '"secret":"00ff"' "$scratch/requests")" 8 "with the secret"
is "$(grep -o '"pair":{[^}]*}' "$scratch/requests" | sed 's/,"secret.*//' | sort | paste -sd' ')" \
    '"pair":{"address":"a","node":0,"port":30000 "pair":{"address":"a","node":0,"port":30001 "pair":{"address":"a","node":1,"port":30000 "pair":{"address":"a","node":1,"port":30001 "pair":{"address":"b","node":0,"port":30001 "pair":{"address":"b","node":1,"port":30001 "pair":{"address":"c","node":0,"port":30000 "pair":{"address":"c","node":1,"port":30000' \
    "each at the lower one's address"
like "$(cat "$scratch/reports/b.json")" '"pair 2": "c good 300"' "noted"
out=$(BAD=c try a,b,c,d)
is "$out" "pairs of 4 nodes: 3 fit, 1 to blame, 0 unclear, 0 not known
pair    c: to blame; tried with d and b" "a bad node is told from its partners"
like "$(cat "$scratch/reports/b.json")" '"code": "pair-fails"' "a partner cannot know"
like "$(cat "$scratch/reports/b.json")" '"verdict": "unknown"' "so that it is unknown there"
is "$(SLOW=b try a,b,c,d,e)" "pairs of 5 nodes: 3 fit, 1 to blame, 0 unclear, 1 not known
pair    a: not known; tried with b and nobody
pair    b: to blame; tried with a and c" "a slow node"
is "$(BAD=a try a,b)" "pairs of 2 nodes: 0 fit, 0 to blame, 2 unclear, 0 not known
pair    a: this one, its partner, or what is between them; tried with b and nobody
pair    b: this one, its partner, or what is between them; tried with a and nobody" \
    "two cannot be told apart"

# A node that did not report: what its partners say counts.
try a,b,c,d >"$scratch/out"
rm "$scratch/reports/d.json"
is "$("$health" --compare "$scratch/reports" | grep '^pair')" \
    "pairs of 4 nodes: 4 fit, 0 to blame, 0 unclear, 0 not known" "a report that is missing"
self=x
like "$("$health" --replay "$scratch/host" --nvml "$library" --pairs a,b --pairs-self x)" \
    "skipped.*pairs \(this node is not in the list\)" "not in the list"
like "$("$health" --replay "$scratch/host" --nvml /none.so --pairs a,b --pairs-self a)" \
    "skipped.*pairs \(no GPU\)" "no GPU"
out=$("$health" --replay "$scratch/host" --nvml "$library" --pairs a,b --pairs-self a --trial /nonexistent)
like "$out" "^unknown active-unknown b: .*not installed" "no program: untried"
"$health" --pairs a,b --pairs-port 65535 >/dev/null 2>&1
is $? 2 "not a port"
tap_done
