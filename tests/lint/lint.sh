# lint - what the tests of the source text share. Sourced from tests/lint/*.t.
# shellcheck shell=bash

LINT_TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LINT_BUILD=${CLUSTER_BUILD:-$LINT_TREE/build}
. "$LINT_TREE/tests/tap.sh"
cd "$LINT_TREE" || exit 1

# lint_files FOLDER...: C and CUDA sources and headers under these folders.
lint_files() {
    find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) |
        sort
}

# lint_code FILE: its text without comments and string literals, with the same
# line numbers, as "FILE:LINE: text".
lint_code() {
    perl -0777 -ne '
        s{ ("(?:\\.|[^"\\\n])*") | (\x27(?:\\.|[^\x27\\\n])*\x27)
           | (/\*.*?\*/) | (//[^\n]*) }{
            my $t = $&;
            $t =~ /^"/ ? "\"\"" : $t =~ /^\x27/ ? "0" : $t =~ s/[^\n]//gr;
        }gsex;
        my $n = 0;
        print map { $n++; "$ARGV:$n: $_\n" } split /\n/, $_, -1;
    ' "$1"
}

# lint_none REGEX NAME FILE...: no code line of the files matches (Perl's
# regular expressions); each match is shown.
lint_none() {
    local regex=$1 name=$2 file found
    shift 2
    found=$(for file in "$@"; do lint_code "$file"; done |
        grep -P -- ":\d+: .*(?:$regex)")
    is "$found" "" "$name"
}
