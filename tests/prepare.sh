# prepare - what check and demo do first: install what is missing, build.
# Sourced. Quiet when there is nothing to do; says each step that takes time.
# shellcheck shell=bash

PREPARE_TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PREPARE_BUILD=${CLUSTER_BUILD:-$PREPARE_TREE/build}

# Debian 12's packages: to build, to run a cluster, to test.
PREPARE_PACKAGES="
    gcc make autoconf automake pkg-config
    libslurm-dev libpmix-dev libopenmpi-dev libopenblas-dev libjansson-dev
    libyaml-dev libcurl4-openssl-dev libssl-dev libxxhash-dev
    slurmctld slurmd slurm-client munge openmpi-bin iproute2 procps util-linux
    jq perl man-db manpages manpages-ja"

prepare_say() { echo "${0##*/}: $*" >&2; }

prepare_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

prepare_missing() {
    local package
    for package in $PREPARE_PACKAGES; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed || echo "$package"
    done
}

# prepare_install: 1 when something is missing and cannot be installed.
prepare_install() {
    local missing
    command -v dpkg-query >/dev/null ||
        { prepare_say "not Debian: install by hand: $PREPARE_PACKAGES"; return 0; }
    missing=$(prepare_missing)
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086
    prepare_say "installing" $missing
    export DEBIAN_FRONTEND=noninteractive
    # Not by way of a pager or the network's good will: each at most 5 minutes.
    # shellcheck disable=SC2086
    if prepare_as_root timeout 300 apt-get update -qq >/dev/null &&
        prepare_as_root timeout 300 apt-get install -qq -y \
            --no-install-recommends $missing >/dev/null; then
        return 0
    fi
    # shellcheck disable=SC2086
    prepare_say "cannot install; do it by hand: apt-get install" $missing
    return 1
}

# prepare_build [make targets]: configures into build/ and builds. What make
# prints is shown only when it fails.
prepare_build() {
    local log
    mkdir -p "$PREPARE_BUILD"
    log=$PREPARE_BUILD/prepare.log
    (
        set -e
        cd "$PREPARE_TREE"
        if [ ! -f configure ] || [ configure.ac -nt configure ]; then
            prepare_say "bootstrapping" 2>&3
            ./bootstrap
        fi
        cd "$PREPARE_BUILD"
        if [ ! -f Makefile ]; then
            prepare_say "configuring" 2>&3
            "$PREPARE_TREE/configure" -q
        fi
        make -q "${@:-all}" >/dev/null 2>&1 || prepare_say "building" 2>&3
        make -j"$(nproc)" "${@:-all}"
    ) 3>&2 >"$log" 2>&1 && return 0
    tail -n 30 "$log" >&2
    prepare_say "the build failed; all of it is in $log"
    return 1
}
