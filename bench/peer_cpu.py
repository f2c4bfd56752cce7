"""Tokens/s of PyTorch training GPT-2 124M on CPUs in fp32, 4 sequences of 256
tokens a step, to hold koboshi-train against. usage: peer_cpu.py THREADS"""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
tokens = torch.randint(0, 50257, (4, 256))
for step in range(8):
    begin = time.time()
    optimizer.zero_grad(set_to_none=False)
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, round(tokens.numel() / (time.time() - begin), 1), "tokens/s",
          flush=True)
