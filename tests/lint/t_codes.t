#!/bin/bash
# Every code of the health catalogue has a test: it stands in what a recorded
# host must give, or in a test's own text. (Its line in the manual: t_page.t.)
. "$(dirname "$0")/lint.sh"

# Codes that no recorded host can show, for they are about living ones; each
# stands in a test by its name in the enumeration or by its code.
codes=$(sed -n 's/^ *\[\(F_[A-Z0-9_]*\)\] = {"\([a-z0-9-]*\)".*/\1 \2/p' health/catalog.c)
[ "$(wc -l <<<"$codes")" -gt 80 ]
is $? 0 "codes of the catalogue are found: $(wc -l <<<"$codes")"
is "$(while read -r name code; do
    grep -qE "^(info|warn|unknown|drain|fail) +$code " tests/health/hosts/*/expected ||
        grep -rqE "(^|[^a-z-])$code([^a-z-]|$)|\b$name\b" --include='*.t' --include='test_*.c' tests ||
        echo "$code"
done <<<"$codes")" "" "every code has a test"

# The numbers of the enumeration and the rows are the same.
is "$(sed -n 's/^    \(F_[A-Z0-9_]*\),$/\1/p' health/catalog.h | grep -v F_CODE_N | sort)" \
    "$(cut -d' ' -f1 <<<"$codes" | sort)" "every code of the header has a row"
tap_done
