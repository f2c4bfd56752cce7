#!/bin/bash
# Every finding of the catalogue stands in koboshi-health(8) (in which words:
# test_catalog) and is expected in some test, and the page has none that is not
# in the catalogue.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
cd "$here/../.." || exit 1
page=$(sed 's/\\-/-/g' man/koboshi-health.8)
codes=$(grep -oE '\] = \{"[a-z0-9-]+"' health/catalog.c | cut -d'"' -f2)
[ "$(wc -l <<<"$codes")" -gt 50 ]
is $? 0 "codes of the catalogue are found"
for code in $codes; do
    grep -qxF ".B $code" <<<"$page"
    is $? 0 "$code is on the page"
done
listed=$(sed -n '/^.SH FINDINGS/,/^.SH ENVIRONMENT/p' <<<"$page" | sed -n 's/^\.B //p')
is "$(comm -13 <(sort <<<"$codes") <(sort <<<"$listed"))" "" \
    "the page lists no other"
for code in $codes; do
    grep -qrwF -- "$code" tests/health/hosts/*/expected tests/health/*.[tc] tests/spank
    is $? 0 "$code has a test"
done
tap_done
