#!/bin/bash
# Some layouts of ranks train as one rank does: every gradient of step 1, loss
# and gradient norm of 20 steps, in fp64 (table.sh; t_layouts.t has them all).
HERE=$(cd "$(dirname "$0")" && pwd)
export TABLE_BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
while IFS= read -r line; do
    case $line in
    *"| shape"* | *---*) echo "# $line" ;;
    *yes\ \|) ok "$line" true ;;
    *) ok "$line" false ;;
    esac
done < <("$HERE/table.sh" --quick gpt2 llama)
tap_done
