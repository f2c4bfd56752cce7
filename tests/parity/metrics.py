"""metrics - what a run logged."""
import glob, json, os


def metrics(run_dir):
    """What a run logged of each step, the last attempt winning."""
    ours = {}
    for path in sorted(glob.glob(os.path.join(run_dir, "attempts", "*", "metrics.jsonl"))):
        for line in open(path):
            r = json.loads(line)
            if "loss" in r:
                ours[r["step"]] = r
    return ours
