#!/bin/bash
# comm under Slurm: PMIx gives the place and rank 0's address, MPI moves bytes
# between nodes; a rank that comes too late, and one that goes, are named.
. "$(dirname "$0")/../cluster/under_slurm.sh"
export TEST_TIME_S=150
test_under_slurm 2

ranks=$CLUSTER_BUILD/tests/comm/test_mpi
[ -x "$ranks" ] || skip_all "tests/comm/test_mpi is not built"
run() { srun -N2 -n4 --overcommit --mpi=pmix timeout 60 "$ranks" "$@" 2>&1; }

out=$(run sums)
is "$(grep -c '^ok' <<<"$out")" 27 "sums over two nodes have the serial sum's bits"
is "$(grep -c '^not ok' <<<"$out")" 0 "no check failed"
[ "$(grep -c '^ok' <<<"$out")" = 27 ] || sed 's/^/# /' <<<"$out" | head -n 40
is "$(run late | grep -c '^ok.*\(fails the wire-up\|at its limit\)')" 2 \
    "a late rank fails the wire-up at its limit"
out=$(run die)
is "$(grep -c '^ok' <<<"$out")" 3 "a lost peer ends a collective"
is "$(grep -c 'rank 3 is gone' <<<"$out")" 1 "by its number"
tap_done
