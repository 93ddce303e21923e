#!/usr/bin/env python3
"""Writes the folders of tests/golden with GPT-NeoX, Llama and its relatives, by transformers, as make_golden.py does.

    python3 tools/make_golden_decoders.py [OUT]        needs torch, numpy, safetensors, transformers

The models and their config.json are transformers' own. In a double model its RMS norms, rotary tables and softmax still
compute in fp32, so these are replaced here. Continuations end when all positions are used.

    neox             older form of config.json; float16, with the masks and frequencies that Pythia's files have
    neox-sequential  newer form; attention before the MLP, tied, linear scaling, no biases in attention
    llama            as Llama 3.2: grouped-query attention, tied, llama3 scaling; bfloat16 in two files with an index
    llama-yarn       biases, an untied head, a head size that is not n_embd / n_head, yarn scaling
    mistral          a window as long as the positions
    qwen2, qwen3     biases of q, k and v; norms of q and k
"""

import json
import math
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

import make_golden as g

C, H, T, V, L = 16, g.H, g.T, g.V, 2


# --- what transformers computes in fp32 ---

def rms_norm(self, x):
    wide = x if x.dtype == torch.float64 else x.float()
    return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)).to(x.dtype)


def frequencies(config, dims):
    """Of rotary positions, in double, and what cosines and sines are multiplied with."""
    p = config.rope_parameters
    kind, theta, factor = p["rope_type"], p["rope_theta"], p.get("factor", 1.0)
    f = theta ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    if kind == "default":
        return f, 1.0
    if kind == "linear":
        return f / factor, 1.0
    turns = f * p["original_max_position_embeddings"] / (2 * math.pi)
    if kind == "llama3":
        low, high = p["low_freq_factor"], p["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return f * kept + f / factor * (1 - kept), 1.0
    assert kind == "yarn"
    at = [dims * math.log(p["original_max_position_embeddings"] / (n * 2 * math.pi)) / (2 * math.log(theta))
          for n in (p.get("beta_fast") or 32, p.get("beta_slow") or 1)]
    first, last = max(math.floor(at[0]), 0), min(math.ceil(at[1]), dims - 1)
    kept = 1 - ((torch.arange(dims // 2).double() - first) / (last - first or 0.001)).clamp(0, 1)
    return f * kept + f / factor * (1 - kept), 0.1 * math.log(factor) + 1


def rotary(self, x, position_ids):
    f, magnitude = frequencies(self.config, 2 * self.inv_freq.numel())
    assert torch.allclose(f, self.inv_freq.double(), rtol=1e-5) and abs(magnitude - self.attention_scaling) < 1e-6
    angles = position_ids[..., None].double() * f
    angles = torch.cat((angles, angles), dim=-1)
    return (angles.cos() * magnitude).to(x.dtype), (angles.sin() * magnitude).to(x.dtype)


def mend(model):
    for module in model.modules():
        kind = type(module)
        if kind.__name__.endswith("RMSNorm"):
            kind.forward = rms_norm
        if kind.__name__.endswith("RotaryEmbedding"):
            kind.forward = torch.no_grad()(rotary)


# --- folders ---

def make(out, seed, model_class, config, dtype=torch.float32, older=None, files=1):
    config._attn_implementation = "sdpa"  # whose softmax is in double
    model = model_class(config).eval()
    mend(model)
    tied = config.tie_word_embeddings
    random = torch.Generator().manual_seed(seed)
    names = {"lm_head.weight": "embed_out.weight"} if config.model_type == "gpt_neox" else {}  # in files
    weights = {}
    for name, p in model.named_parameters():
        mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        weights[names.get(name, name)] = (torch.randn(*p.shape, generator=random) * 0.15 + mean).to(dtype).float()
    model = model.double()

    def forward(w, ids):
        own = {here: w[there] for here, there in ((k, names.get(k, k)) for k in model.state_dict()) if there in w}
        if tied:
            own["lm_head.weight"] = next(iter(w.values()))  # the embedding
        return torch.func.functional_call(model, own, (ids,), {"use_cache": False}).logits

    tokens = g.tokens_of(seed)
    settings = json.loads(config.to_json_string())
    settings.pop("transformers_version")
    settings |= {"model_type": config.model_type, "architectures": [model_class.__name__],
                 "dtype": str(dtype).removeprefix("torch.")}
    if older:
        del settings["rope_parameters"]
        settings |= older
    g.write(out, settings, weights, tokens, *g.reference(forward, weights, tokens, "linear", T - 3))
    rewrite(out, {k: v.to(dtype) for k, v in weights.items()}, files)


def rewrite(out, tensors, files):
    """The weights once more, as they are published."""
    path = os.path.join(out, "model.safetensors")
    if next(iter(tensors.values())).dtype == torch.float16:
        for i in range(L):
            tensors |= {f"gpt_neox.layers.{i}.attention.bias": torch.ones(1, 1, T, T).tril().bool(),
                        f"gpt_neox.layers.{i}.attention.masked_bias": torch.tensor(-1e9),
                        f"gpt_neox.layers.{i}.attention.rotary_emb.inv_freq": torch.ones(1)}
    if files == 1:
        save_file(tensors, path, metadata={"format": "pt"})
        return
    os.remove(path)
    names, parts = list(tensors), {}
    for i in range(files):
        name = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = {k: tensors[k] for k in names[i::files]}
        save_file(part, os.path.join(out, name), metadata={"format": "pt"})
        parts |= {k: name for k in part}
    with open(path + ".index.json", "w") as f:
        json.dump({"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
                   "weight_map": parts}, f, indent=1, sort_keys=True)
        f.write("\n")


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    torch.set_num_threads(1)
    sizes = dict(vocab_size=V, hidden_size=C, num_hidden_layers=L, num_attention_heads=H, max_position_embeddings=T,
                 bos_token_id=0, eos_token_id=0)
    llama = dict(**sizes, intermediate_size=24, num_key_value_heads=2)
    neox = dict(**sizes, intermediate_size=4 * C)

    def folder(name):
        return os.path.join(out, name)

    t = transformers
    make(folder("neox"), 5, t.GPTNeoXForCausalLM,
         t.GPTNeoXConfig(**neox, rope_parameters={"rope_type": "default", "rope_theta": 1000.0,
                                                  "partial_rotary_factor": 0.5}),
         torch.float16, {"rotary_pct": 0.5, "rotary_emb_base": 1000})
    make(folder("neox-sequential"), 6, t.GPTNeoXForCausalLM,
         t.GPTNeoXConfig(**neox, use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True,
                         hidden_act="gelu_new", rope_parameters={"rope_type": "linear", "factor": 2.0,
                                                                 "rope_theta": 100.0, "partial_rotary_factor": 1.0}))
    make(folder("llama"), 7, t.LlamaForCausalLM,
         t.LlamaConfig(**llama, tie_word_embeddings=True, rms_norm_eps=1e-5,
                       rope_parameters={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 8,
                                        "rope_theta": 50.0}), torch.bfloat16, files=2)
    make(folder("llama-yarn"), 8, t.LlamaForCausalLM,
         t.LlamaConfig(**llama, head_dim=6, attention_bias=True, mlp_bias=True,
                       rope_parameters={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4,
                                        "beta_fast": 0.5, "beta_slow": 0.1, "rope_theta": 20.0}),
         older={"rope_theta": 20.0, "rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 0.5, "beta_slow": 0.1,
                                                     "original_max_position_embeddings": 4}})
    make(folder("mistral"), 9, t.MistralForCausalLM, t.MistralConfig(**llama, sliding_window=T))
    make(folder("qwen2"), 10, t.Qwen2ForCausalLM, t.Qwen2Config(**llama))
    make(folder("qwen3"), 11, t.Qwen3ForCausalLM, t.Qwen3Config(**llama, head_dim=6))


if __name__ == "__main__":
    main()
