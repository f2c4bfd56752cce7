# record - the last `./check --long` in the first table of bench/RESULTS.md.
# Sourced by check. One row: the newer takes the place of the older.
# shellcheck shell=bash

record_machine() {
    local cpu
    cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    echo "$(nproc) cores of ${cpu:-an unknown processor}, $(awk '/^MemTotal/ {
        printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)"
}

# record_long EXIT_CODE TESTS SECONDS
record_long() {
    local file=bench/RESULTS.md commit word row
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    git diff --quiet HEAD -- . ':!bench/RESULTS.md' 2>/dev/null || commit="$commit, changed"
    word=green
    [ "$1" = 0 ] || word="not green"
    row="| $(date -u +%F) | $commit | $(record_machine) | ./check --long | $word: $2 tests"
    row="$row, $(cat "$KOBOSHI_RESULTS"/* | grep -cE '^(not )?ok ') checks"
    row="$row, $(cat "$KOBOSHI_RESULTS"/* | grep -c '^not ok ') failed, in $(($3 / 60)) min |"
    awk -v row="$row" '
        /^\|---/ && !done { print; print row; done = 1; skip = 1; next }
        skip && /\| .\/check --long \|/ { next }
        { skip = 0; print }' "$file" >"$file.new" && mv "$file.new" "$file"
    echo "check: $row"
}
