# tap - the Test Anything Protocol for test scripts, as tests/tap.h for C.
# Sourced. The plan is printed by tap_done, which every script ends with; a
# script that dies before it has no plan, and prove fails it.
# shellcheck shell=bash

tap_n=0
tap_failed=0
TAP_OUT=$(mktemp) # what the command under test prints
trap 'rm -f "$TAP_OUT"' EXIT

# tap_line GOOD(0 is good) NAME
tap_line() {
    tap_n=$((tap_n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_n - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_n - $2"
        diag "failed at ${BASH_SOURCE[2]##*/}:${BASH_LINENO[1]}"
    fi
    return "$1"
}

# Lines for people, in the TAP stream.
diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

# ok NAME COMMAND...: the command succeeds; what it printed is shown if not. It
# runs in this shell: a function may set variables.
ok() {
    local name=$1 rc
    shift
    "$@" >"$TAP_OUT" 2>&1
    rc=$?
    tap_line $((rc != 0)) "$name"
    [ $rc = 0 ] || diag "$* gave $rc: $(tail -n 5 "$TAP_OUT")"
    return $rc
}

# nok NAME COMMAND...: the command fails.
nok() {
    local name=$1 rc
    shift
    "$@" >"$TAP_OUT" 2>&1
    rc=$?
    tap_line $((rc == 0)) "$name"
    [ $rc != 0 ] || diag "$* succeeded: $(tail -n 5 "$TAP_OUT")"
    return $((rc == 0))
}

# is GOT WANT NAME
is() {
    local bad=0
    [ "$1" = "$2" ] || bad=1
    tap_line $bad "$3"
    [ $bad = 0 ] || diag "got '$1', want '$2'"
    return $bad
}

# like GOT REGEX NAME: an extended regular expression is found in GOT.
like() {
    local bad=0
    grep -Eq -- "$2" <<<"$1" || bad=1
    tap_line $bad "$3"
    [ $bad = 0 ] || diag "no match of /$2/ in: $1"
    return $bad
}

# skip WHY: one check not made.
skip() {
    tap_n=$((tap_n + 1))
    echo "ok $tap_n # SKIP $1"
}

# skip_all WHY: before the first check; ends the script.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# wait_until SECONDS COMMAND...: poll the command until it succeeds; 1 when
# the time is over. Its output is dropped.
wait_until() {
    local left=$1 end
    shift
    end=$(($(date +%s%N) + left * 1000000000))
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s%N)" -lt $end ] || return 1
        sleep 0.1
    done
}

tap_done() {
    echo "1..$tap_n"
    exit $((tap_failed != 0))
}
