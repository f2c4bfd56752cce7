#!/bin/bash
# The look of the sources: lengths, tabs, head comments, headers that compile
# alone, scripts that parse.
. "$(dirname "$0")/lint.sh"
mapfile -t sources < <(lint_files spank runner kernels health tests)

# Tables that a script makes (NAME_table.awk beside them) are not read.
long=$(wc -l "${sources[@]}" | awk '$2 !~ /total|_table\.h$/ && $1 > 800 {print $2 " has " $1 " lines"}')
is "$long" "" "no file is longer than 800 lines"
wc -l "${sources[@]}" |
    awk '$2 != "total" && $1 > 500 && $1 <= 800 {print "# look twice: " $2 " has " $1 " lines"}'

# Golden data and tables of numbers may be wide; code is not.
wide=$(awk 'length($0) > (FILENAME ~ /\.cuh?$/ ? 100 : 80) {print FILENAME ":" FNR ": " length($0)}' \
    $(lint_files spank runner kernels health))
is "$(head -n 10 <<<"$wide")" "" "lines are at most 80 columns (100 in .cu)"

is "$(grep -lP '\t' "${sources[@]}")" "" "no tabs"
is "$(grep -nP ' +$' "${sources[@]}" | head -n 5)" "" "no blanks at line ends"
is "$(for f in "${sources[@]}"; do
    head -c 2 "$f" | grep -q '^/[*/]' || echo "$f"
done)" "" "each file begins with a comment that says what it is"

# The flags of the build, for headers on their own.
flags=$(sed -n 's/^\(JANSSON\|YAML\|SLURM\|PMIX\|XXHASH\)_CFLAGS = //p' \
    "$LINT_BUILD/Makefile" 2>/dev/null | tr '\n' ' ')
broken=
for header in $(lint_files spank runner kernels health | grep '\.h$'); do
    # shellcheck disable=SC2086
    out=$(printf '#include "%s"\n' "$header" |
        gcc -std=gnu17 -D_GNU_SOURCE -Wall -fsyntax-only -I. -I"$LINT_BUILD" \
            $flags -x c - 2>&1) || broken+="$header: $(head -n 2 <<<"$out")"$'\n'
done
is "$broken" "" "each header compiles alone"

broken=
while IFS= read -r script; do
    bash -n "$script" 2>/dev/null || broken+="$script "
done < <(find . -path './build*' -prune -o -path ./.git -prune -o \
    \( -name '*.sh' -o -name '*.t' -o -path ./check -o -path ./demo -o \
    -path './.ci/run' \) -type f -print)
is "$broken" "" "shell scripts parse"
tap_done
