"""weights - a model's first weights as a Hugging Face folder, for koboshi ckpt import and for PyTorch alike.

usage: weights.py FOLDER SHAPE [shaken]

shaken: weights of trained scale, norms and biases away from 1 and 0, so that no gradient is special; otherwise those
that GPT-2 starts from. All values are bf16's, so that no precision changes them. VOCABULARY in the environment: another
size than GPT-2's.
"""
import json, os, sys

import torch
from safetensors.torch import save_file

LLAMA = dict(model_type="llama", rms_norm_eps=1e-5, rope_theta=1e4, max_position_embeddings=2048)
SHAPES = {
    "gpt2-small": dict(model_type="gpt2", n_layer=4, n_embd=256, n_head=4),
    "gpt2-124m": dict(model_type="gpt2", n_layer=12, n_embd=768, n_head=12),
    "llama-small": dict(LLAMA, num_hidden_layers=4, hidden_size=256, num_attention_heads=4, num_key_value_heads=2,
                        head_dim=64, intermediate_size=768, tie_word_embeddings=False),
    "llama-mid": dict(LLAMA, num_hidden_layers=8, hidden_size=1024, num_attention_heads=8, num_key_value_heads=2,
                      head_dim=128, intermediate_size=2816, tie_word_embeddings=True),
    "qwen3-small": dict(LLAMA, model_type="qwen3", num_hidden_layers=3, hidden_size=320, num_attention_heads=6,
                        num_key_value_heads=3, head_dim=80, intermediate_size=896, tie_word_embeddings=True),
}


def gpt2_tensors(c):
    C, n = c["n_embd"], c["n_layer"]
    yield "transformer.wte.weight", (c["vocab_size"], C), C
    yield "transformer.wpe.weight", (c["n_positions"], C), C
    for i in range(n):
        h = f"transformer.h.{i}."
        for name, shape in (("ln_1", (C,)), ("attn.c_attn", (C, 3 * C)), ("attn.c_proj", (C, C)), ("ln_2", (C,)),
                            ("mlp.c_fc", (C, 4 * C)), ("mlp.c_proj", (4 * C, C))):
            yield h + name + ".weight", shape, shape[0]
            yield h + name + ".bias", shape[-1:], 0
    yield "transformer.ln_f.weight", (C,), C
    yield "transformer.ln_f.bias", (C,), 0


def llama_tensors(c):
    C, D, F = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    H, K = c["num_attention_heads"] * D, c["num_key_value_heads"] * D
    yield "model.embed_tokens.weight", (c["vocab_size"], C), C
    for i in range(c["num_hidden_layers"]):
        h = f"model.layers.{i}."
        for name, shape in (("input_layernorm", (C,)), ("self_attn.q_proj", (H, C)), ("self_attn.k_proj", (K, C)),
                            ("self_attn.v_proj", (K, C)), ("self_attn.o_proj", (C, H)),
                            ("post_attention_layernorm", (C,)), ("mlp.gate_proj", (F, C)), ("mlp.up_proj", (F, C)),
                            ("mlp.down_proj", (C, F))):
            yield h + name + ".weight", shape, shape[-1]
        if c["model_type"] == "qwen3":
            yield h + "self_attn.q_norm.weight", (D,), D
            yield h + "self_attn.k_norm.weight", (D,), D
    yield "model.norm.weight", (C,), C
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], C), C


def values(name, shape, fan_in, layers, shaken):
    last = ("c_proj.weight", "o_proj.weight", "down_proj.weight")  # onto the residual stream
    if len(shape) == 1:
        noise = torch.randn(shape) * (0.1 if shaken else 0.0)
        return noise + (1.0 if fan_in else 0.0)
    std = 0.7 / fan_in**0.5 if shaken and "embed" not in name and ".wt" not in name and ".wp" not in name else 0.02
    return torch.randn(shape) * std / ((2 * layers) ** 0.5 if name.endswith(last) else 1.0)


def write(folder, name, shaken):
    """FOLDER with config.json and model.safetensors of a shape."""
    torch.manual_seed(1)
    c = dict(SHAPES[name], vocab_size=int(os.environ.get("VOCABULARY", 50257)))
    gpt2 = c["model_type"] == "gpt2"
    if gpt2:
        c.update(n_positions=1024, layer_norm_epsilon=1e-5, activation_function="gelu_new")
    layers = c["n_layer" if gpt2 else "num_hidden_layers"]
    tensors = {n: values(n, s, f, layers, shaken).to(torch.bfloat16).contiguous()
               for n, s, f in (gpt2_tensors if gpt2 else llama_tensors)(c)}
    os.makedirs(folder, exist_ok=True)
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], "shaken" in sys.argv[3:])
