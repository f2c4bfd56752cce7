#!/bin/bash
# Recorded hosts: each folder of hosts/ holds what differs from hosts/good, and
# the report that it must give. `remove` lists what it lacks, `options`,
# site.yaml and history.json are given to koboshi-health. A new fault is a new
# folder.
# usage: t_hosts.t [--write]   (--write: take what is reported as expected)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
health=${CLUSTER_BUILD:-$here/../../build}/koboshi-health
[ -x "$health" ] || skip_all "koboshi-health is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# host NAME: the report of a recorded host without the time it took, and the
# exit code.
host() {
    local from=$here/hosts/$1 host=$scratch/$1 options=() path
    cp -r "$here/hosts/good" "$host"
    if [ -f "$from/remove" ]; then
        while read -r path; do rm -rf "${host:?}/$path"; done <"$from/remove"
    fi
    cp -r "$from/." "$host"
    [ ! -f "$host/options" ] || read -r -a options <"$host/options"
    [ ! -f "$host/site.yaml" ] || options+=(--expect "$host/site.yaml")
    [ ! -f "$host/history.json" ] || options+=(--history "$host/history.json")
    timeout 20 "$health" --replay "$host" "${options[@]}" 2>&1 |
        sed "1s/, [^,]*$//; s|$host/||g"
    echo "exit code ${PIPESTATUS[0]}"
}

for folder in "$here"/hosts/*/; do
    name=$(basename "$folder")
    if [ "${1:-}" = --write ]; then
        host "$name" >"$folder/expected"
    fi
    is "$(host "$name")" "$(cat "$folder/expected" 2>/dev/null)" "$name"
    rm -rf "${scratch:?}/$name"
done
tap_done
