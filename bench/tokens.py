#!/usr/bin/env python3
"""Encoders side by side in one run: ours, tiktoken and tokenizers.

usage: tokens.py BENCH_ENCODE TOKENIZER THREADS ROUNDS TEXT...
       tokens.py --equal BENCH_ENCODE TOKENIZER THREADS TEXT...
       tokens.py --strings BENCH_ENCODE TOKENIZER THREADS NUMBER

TOKENIZER: a folder with vocab.json and merges.txt (GPT-2's pattern) or a
tokenizer.json. Each text is cut into documents of about 16 KiB at line ends,
the same for all. The rounds take turns, so that the load of the machine is
the same for all; the first round of each is shown apart (cold), the rest are
warm. --equal compares the tokens instead; --strings those of so many random
strings over the code points that Python's unicodedata knows (Unicode 14 for
Python 3.11), with special tokens among them, and lists what differs.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

DOC_BYTES = 16384


def byte_alphabet():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    chars = {chr(b): b for b in keep}
    chars.update({chr(256 + i): b for i, b in enumerate(rest)})
    return chars


def peers(path):
    """tokenizers' and tiktoken's of the same vocabulary."""
    import tiktoken
    from tokenizers import Tokenizer, models, pre_tokenizers
    if os.path.isdir(path):
        vocab = json.load(open(os.path.join(path, "vocab.json")))
        hf = Tokenizer(models.BPE.from_file(os.path.join(path, "vocab.json"),
                                            os.path.join(path, "merges.txt")))
        hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pattern = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
                   r"| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
        added = []
        vocab.pop("<|endoftext|>", None)
    else:
        hf = Tokenizer.from_file(path)
        root = json.load(open(path))
        vocab = root["model"]["vocab"]
        added = [a["content"] for a in root["added_tokens"]]
        pattern = find_pattern(root["pre_tokenizer"])
    chars = byte_alphabet()
    ranks = {bytes(chars[c] for c in token): i for token, i in vocab.items()
             if token not in added}
    tt = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks,
                           special_tokens={a: vocab.get(a, len(vocab))
                                           for a in added})
    return hf, tt


def find_pattern(part):
    if part["type"] == "Split":
        return part["pattern"]["Regex"]
    for inner in part.get("pretokenizers", []):
        if found := find_pattern(inner):
            return found
    if part["type"] == "ByteLevel" and part.get("use_regex", True):
        return (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
                r"| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    return None


def cut(path):
    """The documents, and their ends in bytes."""
    data = open(path, "rb").read()
    ends, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at + DOC_BYTES) + 1 or len(data)
        ends.append(end)
        at = end
    docs = [data[a:b].decode() for a, b in zip([0] + ends, ends)]
    return docs, ends, len(data)


class Ours:
    def __init__(self, binary, tokenizer, path, ends, threads, folder):
        cuts = os.path.join(folder, "cuts")
        with open(cuts, "w") as f:
            f.write("".join("%d\n" % e for e in ends))
        self.proc = subprocess.Popen(
            [binary, tokenizer, path, cuts, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.proc.stdin.write(line + "\n")
        self.proc.stdin.flush()
        return self.proc.stdout.readline().split()

    def round(self):
        wall, cpu, _ = self.ask("go")
        return float(wall), float(cpu)

    def close(self):
        self.proc.stdin.close()
        self.proc.wait()


def numbers(ours, folder):
    """A list of arrays, one a document."""
    import numpy
    name = os.path.join(folder, "ids")
    ours.ask("dump " + name)
    all_ids, at, got = numpy.fromfile(name, dtype=numpy.int32), 0, []
    while at < len(all_ids):
        n = int(all_ids[at])
        got.append(all_ids[at + 1:at + 1 + n])
        at += 1 + n
    return got


def compare(ours, hf, tt, docs, folder, path):
    got = numbers(ours, folder)
    for peer, encode in (
            ("tokenizers", lambda d: [e.ids for e in hf.encode_batch_fast(
                d, add_special_tokens=False)]),
            ("tiktoken", lambda d: tt.encode_batch(d, allowed_special="all",
                                                   disallowed_special=()))):
        wrong = []
        for i in range(0, len(docs), 64):
            for k, want in enumerate(encode(docs[i:i + 64])):
                if got[i + k].tolist() != want:
                    wrong.append(i + k)
        same = not wrong and len(got) == len(docs)
        print("%s: %s: %d texts, %d tokens: %s" %
              (os.path.basename(path), peer, len(docs), sum(map(len, got)),
               "equal" if same else "%d DIFFER" % len(wrong)), flush=True)
        for i in wrong[:20]:
            print("  %r: %s, theirs %s" % (docs[i][:60], got[i].tolist()[:20],
                                           encode([docs[i]])[0][:20]))


def random_strings(number):
    """Of assigned code points: all alike, of one script, and as in text."""
    import random
    import unicodedata
    rng = random.Random(20240531)
    assigned = [c for c in range(0x110000)
                if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    private = [c for c in assigned if unicodedata.category(chr(c)) != "Co"]
    bits = ["'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "the", " of", "1", "234",
            "5678", "x", "Y", "aB", ".", "...", "/", "\u0301", "\u017f", "\u00a0",
            "\u3000", "\u0663", "<|endoftext|>", "<|endof", "日本", "カナ", "é"]
    for i in range(number):
        n, kind = rng.randrange(1, 24), rng.randrange(4)
        if kind == 0:
            yield "".join(chr(rng.choice(assigned)) for _ in range(n))
        elif kind == 1:
            yield "".join(chr(rng.choice(private)) for _ in range(n))
        elif kind == 2:
            at = rng.randrange(len(private))
            yield "".join(chr(rng.choice(private[at:at + 40]))
                          for _ in range(n))
        else:
            yield "".join(rng.choice(bits) if rng.random() < .8 else
                          chr(rng.choice(private)) for _ in range(n))


def compare_strings(binary, tokenizer, threads, number, hf, tt):
    docs = list(random_strings(number))
    with tempfile.TemporaryDirectory() as folder:
        path, at, ends = os.path.join(folder, "strings"), 0, []
        with open(path, "wb") as f:
            for doc in docs:
                at += f.write(doc.encode())
                ends.append(at)
        ours = Ours(binary, tokenizer, path, ends, threads, folder)
        compare(ours, hf, tt, docs, folder, path)
        ours.close()


def main():
    args = sys.argv[1:]
    equal, strings = args[0] == "--equal", args[0] == "--strings"
    args = args[equal or strings:]
    binary, tokenizer, threads = args[0], args[1], int(args[2])
    rounds = int(args[3]) if not equal else 1
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    hf, tt = peers(tokenizer)
    if strings:
        compare_strings(binary, tokenizer, threads, int(args[3]), hf, tt)
        return
    for path in args[3 if equal else 4:]:
        docs, ends, size = cut(path)
        with tempfile.TemporaryDirectory() as folder:
            ours = Ours(binary, tokenizer, path, ends, threads, folder)
            if equal:
                compare(ours, hf, tt, docs, folder, path)
            else:
                measure(ours, hf, tt, docs, size, rounds, threads, path)
            ours.close()


def timed(call):
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(ours, hf, tt, docs, size, rounds, threads, path):
    took = {"ours": [], "tiktoken": [], "tokenizers": []}
    for _ in range(rounds):
        took["ours"].append(ours.round())
        took["tiktoken"].append(timed(
            lambda: tt.encode_ordinary_batch(docs, num_threads=threads)))
        took["ours"].append(ours.round())
        took["tokenizers"].append(timed(
            lambda: hf.encode_batch_fast(docs, add_special_tokens=False)))
    mb = size / 1e6
    for which, what in enumerate(("wall", "cpu")):
        rate = {k: mb / statistics.median(r[which] for r in v[1:])
                for k, v in took.items()}
        best = max(rate["tiktoken"], rate["tokenizers"])
        print("%-12s %5.1f MB, %d thread(s), load %4.1f, MB/s of %-4s: ours "
              "%6.1f (cold %.1f), tiktoken %5.2f, tokenizers %5.2f: %.1f x" %
              (os.path.basename(path), mb, threads, os.getloadavg()[0], what,
               rate["ours"], mb / took["ours"][0][which], rate["tiktoken"],
               rate["tokenizers"], rate["ours"] / best), flush=True)


main()
