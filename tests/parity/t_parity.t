#!/bin/bash
# Some layouts of ranks train as one rank does: every gradient of step 1, loss
# and gradient norm of 20 steps, in fp64 (table.sh; t_layouts.t has them all).
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/rows.sh"
rows 4 --quick gpt2 llama
tap_done
