"""speed - one result line of speed.sh from a run's metrics.

usage: speed.py CASE GPUS TOKENS_A_STEP MEMORY_MIB PEER_TOKENS_A_SECOND RUN_DIR

Reached is the issue's aim: 1.10 (llama) or 1.15 times the peer's rate where it ran, and 98.5 % of what one GPU gives.
"""
import json, os, re, statistics, sys

from lab import Results
from metrics import metrics

case, gpus, tokens, mib, peer, run = sys.argv[1], *(int(x) for x in sys.argv[2:6]), sys.argv[6]
rows = [r for step, r in sorted(metrics(run).items())][5:]
if len(rows) < 3:
    sys.exit(f"speed: {case}: {len(rows)} steps after the fifth")
ms = statistics.median(r["iteration_ms"] for r in rows)
rate = tokens / ms * 1e3
line = dict(steps=len(rows), ms=round(ms, 2), tok_s=round(rate), mib=mib)
good = True
if peer:
    line.update(peer_tok_s=peer, ratio=round(rate / peer, 3))
    good = rate / peer >= (1.10 if case.startswith("llama") else 1.15)
results = Results("speed")
if gpus > 1 and os.path.exists(results.path):
    one = [r for r in map(json.loads, open(results.path)) if r["case"] == re.sub(r" on \d+$", " on 1", case)]
    if one:
        line.update(efficiency=round(rate / (gpus * one[-1]["tok_s"]), 4))
        good = good and line["efficiency"] >= 0.985
        if peer and one[-1].get("peer_tok_s"):
            line.update(peer_efficiency=round(peer / (gpus * one[-1]["peer_tok_s"]), 4))
results.put(case, good, **line)
