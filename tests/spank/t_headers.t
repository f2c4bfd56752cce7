#!/bin/bash
# Every file that asks Slurm for something compiles against other releases'
# headers: KOBOSHI_SLURM_HEADERS names folders that hold slurm/slurm.h, with
# colons between (as usr/include of unpacked libslurm-dev packages).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
tree=$(cd "$here/../.." && pwd)
build=$(cd "${CLUSTER_BUILD:-$tree/build}" && pwd)
[ -n "${KOBOSHI_SLURM_HEADERS:-}" ] || skip_all "KOBOSHI_SLURM_HEADERS names no headers"
cd "$tree" || exit 1
mapfile -t files < <(grep -rlE '<slurm/|"spank/context.h"' spank runner tests/spank --include='*.c')
ok "there are such files" test ${#files[@]} -gt 0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
while read -r headers; do
    grep -v HAVE_SLURM_JOB_ID "$build/config.h" >"$scratch/config.h"
    # As configure finds out.
    printf '#include <slurm/slurm.h>\nint main(void) { job_desc_msg_t d; return !sizeof d.job_id; }\n' |
        gcc -I"$headers" -fsyntax-only -xc - 2>/dev/null &&
        echo '#define HAVE_SLURM_JOB_ID 1' >>"$scratch/config.h"
    for file in "${files[@]}"; do
        ok "$file against $headers" gcc -std=gnu17 -Wall -Wextra -Werror -Wno-unused-parameter \
            -fsyntax-only -D_GNU_SOURCE -I"$headers" -I"$scratch" -I. \
            -DKB_BINDIR='"/b"' -DKB_DATADIR='"/d"' "$file"
    done
done < <(tr ':' '\n' <<<"$KOBOSHI_SLURM_HEADERS")
tap_done
