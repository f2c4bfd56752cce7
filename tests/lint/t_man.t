#!/bin/bash
# Man pages and programs say the same: a page for each program and file, every
# option of --help and every key of run.yaml on its page.
. "$(dirname "$0")/lint.sh"

pages='koboshi.1 koboshi-train.1 koboshi-supervise.1 koboshi-health.8
    koboshi.yaml.5 koboshi-checkpoint.5 spank_koboshi.8 koboshi.7'

# options_missing PAGE-FILE: words like --option of stdin that it lacks.
options_missing() {
    local text
    text=$(sed 's/\\-/-/g' "$1")
    grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z-]+' | grep -oE -- '--[a-z-]+' |
        sort -u | while read -r option; do
        grep -qF -- "$option" <<<"$text" || echo "$option"
    done | paste -sd ' '
}

for page in $pages; do
    if [ -f "man/$page" ]; then
        is "$(MANROFFSEQ='' LC_ALL=C.UTF-8 man --warnings -l -P cat "man/$page" 2>&1 >/dev/null | head -n 3)" \
            "" "man/$page is without warnings"
    else
        nok "man/$page is written" true
    fi
done

# program folder page: its --help, options held against the page.
while read -r program page; do
    built=$(find "$LINT_BUILD" -maxdepth 1 -name "$program" -type f -perm -u+x)
    if [ -z "$built" ] || [ ! -f "man/$page" ]; then
        skip "$program or man/$page is not there"
        continue
    fi
    help=$(timeout 10 "$built" --help 2>&1)
    is $? 0 "$program --help succeeds"
    is "$(options_missing "man/$page" <<<"$help")" "" \
        "every option of $program --help is in $page"
done <<'TABLE'
koboshi koboshi.1
koboshi-train koboshi-train.1
koboshi-supervise koboshi-supervise.1
koboshi-health koboshi-health.8
TABLE

if [ -x "$LINT_BUILD/koboshi" ] && [ -f man/koboshi.1 ]; then
    for verb in plan status report health data ckpt generate; do
        help=$(timeout 10 "$LINT_BUILD/koboshi" "$verb" --help 2>&1)
        is $? 0 "koboshi $verb --help succeeds"
        is "$(options_missing man/koboshi.1 <<<"$help")" "" \
            "every option of koboshi $verb is in koboshi.1"
    done
else
    skip "koboshi or its page is not there"
fi

keys=$LINT_BUILD/tests/lint/plan_keys
if [ -x "$keys" ] && [ -f man/koboshi.yaml.5 ]; then
    text=$(sed 's/\\-/-/g; s/\\&//g' man/koboshi.yaml.5)
    is "$("$keys" | while read -r key; do
        grep -qF -- "$key" <<<"$text" || echo "$key"
    done)" "" "every key of run.yaml is in koboshi.yaml.5"
    is "$(grep -oE '^\.(B|BR) [a-z_]+\.[a-z_0-9.]+' <<<"$text" | awk '{print $2}' |
        while read -r key; do
            "$keys" | grep -qxF -- "$key" || echo "$key"
        done)" "" "koboshi.yaml.5 has no key that is not there"
else
    skip "the keys or koboshi.yaml.5 are not there"
fi

if [ -f man/spank_koboshi.8 ] && ls spank/*.c >/dev/null 2>&1; then
    is "$(grep -ohE '"llm-[a-z-]+"' spank/*.c | tr -d '"' | sed 's/^/--/' |
        options_missing man/spank_koboshi.8)" "" \
        "every option of the plugin is in spank_koboshi.8"
else
    skip "the plugin or its page is not there"
fi
tap_done
