#!/usr/bin/env python3
"""Encoders side by side in one run: ours, tiktoken and tokenizers.

usage: tokens.py BENCH_ENCODE TOKENIZER THREADS ROUNDS TEXT...
       tokens.py --equal BENCH_ENCODE TOKENIZER THREADS TEXT...

TOKENIZER: a folder with vocab.json and merges.txt (GPT-2's pattern) or a
tokenizer.json. Each text is cut into documents of about 16 KiB at line ends,
the same for all. The rounds take turns, so that the load of the machine is
the same for all; the first round of each is shown apart (cold), the rest are
warm. --equal compares the tokens instead.
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
                           special_tokens={})
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


def compare(ours, hf, tt, docs, folder, path):
    import numpy
    name = os.path.join(folder, "ids")
    ours.ask("dump " + name)
    got = numpy.fromfile(name, dtype=numpy.int32)
    for peer, encode in (
            ("tokenizers", lambda d: [e.ids for e in hf.encode_batch_fast(
                d, add_special_tokens=False)]),
            ("tiktoken", lambda d: tt.encode_ordinary_batch(d))):
        at, wrong = 0, None
        for i in range(0, len(docs), 64):
            want = numpy.array(sum(encode(docs[i:i + 64]), []),
                               dtype=numpy.int32)
            if not numpy.array_equal(got[at:at + len(want)], want):
                wrong = i
                break
            at += len(want)
        same = wrong is None and at == len(got)
        print("%s: %s: %s, %d tokens" %
              (os.path.basename(path), peer, "equal" if same else
               "DIFFERS near document %s" % wrong, len(got)), flush=True)


def main():
    args = sys.argv[1:]
    equal = args[0] == "--equal"
    args = args[equal:]
    binary, tokenizer, threads = args[0], args[1], int(args[2])
    rounds = 1 if equal else int(args[3])
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    hf, tt = peers(tokenizer)
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
