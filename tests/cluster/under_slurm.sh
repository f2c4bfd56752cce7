# under_slurm - a test script that runs inside its own private Slurm cluster.
#
#   . "$(dirname "$0")/../cluster/under_slurm.sh"
#   test_under_slurm 3
#   ok "ranks everywhere" srun -N3 true
#   tap_done
#
# The script is started again by test_under_slurm inside a fresh cluster of
# that many nodes, which ends with it, whatever happens. It has tap.sh and
# cluster.sh's functions, and $CLUSTER_DIR as scratch space that all nodes see.
# Settings (CLUSTER_*, TEST_TIME_S) are exported before the call.
# shellcheck shell=bash

UNDER_SLURM_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/tap.sh
. "$UNDER_SLURM_HERE/../tap.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$UNDER_SLURM_HERE/cluster.sh"
# shellcheck source=tests/cluster/stage.sh
. "$UNDER_SLURM_HERE/stage.sh"

test_under_slurm() {
    local name rc
    [ -z "${CLUSTER_NODES:-}" ] || return 0
    name=$(basename "$0" .t)
    [ "$(id -u)" = 0 ] || skip_all "a private cluster needs root"
    command -v slurmctld slurmd munged >/dev/null ||
        skip_all "slurmctld, slurmd or munged is not installed"
    stage_install || skip_all "nothing is built in $CLUSTER_BUILD"
    export CLUSTER_TIME_S=${TEST_TIME_S:-120}
    export CLUSTER_LOGS=$CLUSTER_BUILD/failed/$name
    SECONDS=0
    cluster_run "$1" "$(realpath "$0")"
    rc=$?
    [ $rc != 137 ] || echo "# ended after $SECONDS s, its limit is $CLUSTER_TIME_S s"
    exit $rc
}
