# stage - an installation inside the build folder, for clusters to mount.
# Sourced. `make install` goes to $CLUSTER_BUILD/stage; cluster.sh lays that
# over the configured prefix in its own mount namespace, so that programs,
# plugin and templates find each other exactly as a site's do, and nothing of
# the machine is touched.
# shellcheck shell=bash

# Install what is built if anything is newer than the last time; one at a time.
stage_install() {
    [ -f "$CLUSTER_BUILD/Makefile" ] || return 1
    [ -z "${KOBOSHI_STAGED:-}" ] || return 0
    (
        flock 9
        prefix=$(cd "$CLUSTER_BUILD" && ./config.status --version >/dev/null &&
            sed -n 's/^prefix = //p' Makefile)
        rm -rf "$CLUSTER_BUILD/stage"
        if ! make -s -C "$CLUSTER_BUILD" install DESTDIR="$CLUSTER_BUILD/stage" \
            >"$CLUSTER_BUILD/stage.log" 2>&1; then
            tail -n 20 "$CLUSTER_BUILD/stage.log" >&2
            exit 1
        fi
        echo "$prefix" >"$CLUSTER_BUILD/stage.prefix"
    ) 9>"$CLUSTER_BUILD/stage.lock"
}
