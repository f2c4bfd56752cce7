#!/bin/bash
# What is said to a user who wrote something wrong: what, where, why, what to
# do. The table is what the cases of tests/base and tests/plan expect, so that
# every message stands in it as it is printed.
. "$(dirname "$0")/lint.sh"

mapfile -t files < <(find tests/base/cases tests/plan/cases -name expect |
    sort)
table=$(grep -hE '^(plan|conf): ' "${files[@]}" | sort -u)
refused=$(grep -hE '^plan: ' "${files[@]}" | sort -u)
[ "$(wc -l <<<"$table")" -gt 80 ]
is $? 0 "messages are found: $(wc -l <<<"$table")"

# None that match are printed: the rows that break a rule.
outside() { grep -vE "$1" <<<"$2" | head -n 5; }

is "$(outside "^[a-z]+: .*'[^']+'|^conf: [^ ]+(:[0-9]+)?: not YAML" "$table")" "" \
    "each names what it is about, in quotes"
is "$(outside "^plan: ([^ ]+:[0-9]+|[^ ]+\(line [0-9]+\)|default|preset [a-z0-9.-]+|--[a-z-]+|environment|[A-Z_]+): '" \
    "$refused")" "" "a refusal of the plan says where: file:line, an option or a default"
is "$(outside "^[a-z]+: .*[^ :]: .*|^conf: '[^']+' must be given: " "$table")" "" \
    "each says why"
# What to do stands behind the semicolon, or is the rule itself.
rule="; |must be|is not .* or |is not '.*' with |: not a token file$"
is "$(outside "$rule" "$refused")" "" "each refusal of the plan says what to do"
is "$(grep -nE '[.!]$|^[a-z]+: [A-Z][a-z]' <<<"$table" | grep -vE '\.\.\.$|not YAML' | head -n 5)" "" \
    "none ends with a full stop or begins with a capital"
is "$(grep -nP '[\x00-\x08\x0b-\x1f]' <<<"$table" | head -n 5)" "" \
    "none has control characters"
tap_done
