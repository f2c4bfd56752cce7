"""Does PyTorch, going on from one of our checkpoints, see the losses that we saw?

Takes a finished run, loads master weights and AdamW moments of one of its checkpoints into a plain PyTorch model,
draws the same samples in the same order (Megatron's, by numpy's legacy generator), trains on to the run's later
steps, and compares each step's loss and gradient norm with metrics.jsonl. Everything but the checkpoint's bytes is
computed here independently: the model, the order, the schedule, the optimizer.

Usage: torch_resume.py RUN_DIR STEP [--steps N] [--device cpu|cuda] [--dtype fp32|bf16] [--limit X] [--micro B]
Prints a line a step and a verdict; exit 0 when no loss is further away than the limit.
"""
import argparse, glob, json, math, os, struct, sys

import numpy as np
import torch
import torch.nn.functional as F
import yaml


def flat(tree, prefix=""):
    out = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            out.update(flat(value, prefix + key + "."))
        else:
            out[prefix + key] = value
    return out


def read_tensors(folder):
    """All boxes of a checkpoint's shards, assembled: name -> float tensor."""
    kinds = {"F32": np.float32, "F64": np.float64}
    boxes = {}
    for path in sorted(glob.glob(os.path.join(folder, "shard-*.safetensors"))):
        with open(path, "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            header = json.loads(f.read(n))
            blob = np.memmap(path, mode="r", offset=8 + n, dtype=np.uint8)
        for key, entry in header.items():
            if key == "__metadata__":
                continue
            name, box = key.rsplit("@", 1)
            offset, extent = ([int(x) for x in part.replace("x", ",").split(",") if x] for part in box.split("+"))
            begin, end = entry["data_offsets"]
            data = blob[begin:end].view(kinds[entry["dtype"]]).reshape(entry["shape"])
            boxes.setdefault(name, []).append((offset, extent, data))
    out = {}
    for name, parts in boxes.items():
        shape = [max(o[i] + e[i] for o, e, _ in parts) for i in range(len(parts[0][0]))]
        whole = np.full(shape, np.nan, np.float64)
        for o, e, data in parts:
            whole[tuple(slice(a, a + b) for a, b in zip(o, e))] = data.reshape(e)
        assert not np.isnan(whole).any(), f"{name}: a box is missing"
        out[name] = torch.from_numpy(whole)
    return out


class Order:
    """Megatron's sample order over one token file."""

    def __init__(self, prefix, samples_n, T, seed):
        raw = open(prefix + ".idx", "rb").read()
        code, s = raw[17], struct.unpack_from("<Q", raw, 18)[0]
        self.dtype = {1: np.uint8, 4: np.int32, 8: np.uint16}[code]
        self.lengths = np.frombuffer(raw, np.int32, s, 34)
        self.pointers = np.frombuffer(raw, np.int64, s, 34 + 4 * s)
        self.tokens = np.memmap(prefix + ".bin", mode="r", dtype=np.uint8)
        self.T = T
        epoch = int(self.lengths.sum())
        epochs = 1
        while epochs * epoch < samples_n * T + 1:
            epochs += 1
        total = (epochs * epoch - 1) // T
        apart = False
        if epochs > 1:
            before = ((epochs - 1) * epoch - 1) // T
            apart = samples_n - before < int(0.80 * ((epoch - 1) // T))
        rng = np.random.RandomState(seed)
        one = np.arange(s, dtype=np.int32)

        def shuffled(x):
            x = x.copy()
            rng.shuffle(x)
            return x

        if apart:
            self.docs = np.concatenate([shuffled(np.tile(one, epochs - 1)), shuffled(one)])
            self.shuffle = np.concatenate([shuffled(np.arange(before)), shuffled(np.arange(before, total))])
        else:
            self.docs = shuffled(np.tile(one, epochs))
            self.shuffle = shuffled(np.arange(total))
        self.starts = np.concatenate([[0], np.cumsum(self.lengths[self.docs])])

    def sample(self, i):
        first = int(self.shuffle[i]) * self.T
        need, out = self.T + 1, []
        d = int(np.searchsorted(self.starts, first, side="right")) - 1
        at = first - int(self.starts[d])
        while need:
            doc = int(self.docs[d])
            take = min(need, int(self.lengths[doc]) - at)
            width = np.dtype(self.dtype).itemsize
            begin = int(self.pointers[doc]) + at * width
            out.append(self.tokens[begin : begin + take * width].view(self.dtype).astype(np.int64))
            need, at, d = need - take, 0, d + 1
        return np.concatenate(out)


def model(p, conf, tokens, dtype):
    """Logits [B, T, V] from Hugging Face's tensors; fp32 masters, autocast products."""
    B, T = tokens.shape
    H, eps = conf["heads"], conf["eps"]
    norm = (lambda x, n: F.layer_norm(x, x.shape[-1:], p[n + ".weight"], p.get(n + ".bias"), eps)) if conf["ln"] else (
        lambda x, n: F.rms_norm(x, x.shape[-1:], p[n + ".weight"], eps))
    heads = lambda x, n: x.view(B, T, n, -1).transpose(1, 2)
    if conf["gpt2"]:
        x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][:T]
        conv = lambda x, n: torch.addmm(p[n + ".bias"], x.view(-1, x.shape[-1]), p[n + ".weight"]).view(B, T, -1)
        for i in range(conf["layers"]):
            h = f"transformer.h.{i}."
            q, k, v = conv(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1)
            y = F.scaled_dot_product_attention(heads(q, H), heads(k, H), heads(v, H), is_causal=True)
            x = x + conv(y.transpose(1, 2).reshape(B, T, -1), h + "attn.c_proj")
            x = x + conv(F.gelu(conv(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
        return F.linear(norm(x, "transformer.ln_f"), p["transformer.wte.weight"])
    K = conf["kv_heads"]
    D = p["model.layers.0.self_attn.q_proj.weight"].shape[0] // H
    inv = 1.0 / conf["theta"] ** (torch.arange(0, D, 2, device=tokens.device, dtype=torch.float64) / D)
    angle = torch.outer(torch.arange(T, device=tokens.device, dtype=torch.float64), inv)
    cos, sin = (torch.cat((f(angle),) * 2, -1).to(conf["dtype"]) for f in (torch.cos, torch.sin))
    turn = lambda x: x * cos + torch.cat((-x[..., D // 2 :], x[..., : D // 2]), -1) * sin
    x = p["model.embed_tokens.weight"][tokens]
    for i in range(conf["layers"]):
        h = f"model.layers.{i}."
        a = norm(x, h + "input_layernorm")
        q, k, v = (heads(F.linear(a, p[f"{h}self_attn.{n}_proj.weight"], p.get(f"{h}self_attn.{n}_proj.bias")), m)
                   for n, m in (("q", H), ("k", K), ("v", K)))
        if h + "self_attn.q_norm.weight" in p:
            q = F.rms_norm(q, (D,), p[h + "self_attn.q_norm.weight"], eps)
            k = F.rms_norm(k, (D,), p[h + "self_attn.k_norm.weight"], eps)
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=H != K)
        x = x + F.linear(y.transpose(1, 2).reshape(B, T, -1), p[h + "self_attn.o_proj.weight"])
        a = norm(x, h + "post_attention_layernorm")
        x = x + F.linear(F.silu(F.linear(a, p[h + "mlp.gate_proj.weight"])) * F.linear(a, p[h + "mlp.up_proj.weight"]),
                         p[h + "mlp.down_proj.weight"])
    return F.linear(norm(x, "model.norm"), p.get("lm_head.weight", p["model.embed_tokens.weight"]))


def rate(c, step):
    lr, low = c["lr"], c["min_lr"]
    if c["warmup"] and step <= c["warmup"]:
        return lr * step / c["warmup"]
    if c["schedule"] == "constant":
        return lr
    part = min(1.0, (step - c["warmup"]) / max(1, c["decay_steps"] - c["warmup"]))
    return low + (lr - low) * (0.5 * (1 + math.cos(math.pi * part)) if c["schedule"] == "cosine" else 1 - part)


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
    torch.backends.cuda.matmul.allow_tf32 = False
    y = flat(yaml.safe_load(open(os.path.join(a.run_dir, "run.yaml"))))
    folder = sorted(glob.glob(os.path.join(a.run_dir, "ckpt", f"step-{a.step:010d}.a*")))[-1]
    tensors = read_tensors(folder)
    keep = torch.float64 if a.dtype == "fp64" else torch.float32
    take = lambda kind: {n[len(kind) + 1 :]: t.to(a.device, keep) for n, t in tensors.items() if n.startswith(kind + "/")}
    masters, m, v = take("master"), take("exp_avg"), take("exp_avg_sq")
    gpt2 = "transformer.wte.weight" in masters
    layers = 1 + max(int(n.split(".")[2]) for n in masters if ".h." in n or ".layers." in n)
    kept = json.load(open(os.path.join(folder, "manifest.json")))
    value = lambda key, other: y[key] if y.get(key) not in (None, "") else other
    T = int(value("train.seq_len", y.get("model.max_positions")))
    G, steps = int(y["train.global_batch"]), int(y["train.steps"])
    heads = int(value("model.heads", 0))
    conf = dict(gpt2=gpt2, ln=value("model.norm", "layernorm" if gpt2 else "rmsnorm") == "layernorm", layers=layers,
                heads=heads, kv_heads=int(value("model.kv_heads", heads)), theta=float(y["model.rope_theta"]),
                eps=float(y["model.norm_eps"]), dtype=torch.bfloat16 if a.dtype == "bf16" else keep)
    lr = float(y["optim.lr"])
    sched = dict(lr=lr, min_lr=float(value("optim.min_lr", lr / 10)), warmup=int(y["optim.warmup_steps"]),
                 decay_steps=int(value("optim.decay_steps", steps)), schedule=y["optim.schedule"])
    params = {n: t.clone().requires_grad_() for n, t in masters.items()}
    opt = torch.optim.AdamW([{"params": [t], "weight_decay": float(y["optim.weight_decay"]) if t.dim() > 1 else 0.0}
                             for t in params.values()], lr=lr, betas=(float(y["optim.beta1"]), float(y["optim.beta2"])),
                            eps=float(y["optim.eps"]))
    for n, t in params.items():
        opt.state[t] = {"step": torch.tensor(float(a.step)), "exp_avg": m[n].clone(), "exp_avg_sq": v[n].clone()}
    data = y["data.train"][0] if isinstance(y["data.train"], list) else y["data.train"]
    order = Order(os.path.join(a.run_dir, data.split()[-1]), steps * G, T, int(y["run.seed"]))
    ours = {}
    for path in sorted(glob.glob(os.path.join(a.run_dir, "attempts", "*", "metrics.jsonl"))):
        for line in open(path):
            r = json.loads(line)
            if "loss" in r:
                ours[r["step"]] = r
    worst, out = 0.0, open(a.out, "w") if a.out else None
    for step in range(a.step + 1, min(a.step + a.steps, steps) + 1):
        batch = np.stack([order.sample((step - 1) * G + i) for i in range(G)])
        total = 0.0
        for b in range(0, G, a.micro):
            x = torch.from_numpy(batch[b : b + a.micro]).to(a.device)
            with torch.autocast(a.device, torch.bfloat16, enabled=a.dtype == "bf16"):
                logits = model(params, conf, x[:, :-1], a.dtype)
            vocab = logits.shape[-1]
            loss = F.cross_entropy(logits.reshape(-1, vocab).to(keep), x[:, 1:].reshape(-1), reduction="sum") / (G * T)
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), float(y["optim.clip"]) or math.inf).item()
        for g in opt.param_groups:
            g["lr"] = rate(sched, step)
        opt.step()
        opt.zero_grad()
        if out:
            out.write(json.dumps(dict(step=step, loss=total, grad_norm=norm)) + "\n")
        if step in ours:
            worst = max(worst, abs(total - ours[step]["loss"]))
            print(f"step {step}: PyTorch {total:.7f}, ours {ours[step]['loss']:.7f}, apart {total - ours[step]['loss']:+.2e}; "
                  f"gradient norm {norm:.6f}, ours {ours[step].get('grad_norm', math.nan):.6f}", flush=True)
    print(f"largest distance {worst:.3e}, limit {a.limit:g}: {'ok' if worst <= a.limit else 'not ok'}")
    return worst > a.limit


sys.exit(main())
