#!/usr/bin/env python3
"""Hold koboshi's tokens against Hugging Face's tokenizers, where that is
installed: compare_tokenizers.py KOBOSHI. Vocabularies are trained here."""
import json, os, random, subprocess, sys, tempfile

try:
    from tokenizers import (Tokenizer, decoders, models, normalizers,
                            pre_tokenizers, trainers)
except ImportError:
    print("1..0 # SKIP tokenizers is not installed")
    sys.exit(0)

SPACE = "\u2581"
HERE = os.path.dirname(os.path.abspath(__file__))


def corpus():
    root = os.path.join(HERE, "..", "..")
    names = ["DESIGN.md", "README.md", "man/koboshi.1", "runner/data/order.c"]
    for name in names:
        with open(os.path.join(root, name), encoding="utf-8") as f:
            yield from f
    yield "日本語のテキストとカタカナ、漢字。" * 20
    yield "naïve café — Ünïcödé ½ " * 20


def trained(normalizer, pre, unknown="<unk>"):
    """As Llama 2: merges over characters, byte fallback."""
    t = Tokenizer(models.BPE(unk_token=unknown))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"]
    special += ["<0x%02X>" % i for i in range(256)]
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, show_progress=False))
    j = json.loads(t.to_str())
    j["model"].update(byte_fallback=True, fuse_unk=True)
    j["added_tokens"] = j["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(j))
    t.pre_tokenizer = pre
    if not pre:
        del_pre = json.loads(t.to_str())
        del_pre["pre_tokenizer"] = None
        t = Tokenizer.from_str(json.dumps(del_pre))
    t.decoder = decoders.Sequence([
        decoders.Replace(SPACE, " "), decoders.ByteFallback(),
        decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def flavours():
    llama = normalizers.Sequence([normalizers.Prepend(SPACE),
                                  normalizers.Replace(" ", SPACE)])
    yield "llama 2", trained(llama, None)
    for scheme in ("first", "always", "never"):
        for split in (False, True):
            pre = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
            yield "metaspace %s %s" % (scheme, split), trained(None, pre)
    # A token over two words: text may not be cut at spaces.
    j = json.loads(trained(llama, None).to_str())
    n = len(j["model"]["vocab"])
    j["model"]["vocab"].update({"e" + SPACE: n, "s" + SPACE: n + 1})
    j["model"]["merges"][:0] = [["e", SPACE], ["s", SPACE]]
    yield "over words", Tokenizer.from_str(json.dumps(j))
    for fuse in (True, False):  # No bytes: the unknown token.
        j = json.loads(trained(llama, None).to_str())
        j["model"].update(byte_fallback=False, fuse_unk=fuse)
        yield "unknown, fused %s" % fuse, Tokenizer.from_str(json.dumps(j))


def texts():
    rng = random.Random(7)
    plain = list(corpus())
    yield from plain[:80]
    yield from ["", " ", "   ", "a", " a", "a ", "a  b", "\n", "a\n b", SPACE,
                SPACE + "a", "<s>hello</s> you", "x <s> y", "<0x41>", "<s>",
                " <s>", "€ 100 \U0001f600!", "\u0000a", "e e s s e  s"]
    yield "".join(plain)
    yield "word " * 300 + "w" * 3000
    sets = ["ab <>s/\n", SPACE + " e s\t", "aé日\U0001f600 €"]
    for _ in range(1500):
        chars = rng.choice(sets)
        yield "".join(rng.choice(chars) for _ in range(rng.randrange(30)))
    for _ in range(1500):
        yield "".join(chr(c) for c in
                      (rng.choice([rng.randrange(32, 0x250),
                                   rng.randrange(0x20, 0x7f), 32,
                                   rng.randrange(0x3040, 0xd800),
                                   rng.randrange(0x1f300, 0x1f700)])
                       for _ in range(rng.randrange(20))))


def ours(koboshi, path, lines, dir):
    jsonl, out = os.path.join(dir, "in.jsonl"), os.path.join(dir, "out")
    with open(jsonl, "w", encoding="utf-8") as f:
        for text in lines:
            f.write(json.dumps({"text": text}) + "\n")
    subprocess.run([koboshi, "data", "build", "--quiet", "--tokenizer", path,
                    "--output", out, jsonl], check=True, stdout=subprocess.PIPE)
    with open(out + ".idx", "rb") as f:
        idx = f.read()
    s = int.from_bytes(idx[18:26], "little")
    d = int.from_bytes(idx[26:34], "little")
    def ints(at, n, size):
        return [int.from_bytes(idx[at + i * size:at + (i + 1) * size],
                               "little") for i in range(n)]
    lengths = ints(34, s, 4)
    marks = ints(34 + 12 * s, d, 8)
    with open(out + ".bin", "rb") as f:
        data = f.read()
    ids = [int.from_bytes(data[i:i + 2], "little")
           for i in range(0, len(data), 2)]
    at, got = 0, []
    for i in range(d - 1):
        n = sum(lengths[marks[i]:marks[i + 1]])
        got.append(ids[at:at + n])
        at += n
    return got, out


def main():
    koboshi, n = sys.argv[1], 0
    lines = list(texts())
    with tempfile.TemporaryDirectory() as dir:
        for name, t in flavours():
            path = os.path.join(dir, "tokenizer.json")
            t.save(path)
            got, out = ours(koboshi, path, lines, dir)
            wrong = [(text, g, w) for text, g, w in
                     ((x, y, t.encode(x, add_special_tokens=False).ids)
                      for x, y in zip(lines, got)) if g != w]
            n += 1
            bad = wrong or len(got) != len(lines)
            print("%sok %d - %s: %d texts, %d differ" %
                  ("not " if bad else "", n, name, len(lines), len(wrong)))
            for text, g, w in wrong[:3]:
                print("# %r: %r, want %r" % (text[:60], g[:20], w[:20]))
            bad = []
            for i in list(range(0, 100, 7)) + list(range(101, 130)):
                back = subprocess.run(
                    [koboshi, "data", "decode", "--tokenizer", path,
                     "--document", str(i), out], check=True,
                    stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")
                want = t.decode(got[i], skip_special_tokens=False)
                if back != want:
                    bad.append((back, want))
            n += 1
            print("%sok %d - %s: decoded" % ("not " if bad else "", n, name))
            for back, want in bad[:3]:
                print("# %r, want %r" % (back[:60], want[:60]))
    print("1..%d" % n)


main()
