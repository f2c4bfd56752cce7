#!/usr/bin/env python3
"""Hold koboshi's tokens against pip's sentencepiece, where that is installed:
compare_sentencepiece.py KOBOSHI. The models are trained here."""
import json, os, random, subprocess, sys, tempfile

try:
    import sentencepiece
except ImportError:
    print("1..0 # SKIP sentencepiece is not installed")
    sys.exit(0)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def tokens(prefix):
    """A list of ids a document; 16 bits each, one sequence a document."""
    with open(prefix + ".idx", "rb") as f:
        idx = f.read()
    s = int.from_bytes(idx[18:26], "little")
    d = int.from_bytes(idx[26:34], "little")
    length = [int.from_bytes(idx[34 + 4 * i:38 + 4 * i], "little")
              for i in range(s)]
    at = 34 + 12 * s
    mark = [int.from_bytes(idx[at + 8 * i:at + 8 * i + 8], "little")
            for i in range(d)]
    with open(prefix + ".bin", "rb") as f:
        data = f.read()
    for i in range(d - 1):
        n = 2 * sum(length[mark[i]:mark[i + 1]])
        yield [int.from_bytes(data[k:k + 2], "little")
               for k in range(0, n, 2)]
        data = data[n:]


def is_tie(sp, a, b):
    """Releases of the library choose differently among equal scores."""
    def score(ids):
        return sum(sp.get_score(i) for i in ids)
    return sp.decode(a) == sp.decode(b) and abs(score(a) - score(b)) < 1e-3


def main():
    rng, koboshi, n = random.Random(7), sys.argv[1], 0
    with open(os.path.join(ROOT, "DESIGN.md"), encoding="utf-8") as f:
        lines = f.read().split("\n")
    lines += ["日本語のテキスト、カタカナ。" * 4, "naïve café ½ ﬁ Ｆｕｌｌ", "a \0 b",
              "", " ", "  a  b ", "<s> </s>"]
    for _ in range(1000):
        lines.append("".join(rng.choice("ab é日\U0001f600 \t▁")
                             for _ in range(rng.randrange(20))))
    with tempfile.TemporaryDirectory() as dir:
        text, jsonl = os.path.join(dir, "text"), os.path.join(dir, "in.jsonl")
        out = os.path.join(dir, "out")
        with open(text, "w", encoding="utf-8") as f:
            f.write("\n".join(x for x in lines if "\0" not in x))
        with open(jsonl, "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": x}) + "\n" for x in lines)
        for kind, more in (("bpe", {"byte_fallback": True}), ("unigram", {})):
            prefix = os.path.join(dir, kind)
            sentencepiece.SentencePieceTrainer.train(
                input=text, model_prefix=prefix, model_type=kind,
                vocab_size=600, minloglevel=9, hard_vocab_limit=False, **more)
            sp = sentencepiece.SentencePieceProcessor(
                model_file=prefix + ".model")
            subprocess.run([koboshi, "data", "build", "--quiet", "--tokenizer",
                            prefix + ".model", "--output", out, "--workers",
                            "3", jsonl], check=True, stdout=subprocess.PIPE)
            got = list(tokens(out))
            want = [sp.encode(x) for x in lines]
            wrong = [x for x, g, w in zip(lines, got, want)
                     if g != w and not is_tie(sp, g, w)]
            ties = sum(g != w for g, w in zip(got, want)) - len(wrong)
            n += 1
            print("%sok %d - %s: %d texts, %d differ, %d ties" %
                  ("not " if wrong or len(got) != len(want) else "", n, kind,
                   len(want), len(wrong), ties))
            for x, g, w in zip(lines, got, want):
                if x in wrong:
                    print("# %r: %r, want %r" % (x[:60], g[:20], w[:20]))
            back = subprocess.run(
                [koboshi, "data", "decode", "--tokenizer", prefix + ".model",
                 "--document", "3", out], check=True,
                stdout=subprocess.PIPE).stdout.decode("utf-8")
            n += 1
            print("%sok %d - %s: decoded" %
                  ("" if back == sp.decode(want[3]) else "not ", n, kind))
    print("1..%d" % n)


main()
