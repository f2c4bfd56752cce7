#!/usr/bin/env python3
"""Hold `koboshi data train-tokenizer` against Hugging Face's BpeTrainer, where
tokenizers is installed: compare_learning.py KOBOSHI. Same merges; the file
loads there and gives the same tokens."""
import json, os, subprocess, sys, tempfile

try:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
except ImportError:
    print("1..0 # SKIP tokenizers is not installed")
    sys.exit(0)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NAMES = ["DESIGN.md", "README.md", "man/koboshi.1", "runner/data/order.c",
         "runner/data/nfc_table.h"]


def main():
    koboshi, n = sys.argv[1], 0
    files = [os.path.join(ROOT, x) for x in NAMES]
    with tempfile.TemporaryDirectory() as dir:
        extra, path = os.path.join(dir, "x.txt"), os.path.join(dir, "t.json")
        with open(extra, "w", encoding="utf-8") as f:
            f.write("日本語のテキスト、カタカナ。aaaaaaaa 12345\n\n" * 30)
        files.append(extra)
        texts = [open(x, encoding="utf-8", newline="").read() for x in files]
        for pattern in ("gpt2", "llama3", "qwen2", "o200k"):
            subprocess.run([koboshi, "data", "train-tokenizer", "--pattern",
                            pattern, "--vocab", "3000", "--output", path] +
                           files, check=True, stdout=subprocess.PIPE)
            ours = json.load(open(path, encoding="utf-8"))
            t = Tokenizer(models.BPE())
            t.pre_tokenizer = Tokenizer.from_file(path).pre_tokenizer
            t.train_from_iterator(texts, trainers.BpeTrainer(
                vocab_size=3000, min_frequency=2, show_progress=False,
                special_tokens=["<|endoftext|>"],
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
            theirs = [" ".join(m) for m in
                      json.loads(t.to_str())["model"]["merges"]]
            same = sum(a == b for a, b in zip(ours["model"]["merges"], theirs))
            n += 1
            print("%sok %d - %s: %d of %d merges are the same" %
                  ("" if ours["model"]["merges"] == theirs else "not ", n,
                   pattern, same, len(theirs)))
            hf = Tokenizer.from_file(path)
            out = os.path.join(dir, "out")
            subprocess.run([koboshi, "data", "build", "--quiet", "--tokenizer",
                            path, "--output", out, "--format", "text"] +
                           files, check=True, stdout=subprocess.PIPE)
            with open(out + ".bin", "rb") as f:
                data = f.read()
            got = [int.from_bytes(data[i:i + 2], "little")
                   for i in range(0, len(data), 2)]
            n += 1
            print("%sok %d - %s: it loads there and gives the same tokens" %
                  ("" if got == [i for x in texts for i in hf.encode(x).ids]
                   else "not ", n, pattern))
    print("1..%d" % n)


main()
