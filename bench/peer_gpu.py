"""Tokens/s of PyTorch on one GPU, to hold koboshi-train against: bf16 autocast
over fp32 weights, fp32 gradients, fused AdamW, gradient clipping, a tied head,
each block compiled, scaled_dot_product_attention.

usage: peer_gpu.py SHAPE MICRO_BATCH [accum=]ACCUMULATION [EVERY [STEPS]]

EVERY n: each n-th block is computed again in backward; 0 (default): none. One
line of JSON with the median of STEPS (8) steps after three."""
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

# layers, width, heads, key heads, feed-forward, vocabulary, sequence, llama
SHAPES = {
    "tiny": (2, 64, 4, 4, 256, 512, 32, False),
    "gpt2-124m": (12, 768, 12, 12, 3072, 50304, 1024, False),
    "gpt2-1558m": (48, 1600, 25, 25, 6400, 50304, 1024, False),
    "gpt3-7b": (32, 4096, 32, 32, 16384, 50304, 2048, False),
    "llama-1b": (16, 2048, 32, 8, 8192, 128256, 2048, True),
    "llama-3b": (28, 3072, 24, 8, 8192, 128256, 2048, True),
}


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


class Block(nn.Module):
    def __init__(self, width, heads, keys, ffn, llama):
        super().__init__()
        self.heads, self.keys, self.llama = heads, keys, llama
        self.head = width // heads
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(width, eps=1e-5), norm(width, eps=1e-5)
        rows = (heads + 2 * keys) * self.head
        self.qkv = nn.Linear(width, rows, bias=not llama)
        self.out = nn.Linear(width, width, bias=not llama)
        self.up = nn.Linear(width, 2 * ffn if llama else ffn, bias=not llama)
        self.down = nn.Linear(ffn, width, bias=not llama)

    def split(self, x, heads):
        return x.unflatten(-1, (heads, self.head)).transpose(1, 2)

    def forward(self, x, cos, sin):
        sizes = [n * self.head for n in (self.heads, self.keys, self.keys)]
        q, k, v = self.qkv(self.norm1(x)).split(sizes, -1)
        q, k, v = (self.split(t, n) for t, n in
                   ((q, self.heads), (k, self.keys), (v, self.keys)))
        if self.llama:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.heads != self.keys)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        h = self.up(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        else:
            h = F.gelu(h, approximate="tanh")
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, shape, every):
        super().__init__()
        layers, width, heads, keys, ffn, vocab, seq, llama = shape
        self.every = every
        self.tokens = nn.Embedding(vocab, width)
        self.places = None if llama else nn.Embedding(seq, width)
        self.blocks = nn.ModuleList(Block(width, heads, keys, ffn, llama)
                                    for _ in range(layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(width, eps=1e-5)
        d = width // heads
        angle = torch.outer(torch.arange(seq).float(),
                            5e5 ** (-torch.arange(0, d, 2).float() / d))
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos().bfloat16())
        self.register_buffer("sin", angle.sin().bfloat16())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def loss(self, x, labels):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places.weight[:tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            if self.every and i % self.every == 0:
                x = checkpoint(block, x, self.cos, self.sin,
                               use_reentrant=False)
            else:
                x = block(x, self.cos, self.sin)
        return self.loss(x, labels)


def main(name, micro, accumulation, every=0, steps=8):
    where = "cuda" if torch.cuda.is_available() else "cpu"
    shape = SHAPES[name]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    with torch.device(where):
        model = Model(shape, every)
    if where == "cuda":
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(model.loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True,
                                  betas=(0.9, 0.95), weight_decay=0.1)
    data = torch.randint(0, shape[5], (8, micro, shape[6] + 1), device=where)

    def step(n):
        for m in range(accumulation):
            d = data[(n * accumulation + m) % 8]
            with torch.autocast(where, torch.bfloat16):
                loss = model(d[:, :-1], d[:, 1:].contiguous())
            (loss / accumulation).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    begin, times = time.time(), []
    first = step(0)
    compiled = time.time() - begin
    for n in range(1, 3 + steps):
        begin = time.time()
        last = step(n)
        times.append(time.time() - begin)
    ms = statistics.median(times[2:]) * 1e3
    memory = torch.cuda.max_memory_allocated() / 2**30 if where == "cuda" else 0
    print(json.dumps(dict(
        peer="torch " + torch.__version__, cfg=name, B=micro,
        accum=accumulation, every=every, first_s=round(compiled, 1),
        ms=round(ms, 1), tok_s=round(micro * accumulation * shape[6] / ms *
                                     1e3), gib=round(memory, 1),
        loss=[round(first, 3), round(last, 3)])), flush=True)


if __name__ == "__main__":
    if os.environ.get("WORLD_SIZE", "1") != "1":
        sys.exit("peer_gpu: one GPU only; start it without torchrun")
    main(sys.argv[1], *(int(a.removeprefix("accum=")) for a in sys.argv[2:]))
