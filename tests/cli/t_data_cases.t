#!/bin/bash
# koboshi data on bad files: each folder of tests/data/cases has arguments, a
# text that is told, the files, and an exit code where it is not 2. A bad build
# leaves no output and nothing beside it.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
[ -x "$BUILD/koboshi" ] || skip_all "koboshi is not built"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP" "$TAP_OUT"' EXIT
for case in "$HERE"/../data/cases/*/; do
    name=$(basename "$case")
    rm -rf "${TMP:?}/work"
    mkdir "$TMP/work"
    cp "$case"* "$TMP/work/"
    cd "$TMP/work" || exit 1
    chmod u+w ./*
    want=2
    [ ! -f code ] || want=$(cat code)
    read -r -a args <args
    got=$(timeout 60 "$BUILD/koboshi" data "${args[@]}" 2>&1)
    code=$?
    if [ $code = "$want" ] && grep -qF -- "$(cat expect)" <<<"$got" &&
        { [ "$want" = 0 ] || [ -z "$(find . -name 'out*')" ]; }; then
        ok "$name" true
    else
        ok "$name" false
        echo "# exit $code, want $want: $got; want $(cat expect); $(ls | tr '\n' ' ')"
    fi
done
tap_done
