"""curves - losses beside PyTorch's, from the same weights, on the same real tokens.

usage: curves.py [SHAPE...]        shapes of weights.py; settings as lab.py says

fp32 without TF32: no step of 50 further from PyTorch's fp32 than 1e-3. bf16 over 200 steps, averaged over windows of 20:
no window further from PyTorch's fp32 than the larger of 0.01 and 1.5 times the furthest of PyTorch's own bf16, which is
autocast; with bf16 weights and residual stream, as ours, it is told beside. The loss falls by more than 2 nats. CURVES_STEPS and CURVES_T in the environment make it smaller for a rehearsal, CURVES_LR and
CURVES_WARMUP change the rate, under another name: the higher, the more does training multiply the smallest difference.
"""
import json, os, shutil, sys, time
from concurrent.futures import ThreadPoolExecutor

from lab import DEVICE, OUT, WORK, Results, Run

import torch_twin as twin
from metrics import metrics
import weights

STEPS, T, G, MICRO = int(os.environ.get("CURVES_STEPS", 200)), int(os.environ.get("CURVES_T", 256)), 16, 16
SHORT, WINDOW, FP32_LIMIT, BF16_FLOOR, BF16_TIMES, FALL = 50, 20, 1e-3, 0.01, 1.5, 2.0
LR, WARMUP = os.environ.get("CURVES_LR", "3e-4"), int(os.environ.get("CURVES_WARMUP", 60))
TAG = "".join(f" {n} {os.environ[v]}" for n, v in (("lr", "CURVES_LR"), ("warmup", "CURVES_WARMUP")) if v in os.environ)


def our_losses(run):
    run.train()
    return {step: r["loss"] for step, r in metrics(run.dir).items()}


def torch_losses(run, dtype):
    t, out = twin.Trainer(run.dir, 0, DEVICE, dtype, MICRO), {}
    while t.step < STEPS:
        step, loss, _ = t.train_step()
        out[step] = loss
    return out


def windows(losses):
    return [sum(losses[s] for s in range(a + 1, a + WINDOW + 1)) / WINDOW for a in range(0, STEPS, WINDOW)]


def apart(a, b):
    return max(abs(x - y) for x, y in zip(windows(a), windows(b)))


def judge(results, shape, ours, peer):
    with open(os.path.join(OUT, f"curves-{shape}{TAG}.json".replace(" ", "-")), "w") as f:
        json.dump(dict(ours=ours, torch=peer), f)
    n = min(SHORT, STEPS)
    far = max(abs(ours["fp32"][s] - peer["fp32"][s]) for s in range(1, n + 1))
    results.put(f"{shape}{TAG} fp32", far <= FP32_LIMIT, worst=float(f"{far:.3g}"), limit=FP32_LIMIT, steps=n)
    if "bf16" in ours:
        own, pure = apart(peer["bf16"], peer["fp32"]), apart(peer["bf16w"], peer["fp32"])
        far, limit = apart(ours["bf16"], peer["fp32"]), max(BF16_FLOOR, BF16_TIMES * own)
        results.put(f"{shape}{TAG} bf16", far <= limit, worst=float(f"{far:.3g}"), limit=round(limit, 5), steps=STEPS,
                    torch_autocast=float(f"{own:.3g}"), torch_bf16_weights=float(f"{pure:.3g}"))
    last = ours.get("bf16", ours["fp32"])
    if len(last) < STEPS:
        last = peer["fp32"]  # a rehearsal
    fell = last[1] - windows(last)[-1]
    results.put(f"{shape}{TAG} loss falls", fell > FALL, worst=round(fell, 3), limit=FALL,
                first=round(last[1], 3), last=round(windows(last)[-1], 3))


def main():
    results = Results("curves")
    for shape in [s for s in sys.argv[1:] or ("gpt2-124m", "llama-small") if not results.have(f"{s}{TAG} bf16")]:
        hf = os.path.join(WORK, f"{shape}{TAG}.start".replace(" ", "-"))
        weights.write(hf, shape, shaken=False)
        keys = dict(train__seq_len=T, train__global_batch=G, train__micro_batch=MICRO, train__device=DEVICE,
                    optim__lr=LR, optim__warmup_steps=WARMUP, optim__decay_steps=STEPS)
        kinds = ("fp32", "bf16") if DEVICE == "cuda" else ("fp32",)
        runs = {k: Run(f"curves-{shape}{TAG}-{k}".replace(" ", "-"), hf, train__precision=k,
                       train__steps=STEPS if k == "bf16" else min(SHORT, STEPS), **keys) for k in kinds}
        base = runs[kinds[-1]]
        with ThreadPoolExecutor(len(kinds)) as pool:
            ours = {k: pool.submit(our_losses, r) for k, r in runs.items()}
            while not os.path.exists(os.path.join(base.dir, "run.yaml")) and not ours[kinds[-1]].done():
                time.sleep(0.1)
            peer = {k: torch_losses(base, k) for k in ("fp32", "bf16", "bf16w") if k == "fp32" or DEVICE == "cuda"}
            ours = {k: w.result() for k, w in ours.items()}
        judge(results, shape, ours, peer)
        for r in runs.values():
            shutil.rmtree(r.dir, ignore_errors=True)


main()
