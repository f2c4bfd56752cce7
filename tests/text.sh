# text - real text for tests and the demo: manual pages that Debian ships, in
# English and Japanese, and a token file made from them. Sourced.
# shellcheck shell=bash

# text_files FOLDER: en.jsonl and ja.jsonl, a page a line, of at most
# TEXT_BYTES of text each. Where a small Debian leaves manual pages out, the
# licences and Perl's documentation take their place.
text_files() {
    local bytes=${TEXT_BYTES:-1500000} man=/usr/share/man
    mkdir -p "$1"
    text_pages $man/man7 $man/man2 $man/man3 | head -c "$bytes" | text_lines >"$1/en.jsonl"
    text_pages $man/ja/man7 $man/ja/man2 $man/ja/man3 | head -c "$bytes" | text_lines >"$1/ja.jsonl"
    if [ "$(wc -c <"$1/en.jsonl")" -lt 200000 ]; then
        cat /usr/share/common-licenses/* /usr/share/perl/5*/pod/*.pod 2>/dev/null |
            head -c "$bytes" | text_lines >"$1/en.jsonl"
    fi
    [ -s "$1/ja.jsonl" ] || rm -f "$1/ja.jsonl"
    [ "$(wc -c <"$1/en.jsonl")" -gt 100000 ]
}

# Pages parted by form feeds to one JSON object a line.
text_lines() {
    iconv -c -f UTF-8 -t UTF-8 |
        jq -cRs 'split("\f")[] | select(length > 200) | {text: .}'
}

# The pages' words, without their markup.
text_pages() {
    find "$@" -name '*.gz' -type f -print0 2>/dev/null | sort -z |
        xargs -0 zcat 2>/dev/null |
        sed -E "/^[.']\\\\\"/d; s/^\\.TH.*/\\f/
            /^\\.(so|de|if|ie|el|nr|ds|in|ta|ft|nf|fi|ad|na|PD|SH NAME|sp|TS|TE|lf|ps|vs|ne|EX|EE|PP|P|LP|IP|TP|RS|RE)\\b.*/d
            s/^\\.(SH|SS) +/\\n/; s/^\\.[A-Z]{1,2} +//; s/\\\\f[A-Z]//g; s/\\\\f\\([A-Z]{2}//g
            s/\\\\-/-/g; s/\\\\&//g; s/\\\\\\(..//g; s/\\\\e/\\\\/g; s/\\\\[|^ ]/ /g" | cat -s
}

# text_tokens FOLDER: FOLDER/man.bin and .idx, made once; one maker at a time.
text_tokens() {
    mkdir -p "$1"
    (
        flock 9
        [ -s "$1/man.idx" ] && exit 0
        text_files "$1" &&
            "$CLUSTER_BUILD/koboshi" data build --tokenizer byte --append-eod \
                --quiet --output "$1/man" "$1"/*.jsonl >"$1/build.log" 2>&1 ||
            { cat "$1/build.log" >&2; rm -f "$1/man.idx"; exit 1; }
    ) 9>"$1/lock"
}
