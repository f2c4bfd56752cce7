"""table - the result lines of all parts as one table; exit 1 if one is not ok.

usage: table.py FOLDER...      folders that hold *.jsonl, the later ones winning a case
"""
import glob, json, os, sys

SHOWN = ("part", "case", "ok", "device")
rows = {}
for folder in sys.argv[1:]:
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        for line in open(path):
            try:
                r = json.loads(line)
                rows[r["part"], r["case"]] = r
            except (ValueError, KeyError):
                print(f"{path}: not a result: {line[:80]!r}", file=sys.stderr)
print("| part | case | on | verdict | figures |\n|---|---|---|---|---|")
for (part, case), r in sorted(rows.items()):
    flat = lambda v: " ".join(map(str, v.values())) if isinstance(v, dict) else str(v)
    figures = ", ".join(f"{k} {flat(v)}" for k, v in r.items() if k not in SHOWN)
    print(f"| {part} | {case} | {r.get('device', '')} | {'ok' if r['ok'] else '**not ok**'} | {figures} |")
bad = sum(not r["ok"] for r in rows.values())
print(f"\n{len(rows)} results, {bad} not ok")
sys.exit(bad > 0 or not rows)
