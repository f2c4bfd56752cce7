"""tokens - a token file of skewed random tokens (rank r has weight 1/(r+10)).

usage: tokens.py PREFIX VOCABULARY TOKENS [DOCUMENT_LENGTH]
"""
import struct
import sys

import numpy as np

prefix, vocab, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
length = int(sys.argv[4]) if len(sys.argv) > 4 else 0
weights = 1.0 / (np.arange(vocab) + 10)
cdf = np.cumsum(weights / weights.sum())
tokens = np.searchsorted(cdf, np.random.default_rng(1).random(n)).clip(0, vocab - 1)
code, kind = (8, np.uint16) if vocab <= 65536 else (4, np.int32)
tokens.astype(kind).tofile(prefix + ".bin")
sizes = np.array([n] if not length else [min(length, n - i) for i in range(0, n, length)], np.int32)
starts = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))[:-1]]) * np.dtype(kind).itemsize
with open(prefix + ".idx", "wb") as f:
    f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sizes), len(sizes) + 1))
    f.write(sizes.tobytes() + starts.astype(np.int64).tobytes())
    f.write(np.arange(len(sizes) + 1, dtype=np.int64).tobytes())
