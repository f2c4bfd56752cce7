#!/bin/bash
# long: hundreds of runs
# All layouts of 1, 2, 3, 4, 6 and 8 ranks train as one rank does: three shapes,
# a batch that divides on all and one that does not, fp64, each twice with the
# same bits; and one shape in fp32.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/rows.sh"
rows 92 --repeat gpt2
rows 84 --repeat llama
rows 92 --repeat qwen
rows 84 --fp32 llama
tap_done
