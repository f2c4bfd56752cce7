#!/bin/bash
# koboshi data, status and report as a user calls them: what they print, what
# they leave on disk, exit codes.
HERE=$(cd "$(dirname "$0")" && pwd)
BUILD=${CLUSTER_BUILD:-$HERE/../../build}
. "$HERE/../tap.sh"
[ -x "$BUILD/koboshi" ] || skip_all "koboshi is not built"
TMP=$(mktemp -d)
trap 'rm -rf "$TMP" "$TAP_OUT"' EXIT
cd "$TMP" || exit 1
koboshi() { timeout 60 "$BUILD/koboshi" "$@" 2>&1; }

# ---- build ------------------------------------------------------------------
printf '%s\n' '{"text": "one"}' 'oops' '{"text": ""}' '{"text": "\u3042"}' >in.jsonl
printf 'plain text\n' >a.txt
gzip -k in.jsonl
got=$(koboshi data build --tokenizer byte --append-eod --output out in.jsonl a.txt)
is $? 0 "a build"
like "$got" "bad document: in.jsonl:2: column 1: the line is not a JSON object" "tells of a bad line"
like "$got" "^out: 4 documents \(1 empty\), 20 tokens, 17 bytes of text, 1 bad" "and sums up"
is "$(ls)" "$(printf '%s\n' a.txt in.jsonl in.jsonl.gz out.bin out.idx)" "and leaves two files"
is "$(od -An -tx1 -N 8 out.bin)" " 6f 00 6e 00 65 00 00 01" "of 16-bit tokens"
koboshi data build --tokenizer byte --append-eod --output packed in.jsonl.gz a.txt >/dev/null
ok "packed input gives the same tokens" cmp out.bin packed.bin
koboshi data build --tokenizer byte --append-eod --workers 5 --output five in.jsonl a.txt >/dev/null
ok "five workers give the same tokens" cmp out.bin five.bin
ok "and the same index" cmp out.idx five.idx
got=$(koboshi data build --tokenizer byte --output in - <a.txt)
is $? 0 "standard input is a document"
like "$got" "^in: 1 documents" "of its own"

got=$(koboshi data build --tokenizer byte --max-bad 0 --output out in.jsonl)
is $? 2 "a bad line too many ends the build"
like "$got" "more than 0 bad documents" "and says so"
like "$(koboshi data verify out)" "good: 4 documents, 20 tokens, the largest is 256" "the old output is still there"
is "$(find . -name '*.tmp.*')" "" "and no temporary"

mkdir many && cp in.jsonl many/b.jsonl && cp in.jsonl many/a.jsonl
like "$(koboshi data count --tokenizer byte 'many/*.jsonl')" "^text: 6 documents" "a pattern is what it matches"
got=$(koboshi data count --tokenizer byte 'many/*.txt')
is $? 2 "or refused"
like "$got" "no file matches 'many/\*.txt'" "by name"

# ---- looking ----------------------------------------------------------------
got=$(koboshi data inspect --tokenizer byte out)
is $? 0 "inspect"
like "$got" "documents +4 \(1 empty\)" "counts"
like "$got" "document 3: plain text" "and shows text"
is "$(koboshi data decode --tokenizer byte --document 2 out)" "あ<|endoftext|>" "decode gives text back"
got=$(koboshi data verify --vocab 200 out)
is $? 2 "a token past the vocabulary"
like "$got" "token 256 is outside the vocabulary of 200: '.*out.bin': document 0" "is named"
truncate -s -1 out.bin
got=$(koboshi data verify out)
is $? 2 "cut tokens are seen"
like "$got" "out.bin': has 39 bytes" "and named"

