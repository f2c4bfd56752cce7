"""A plain PyTorch twin of our models, for comparisons: checkpoint and order readers, forward, schedule.

Everything here is computed independently of the C code: a checkpoint's boxes are assembled by their names, samples are
drawn in Megatron's order by numpy's legacy generator, the model is written out over Hugging Face's tensor names.
"""
import glob, json, math, os, struct

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


def open_run(run_dir):
    """A run's keys, flat, and a function that gives a key's value or another where it is unset."""
    y = flat(yaml.safe_load(open(os.path.join(run_dir, "run.yaml"))))
    return y, lambda key, other: y[key] if y.get(key) not in (None, "") else other


def shape_of(y, value, tensors, dtype):
    """What model() wants to know: from the keys, and from the tensors' names."""
    gpt2 = "transformer.wte.weight" in tensors
    layers = 1 + max(int(n.split(".")[2]) for n in tensors if ".h." in n or ".layers." in n)
    heads = int(value("model.heads", 0))
    return dict(gpt2=gpt2, ln=value("model.norm", "layernorm" if gpt2 else "rmsnorm") == "layernorm", layers=layers,
                heads=heads, kv_heads=int(value("model.kv_heads", heads)), theta=float(value("model.rope_theta", 1e4)),
                eps=float(value("model.norm_eps", 1e-5)), dtype=dtype)


def be_exact(exact):
    """No TF32 and, where fp32 or fp64 is computed, no attention kernel that might round more than a product does."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for switch in ("flash", "mem_efficient", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{switch}_sdp")(not exact)


class Trainer:
    """A run taken up from its checkpoint of a step, in PyTorch: our masters and moments, our samples, our schedule.

    dtype: fp32, fp64; bf16, which is autocast, as most train (the residual stream stays fp32); bf16w, bf16 weights and
    stream with fp32 masters, as Megatron-LM and llm.c do, and we.
    """

    def __init__(self, run_dir, step, device, dtype, micro):
        be_exact(not dtype.startswith("bf16"))
        self.y, value = open_run(run_dir)
        self.step, self.device, self.dtype, self.micro = step, device, dtype, micro
        self.keep = torch.float64 if dtype == "fp64" else torch.float32
        folder = sorted(glob.glob(os.path.join(run_dir, "ckpt", f"step-{step:010d}.a*")))[-1]
        tensors = read_tensors(folder)
        take = lambda kind: {n[len(kind) + 1 :]: t.to(device, self.keep) for n, t in tensors.items()
                             if n.startswith(kind + "/")}
        masters, m, v = take("master"), take("exp_avg"), take("exp_avg_sq")
        self.conf = shape_of(self.y, value, masters, torch.bfloat16 if dtype.startswith("bf16") else self.keep)
        self.T = int(value("train.seq_len", self.y.get("model.max_positions")))
        self.G, self.steps = int(self.y["train.global_batch"]), int(self.y["train.steps"])
        lr = float(self.y["optim.lr"])
        self.sched = dict(lr=lr, min_lr=float(value("optim.min_lr", lr / 10)), warmup=int(self.y["optim.warmup_steps"]),
                          decay_steps=int(value("optim.decay_steps", self.steps)), schedule=self.y["optim.schedule"])
        self.params = {n: t.clone().requires_grad_() for n, t in masters.items()}
        decay = float(self.y["optim.weight_decay"])
        self.opt = torch.optim.AdamW([{"params": [t], "weight_decay": decay if t.dim() > 1 else 0.0}
                                      for t in self.params.values()], lr=lr, eps=float(self.y["optim.eps"]),
                                     betas=(float(self.y["optim.beta1"]), float(self.y["optim.beta2"])))
        for n, t in self.params.items():
            zero = torch.zeros_like(t)  # an imported model has no moments
            self.opt.state[t] = {"step": torch.tensor(float(step)), "exp_avg": m.get(n, zero).clone(),
                                 "exp_avg_sq": v.get(n, zero).clone()}
        data = self.y["data.train"][0] if isinstance(self.y["data.train"], list) else self.y["data.train"]
        self.order = Order(os.path.join(run_dir, data.split()[-1]), self.steps * self.G, self.T, int(self.y["run.seed"]))

    def backward(self):
        """The loss of the next step; its gradients are left in the parameters."""
        G, T, total = self.G, self.T, 0.0
        batch = np.stack([self.order.sample(self.step * G + i) for i in range(G)])
        for b in range(0, G, self.micro):
            x = torch.from_numpy(batch[b : b + self.micro]).to(self.device)
            low = self.params
            if self.dtype == "bf16w":
                low = {n: p.to(torch.bfloat16) for n, p in low.items()}
            with torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == "bf16"):
                logits = model(low, self.conf, x[:, :-1], self.dtype)
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]).to(self.keep), x[:, 1:].reshape(-1),
                                   reduction="sum") / (G * T)
            loss.backward()
            total += loss.detach()
        return float(total)

    def train_step(self):
        """One step: its number, loss and gradient norm."""
        loss = self.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.params.values(), float(self.y["optim.clip"]) or math.inf).item()
        self.step += 1
        for g in self.opt.param_groups:
            g["lr"] = rate(self.sched, self.step)
        self.opt.step()
        self.opt.zero_grad()
        return self.step, loss, norm

