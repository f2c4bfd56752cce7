#!/bin/bash
# debs - Slurm, munge, PMIx and the tools that tests/cluster wants, from carried
# Debian 12 packages, on a machine that is thrown away afterwards and has root,
# but neither these packages nor a network.
#
# usage: . debs.sh FOLDER      the .deb files; exports LD_LIBRARY_PATH
#
# Only usr/ is copied, never over the machine's own libraries: Debian's lib/
# would replace the link /lib. Slurm opens PMIx in one fixed folder and refuses
# release 5, so release 4 takes that place.
# shellcheck shell=bash
debs_unpack() {
    local deb to
    for deb in "$1"/*.deb; do
        case $deb in
        *pmix*) to=pmix ;;
        *slurm* | *munge*) to=slurm ;;
        *) to=rest ;;
        esac
        mkdir -p "$2/$to"
        dpkg -x "$deb" "$2/$to"
    done
}

# Libraries that the machine has not, and only those, into one folder.
debs_libraries() { # ROOT
    local lib name
    mkdir -p "$1/lib"
    ldconfig -p >"$1/known"
    for lib in "$1"/rest/{usr/,}lib/x86_64-linux-gnu/lib*.so.*; do
        name=${lib##*/}
        grep -qF "$name " "$1/known" || [ ! -e "$lib" ] || cp -L "$lib" "$1/lib/$name"
    done
}

# A program of the unpacked packages that the machine has not.
debs_program() { # ROOT NAME [NAME THERE]
    local at
    command -v "$2" >/dev/null && return 0
    at=$(find "$1/rest" -path "*bin/${3:-$2}" -type f | head -n 1)
    [ -n "$at" ] || { echo "debs: no $2" >&2; return 1; }
    ln -sf "$at" "/usr/local/bin/$2"
}

debs_install() {
    local root=/opt/koboshi-debs pmix=/usr/lib/x86_64-linux-gnu/pmix2/lib x
    [ -d $root ] || debs_unpack "$1" $root
    cp -a $root/slurm/usr/. /usr/
    for x in slurmctld slurmd slurmstepd; do ln -sf $x-wlm /usr/sbin/$x; done
    mkdir -p $pmix/.before
    mv $pmix/libpmix* $pmix/pmix $pmix/.before/ 2>/dev/null
    cp -a $root/pmix$pmix/libpmix.so* $root/pmix$pmix/pmix $pmix/
    ldconfig
    debs_libraries $root
    debs_program $root ip
    debs_program $root jq
    debs_program $root pgrep
    debs_program $root awk mawk
    export LD_LIBRARY_PATH=$pmix:$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
debs_install "$1"
