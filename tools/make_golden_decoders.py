#!/usr/bin/env python3
"""Writes the folders of tests/golden for GPT-NeoX, Llama and related families with transformers; see make_golden.py.

    python3 tools/make_golden_decoders.py [OUT]        needs torch, numpy, safetensors, transformers

The models and their config.json are transformers' own. In a double model its RMS norms, rotary tables and softmax still
compute in fp32, so these are replaced here. Continuations end when all positions are used.

    neox             older form of config.json; float16, with the masks and frequencies that Pythia's files have
    neox-sequential  newer form; attention before the MLP, tied, linear scaling, no biases in attention
    llama            as Llama 3.2: grouped-query attention, tied, llama3 scaling; bfloat16 in two files with an index
    llama-yarn       biases, an untied head, a head size that is not n_embd / n_head, yarn scaling
    mistral          a window as long as the context
    mistral-window   a window in all layers
    qwen2, qwen3     biases of q, k and v; norms of q and k
    qwen2-window     a window from the second layer on
    gemma2           windows, soft caps of scores and logits
    gemma3           windows, two bases of rotary positions, the global one with linear scaling
    nanochat-2025    norms without weights; q and k are normalized after their rotation; a soft cap of the logits
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
    """The rotary frequencies in double, and the factor of cosines and sines."""
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


def gemma_norm(self, x):
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)).to(x.dtype)


def plain_norm(self, x):
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


def gemma3_rotary(self, x, position_ids, layer_type):
    p = self.config.rope_parameters[layer_type]
    f = p["rope_theta"] ** (-torch.arange(0, self.config.head_dim, 2, dtype=torch.float64) / self.config.head_dim)
    if p["rope_type"] == "linear":
        f = f / p["factor"]
    assert torch.allclose(f, getattr(self, layer_type + "_inv_freq").double(), rtol=1e-5)
    angles = position_ids[..., None].double() * f
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def eager(module, query, key, value, mask, dropout=0.0, scaling=None, softcap=None, **rest):
    """Attention with a soft cap, whose softmax is in the type of the scores."""
    n = module.num_key_value_groups
    key, value = key.repeat_interleave(n, dim=1), value.repeat_interleave(n, dim=1)
    scores = query @ key.transpose(2, 3) * scaling
    scores = torch.tanh(scores / softcap) * softcap + mask[..., : key.shape[-2]]
    return (scores.softmax(-1) @ value).transpose(1, 2), None


def compute_in_double(model):
    for module in model.modules():
        kind = type(module)
        if kind.__name__.endswith("RMSNorm"):
            kind.forward = (gemma_norm if kind.__name__.startswith("Gemma") else
                            plain_norm if kind.__name__.startswith("NanoChat") else rms_norm)
        if kind.__name__.endswith("RotaryEmbedding"):
            kind.forward = torch.no_grad()(gemma3_rotary if kind.__name__.startswith("Gemma3") else rotary)


# --- folders ---

def make(out, seed, model_class, config, dtype=torch.float32, older=None, files=1):
    gemma = config.model_type.startswith("gemma")
    config._attn_implementation = "sdpa"  # whose softmax is in double
    if config.model_type == "gemma2":
        config._attn_implementation = "eager"
        transformers.models.gemma2.modeling_gemma2.eager_attention_forward = eager
    model = model_class(config).eval()
    compute_in_double(model)
    tied = config.tie_word_embeddings
    random = torch.Generator().manual_seed(seed)
    names = {"lm_head.weight": "embed_out.weight"} if config.model_type == "gpt_neox" else {}  # in files
    weights = {}
    for name, p in model.named_parameters():
        mean = 1.0 if "norm" in name and name.endswith("weight") and not gemma else 0.0
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
    """Write the weights again, in the data type and number of files of published models."""
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
    window = dict(**llama, sliding_window=6)
    make(folder("mistral-window"), 12, t.MistralForCausalLM, t.MistralConfig(**window))
    make(folder("qwen2-window"), 13, t.Qwen2ForCausalLM,
         t.Qwen2Config(**window, use_sliding_window=True, max_window_layers=1))
    # torch gives the row of the padding token, by default 0, no gradient
    gemma = dict(**window, pad_token_id=None, head_dim=6, query_pre_attn_scalar=9, layer_types=["sliding_attention", "full_attention"])
    make(folder("gemma2"), 14, t.Gemma2ForCausalLM,
         t.Gemma2Config(**gemma, attn_logit_softcapping=2.0, final_logit_softcapping=1.5))
    make(folder("gemma3"), 15, t.Gemma3ForCausalLM,
         t.Gemma3TextConfig(**gemma, rope_parameters={
             "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 200.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}))
    make(folder("nanochat-2025"), 16, t.NanoChatForCausalLM,
         t.NanoChatConfig(**llama | {"pad_token_id": None}, final_logit_softcapping=1.5,
                          rope_parameters={"rope_type": "default", "rope_theta": 100.0}))
    make(folder("qwen2"), 10, t.Qwen2ForCausalLM, t.Qwen2Config(**llama))
    make(folder("qwen3"), 11, t.Qwen3ForCausalLM, t.Qwen3Config(**llama, head_dim=6))


if __name__ == "__main__":
    main()
