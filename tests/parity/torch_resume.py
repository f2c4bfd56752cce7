"""Does PyTorch, going on from one of our checkpoints, see the losses that we saw?

Takes a finished run, loads master weights and AdamW moments of one of its checkpoints into a plain PyTorch model,
draws the same samples in the same order (Megatron's, by numpy's legacy generator), trains on to the run's later
steps, and compares each step's loss and gradient norm with metrics.jsonl. Everything but the checkpoint's bytes is
computed by torch_twin.py independently: the model, the order, the schedule, the optimizer.

Usage: torch_resume.py RUN_DIR STEP [--steps N] [--device cpu|cuda] [--dtype fp32|bf16] [--limit X] [--micro B]
Prints a line a step and a verdict; exit 0 when no loss is further away than the limit.
"""
import argparse, json, math, sys

from metrics import metrics
from torch_twin import Trainer


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("run_dir")
    ap.add_argument("step", type=int)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--dtype", default="fp32", choices=["fp32", "fp64", "bf16"])
    ap.add_argument("--limit", type=float, default=1e-3)
    ap.add_argument("--micro", type=int, default=8)
    ap.add_argument("--out", help="write step and loss as JSON lines")
    a = ap.parse_args()
    trainer = Trainer(a.run_dir, a.step, a.device, a.dtype, a.micro)
    ours = metrics(a.run_dir)
    worst, out = 0.0, open(a.out, "w") if a.out else None
    while trainer.step < min(a.step + a.steps, trainer.steps):
        step, loss, norm = trainer.train_step()
        if out:
            out.write(json.dumps(dict(step=step, loss=loss, grad_norm=norm)) + "\n")
        if step in ours:
            worst = max(worst, abs(loss - ours[step]["loss"]))
            print(f"step {step}: PyTorch {loss:.7f}, ours {ours[step]['loss']:.7f}, apart {loss - ours[step]['loss']:+.2e}; "
                  f"gradient norm {norm:.6f}, ours {ours[step].get('grad_norm', math.nan):.6f}", flush=True)
    print(f"largest distance {worst:.3e}, limit {a.limit:g}: {'ok' if worst <= a.limit else 'not ok'}")
    return worst > a.limit


sys.exit(main())
