#!/bin/bash
# long: hundreds of runs
# All layouts of 1, 2, 3, 4, 6 and 8 ranks train as one rank does: three shapes,
# a batch that divides on all and one that does not, fp64, each twice with the
# same bits; and one shape in fp32.
HERE=$(cd "$(dirname "$0")" && pwd)
export TABLE_BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
rows() {
    while IFS= read -r line; do
        case $line in
        *"| shape"* | *---*) echo "# $line" ;;
        *yes\ \|) ok "$line" true ;;
        *) ok "$line" false ;;
        esac
    done
}
rows < <("$HERE/table.sh" --repeat gpt2)
rows < <("$HERE/table.sh" --repeat llama)
rows < <("$HERE/table.sh" --repeat qwen)
rows < <("$HERE/table.sh" --fp32 llama)
tap_done
