"""grads - gradients of whole models, tensor by tensor, against the fp32 CPU backend.

usage: grads.py [SHAPE[-start]...]         shapes of weights.py; settings as lab.py says

-start: with the weights that training starts from; else shaken ones, of which no gradient is special.

From the same weights and the same real tokens, koboshi-train makes one step with learning rate 0, no clipping and
beta1 0, so that the first moments in its checkpoint are the gradients, to the bit. Distance of a tensor a from the
reference b: ||a - b|| / max(||b||, 1e-3 ||all of b||). Limits: fp32 without TF32 5e-5; bf16 1.5 times what PyTorch's
bf16 (autocast) shows. PyTorch's fp32 and its bf16 weights without autocast are told beside them.
"""
import glob, os, shutil, sys
from concurrent.futures import ThreadPoolExecutor

from lab import DEVICE, WORK, Results, Run

import torch
import torch_twin as twin
import weights

FP32_LIMIT, BF16_TIMES = 5e-5, 1.5
B, T = int(os.environ.get("GRADS_B", 2)), int(os.environ.get("GRADS_T", 512))


def our_grads(run):
    run.train()
    folder = glob.glob(os.path.join(run.dir, "ckpt", "step-0000000001.a*"))[0]
    t = twin.read_tensors(folder)
    return {n[len("exp_avg/") :]: x.to(DEVICE) for n, x in t.items() if n.startswith("exp_avg/")}


def torch_grads(run, dtype):
    t = twin.Trainer(run.dir, 0, DEVICE, dtype, B)
    t.backward()
    return {n: p.grad.double() for n, p in t.params.items()}


def distances(a, b):
    whole = torch.sqrt(sum((x**2).sum() for x in b.values()))
    return {n: (torch.linalg.vector_norm(a[n] - b[n]) / max(torch.linalg.vector_norm(b[n]), 1e-3 * whole)).item()
            for n in b}


def worst(d):
    name = max(d, key=d.get)
    return dict(worst=float(f"{d[name]:.3g}"), tensor=name)


def runs_of(shape):
    hf = os.path.join(WORK, shape + ".hf")
    weights.write(hf, shape.removesuffix("-start"), shaken=not shape.endswith("-start"))
    common = dict(train__steps=1, train__seq_len=T, train__global_batch=B, train__micro_batch=B, optim__lr=0,
                  optim__min_lr=0, optim__clip=0, optim__beta1=0)
    kinds = [("reference", "cpu", "fp32"), ("fp32", DEVICE, "fp32")]
    if DEVICE == "cuda":
        kinds.append(("bf16", "cuda", "bf16"))
    return {k: Run(f"grads-{shape}-{k}", hf, train__device=d, train__precision=p, **common) for k, d, p in kinds}


def judge(results, shape, grads, run):
    ref = grads.pop("reference")
    d = distances(grads["fp32"], ref)
    results.put(f"{shape} fp32", max(d.values()) <= FP32_LIMIT, limit=FP32_LIMIT, **worst(d), tensors=len(d))
    results.put(f"{shape} PyTorch fp32", True, told="for comparison", **worst(distances(torch_grads(run, "fp32"), ref)))
    auto, pure = (distances(torch_grads(run, d), ref) for d in ("bf16", "bf16w"))
    told = dict(torch_autocast=worst(auto), torch_bf16_weights=worst(pure))
    if "bf16" not in grads:
        results.put(f"{shape} PyTorch bf16", True, told="no bf16 of ours on a CPU", **told)
        return
    ours = distances(grads["bf16"], ref)
    times = {n: ours[n] / auto[n] for n in ours}
    over = [n for n in times if times[n] > BF16_TIMES]
    top = max(times, key=times.get)
    results.put(f"{shape} bf16", not over, limit=BF16_TIMES, times_torch=round(times[top], 3), tensor_times=top,
                over=len(over), tensors=len(ours), **worst(ours), **told,
                median_times=round(sorted(times.values())[len(times) // 2], 3),
                over_bf16_weights=sum(ours[n] > BF16_TIMES * pure[n] for n in ours))


def main():
    results = Results("grads")
    shapes = [s for s in sys.argv[1:] or [*weights.SHAPES, "gpt2-124m-start"] if not results.have(f"{s} fp32")]
    with ThreadPoolExecutor(4) as pool:
        jobs = []
        for shape in shapes:
            runs = runs_of(shape)
            jobs.append((shape, runs, {k: pool.submit(our_grads, r) for k, r in runs.items()}))
        for shape, runs, waits in jobs:
            try:
                judge(results, shape, {k: w.result() for k, w in waits.items()}, runs["fp32"])
            except Exception as e:
                results.put(f"{shape} failed", False, why=str(e)[-400:])
            for r in runs.values():
                shutil.rmtree(r.dir, ignore_errors=True)


main()
