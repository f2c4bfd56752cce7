"""What do bf16 copies of fp32 master weights cost, apart from bf16 arithmetic?

Trains on from an imported run's step 0 in PyTorch, in fp32, with the weights rounded to bf16 in each forward pass: none,
the matrices and embeddings (as autocast does), all (as Megatron-LM, llm.c and we do). An update below half a unit in
the last place is not seen until several have added up.

Usage: weight_rounding.py RUN_DIR [--steps N] [--window W]     RUN_DIR has run.yaml and ckpt/step-0000000000.a*
Prints each window's mean loss, and its distance from that of fp32 weights.
"""
import argparse

import torch
from torch_twin import Trainer


class Rounded(Trainer):
    def __init__(self, run_dir, rounds):
        super().__init__(run_dir, 0, "cpu", "fp32", 1 << 20)
        self.masters, self.rounds = self.params, rounds

    def backward(self):
        self.params = {n: p.to(torch.bfloat16).float() if self.rounds(p) else p for n, p in self.masters.items()}
        loss = super().backward()
        self.params = self.masters
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("run_dir")
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--window", type=int, default=20)
    a = ap.parse_args()
    exact = None
    for what, rounds in (("none", lambda p: False), ("matrices", lambda p: p.dim() > 1), ("all", lambda p: True)):
        trainer = Rounded(a.run_dir, rounds)
        losses = [trainer.train_step()[1] for _ in range(a.steps)]
        means = [sum(losses[i : i + a.window]) / a.window for i in range(0, a.steps, a.window)]
        exact = exact or means
        print(f"{what:9}", " ".join(f"{m:.4f} ({m - e:+.4f})" for m, e in zip(means, exact)), flush=True)


main()
