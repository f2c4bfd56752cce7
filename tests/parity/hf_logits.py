"""Do imported and exported models say what they say in Hugging Face's transformers?

Makes small models of each family there, with weights of trained scale, imports each (koboshi ckpt import), compares
fp32 logits of 100 tokens, exports what was imported by the run's own run.yaml, and loads that into transformers again.

Usage: hf_logits.py BUILD [--limit X]     BUILD holds koboshi and tests/parity/hf_logits (make check)
Works with transformers 4 and 5. Prints a line a model; exit 0 when no logit is further away than the limit.
"""
import argparse, os, subprocess, sys, tempfile

import torch
import transformers as hf

SIZES = dict(vocab_size=301, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=160)
GPT2 = dict(vocab_size=301, n_positions=160, n_embd=48, n_layer=3, n_head=4)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
if int(hf.__version__.split(".")[0]) < 5:
    SCALED = dict(rope_theta=5000.0, rope_scaling=LLAMA3)
else:
    SCALED = dict(rope_parameters=dict(LLAMA3, rope_theta=5000.0))

MODELS = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)),
    "gpt2-untied": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(tie_word_embeddings=False, **GPT2)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)),
    "llama-biases": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**dict(SIZES, num_key_value_heads=1, head_dim=16), attention_bias=True, mlp_bias=True,
                       tie_word_embeddings=True)),
    "llama-3.1": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**dict(SIZES, max_position_embeddings=1600), **SCALED)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**SIZES)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES, head_dim=32)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**SIZES, sliding_window=None)),
}
RUN = """
run: {dir: %s}
train: {steps: 1, seq_len: 32, global_batch: 1}
data: {train: /nowhere}
"""


def shake(model):
    """Weights as of a trained model: logits of standard deviation about 1, norms and biases away from 1 and 0."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.copy_(torch.randn_like(p) * 1.2 / p.shape[1] ** 0.5)
            else:
                p.add_(torch.randn_like(p) * 0.2)
    return model.eval()


def logits(model, tokens):
    with torch.no_grad():
        return model(tokens).logits[0].double()


def compare(name, build, folder):
    torch.manual_seed(1)
    model = shake(MODELS[name]())
    tokens = torch.randint(0, 301, (1, 100))
    source, run, back = (os.path.join(folder, name + end) for end in ("", ".run", ".back"))
    model.save_pretrained(source, max_shard_size="60KB" if name in ("llama", "qwen3") else "1GB")
    koboshi = os.path.join(build, "koboshi")
    subprocess.run([koboshi, "ckpt", "import", "--hf", source, "--run-dir", run], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(run, "run.yaml"), "w") as f:
        f.write(open(os.path.join(run, "import.yaml")).read() + RUN % run)
    out = subprocess.run([os.path.join(build, "tests/parity/hf_logits"), run] + [str(t) for t in tokens[0].tolist()],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    ours = torch.tensor([[float(x) for x in line.split()] for line in out.splitlines()], dtype=torch.double)
    want = logits(model, tokens)
    subprocess.run([koboshi, "ckpt", "export", "--hf", back, "--run-dir", run], check=True, stdout=subprocess.DEVNULL)
    again = hf.AutoModelForCausalLM.from_pretrained(back, dtype=torch.float32).eval()
    return (ours - want).abs().max().item(), (logits(again, tokens) - want).abs().max().item(), want.std().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--limit", type=float, default=1e-4)
    args = parser.parse_args()
    hf.utils.logging.set_verbosity_error()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            imported, exported, scale = compare(name, os.path.abspath(args.build), folder)
            bad += not (imported <= args.limit and exported <= args.limit)
            print(f"{name:13} imported {imported:.2g}, exported again {exported:.2g} (logits' deviation {scale:.2g})")
    print(f"transformers {hf.__version__}: {'FAIL' if bad else 'pass'}, limit {args.limit:g}")
    return bad > 0


sys.exit(main())