# ---- token files to token files ---------------------------------------------
koboshi data build --tokenizer byte --append-eod --output one in.jsonl >/dev/null
koboshi data build --tokenizer byte --append-eod --output two a.txt >/dev/null
like "$(koboshi data merge --output both one two)" "^both: 4 documents, 20 tokens" "merge"
ok "gives the tokens of one build" cmp both.bin five.bin
ok "and its index" cmp both.idx five.idx
got=$(koboshi data split --output cut --shares 3,1 both)
like "$got" "cut-1: 1 documents, 12 tokens" "split"
ok "the first part is the first file" cmp one.idx cut-0.idx
ok "the second the second" cmp two.bin cut-1.bin
like "$(koboshi data count --tokenizer byte --append-eod in.jsonl a.txt)" \
    "^text: 4 documents \(1 empty\), 20 tokens" "count"
{ seq 1 40; echo "this comes twice"; seq 41 80; echo "this comes twice"; } |
    koboshi data build --tokenizer byte --output twice - >/dev/null
got=$(koboshi data dedup-report --tokenizer byte --ngram 16 twice)
like "$got" "^twice: 1\.60 % of the runs of 16 tokens were there before" "dedup-report"
like "$got" "2 times, first in document 0 at 109: 0 this comes twi" "shows what comes twice"
like "$(koboshi data dedup-report --ngram 20 twice)" "^twice: 0\.00 %" "and nothing longer"

# ---- train-tokenizer --------------------------------------------------------
seq 1 3 900 >numbers.txt
like "$(koboshi data train-tokenizer --vocab 300 --pattern gpt2 --output learnt.json numbers.txt)" \
    "^learnt.json: 300 tokens" "train-tokenizer"
koboshi data build --tokenizer learnt.json --append-eod --output learnt numbers.txt >/dev/null
like "$(koboshi data verify --tokenizer learnt.json learnt)" "the largest is 299" "ends with the end of a document"
is "$(koboshi data decode --tokenizer learnt.json learnt | sed 's/<|endoftext|>//' | cksum)" "$(cksum <numbers.txt)" \
    "and gives text back"

# ---- mistakes ---------------------------------------------------------------
while IFS='|' read -r words args; do
    # shellcheck disable=SC2086
    got=$(koboshi data $args)
    is $? 2 "refused: data $args"
    like "$got" "$words" "with: $words"
done <<'TABLE'
no action|
unknown action|frob
build needs --tokenizer, --output and files|build --tokenizer byte a.txt
no such tokenizer: 'none'|build --tokenizer none --output x a.txt
cannot open 'absent'|build --tokenizer byte --output x absent
cannot create '/nowhere/x|build --tokenizer byte --output /nowhere/x a.txt
--format: unknown word: 'xml'|build --tokenizer byte --format xml --output x a.txt
--max-bad: not a number: 'many'|build --tokenizer byte --max-bad many --output x a.txt
decode needs --tokenizer|decode out
no such pattern: 'x'|train-tokenizer --pattern x --vocab 300 --output y a.txt
a vocabulary of 256|train-tokenizer --vocab 256 --output y a.txt
merge needs --output|merge one
split needs --output, --shares|split --output x one
--shares: not numbers above 0.*'3,0'|split --output x --shares 3,0 one
--workers: must be 1 to 1023|count --tokenizer byte --workers 1024 a.txt
--workers: must be 1 to 1023|count --tokenizer byte --workers 0 a.txt
--ngram: must be 1|dedup-report --ngram 0 one
count needs --tokenizer and files|count --tokenizer byte --output x a.txt
make it with koboshi data build|verify absent
no document 9|decode --tokenizer byte --document 9 five
TABLE

# ---- status and report ------------------------------------------------------
run=$HERE/../journal/cases/recorded_demo
got=$(koboshi report "$run")
is $? 0 "report"
is "$(grep -c '^attempt ' <<<"$got")" 3 "has three attempts"
like "$(koboshi report --json --run-dir "$run")" '"steps_lost": 48' "and as JSON"
like "$(cd "$run" && koboshi status)" "^step +400 of 400, loss 2\.5357" "status, of the current folder"
got=$(koboshi status --run-dir "$TMP/none")
is $? 2 "what is no run directory"
like "$got" "is it a run directory" "is told"
tap_done
