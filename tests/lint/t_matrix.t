#!/bin/bash
# tests/matrix.txt names tests that there are, and no system test is outside it.
. "$(dirname "$0")/lint.sh"

named=$(grep -v '^#' tests/matrix.txt | grep '|' | cut -d'|' -f2- |
    tr ' ' '\n' | grep '^tests/')
missing=$(sed 's/~.*//' <<<"$named" | sort -u | while read -r test; do
    [ -f "$test" ] || [ -f "$test.c" ] || echo "$test"
done)
is "$missing" "" "every test that the matrix names is there"

# The cluster, the workers and the demo of tests are no fault.
elsewhere='t_(cluster|comm|unbroken|start_again)\.t'
outside=$(for test in tests/system/*.t; do
    grep -q "^$test" <<<"$named" || echo "$test"
done | grep -vE "$elsewhere")
is "$outside" "" "every system test is in the matrix"

# A row that nothing ran for says so, one whose check failed fails.
results=$(mktemp -d)
printf '%s\n' "ok 1 - one: a" "not ok 2 - two: b" "1..2" "# exit 1" >"$results/tests_x.t"
printf '%s\n' "1..0 # SKIP no disk" "# exit 0" >"$results/tests_y.t"
printf '%s\n' "[part]" "first | tests/x.t~one:" "second | tests/x.t~two:" \
    "whole | tests/x.t" "other | tests/x.t~three:" "skipped | tests/y.t" \
    "absent | tests/z.t" "both | tests/x.t~one: tests/z.t" >"$results/rows"
out=$(tests/matrix "$results" "$results/rows")
rc=$?
is "$rc" 1 "a failed row is a failure"
is "$(awk '/^  / { print $NF ":" $1 }' <<<"$out" | paste -sd ' ')" \
    "first:ok second:FAILED whole:FAILED other:FAILED skipped:skipped absent:not both:not" \
    "each row has its worst"
rm -rf "$results"
tap_done
