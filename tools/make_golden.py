#!/usr/bin/env python3
"""Writes tests/golden: tiny models with PyTorch's results for them, for tests/unit/models/test_golden.c.

    python3 tools/make_golden.py [OUT]        needs torch, numpy, safetensors, transformers

Each folder holds a model in one of the formats that levin reads (config.json, model.safetensors in fp32), the token file
tokens.bin, and in reference.safetensors and meta.json results in double precision:

    token_losses    (windows, T) of all windows of tokens.bin, in order
    last_logits     (windows, 8) the first eight logits at the last position
    logits          (2, T, V) of the first two windows
    gradient.NAME   of the mean loss over the whole file
    greedy          (meta.json) the greedy continuation of a prompt, beyond the end of the context
    update.NAME     the change of a weight in five AdamW steps; batches are the windows in order, repeated
    bf16            (meta.json) how far PyTorch under autocast in bf16 differs from these: the largest difference of a loss
                    and of a token's loss, and of a tensor's gradient, update and logits, relative to their norms
    bf16_true       (meta.json) the same with weights, gradients and values all in bf16

The GPT of minGPT and nanoGPT is written out below as plain functions of a dict of weights; the Hugging Face one is
transformers' own, and also checks the functions. Large tensors are stored in fp32 to keep the files small: their
rounding is far below the test's tolerances.
"""

import json
import math
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from torch.nn import functional as F

L, H, C, T, V = 2, 4, 24, 16, 61
WINDOWS, BATCH, STEPS = 12, 4, 5
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
CLIP = 1.0
GREEDY = 24  # tokens


def layernorm(w, name, x):
    return F.layer_norm(x, (C,), w[name + ".weight"], w.get(name + ".bias"), 1e-5)


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def attention(w, name, x):
    B = x.shape[0]
    q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in linear(w, name + ".c_attn", x).split(C, dim=2))
    scores = q @ k.transpose(2, 3) / math.sqrt(C // H)
    scores = scores.masked_fill(torch.ones(T, T).tril() == 0, float("-inf"))
    return linear(w, name + ".c_proj", (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


def gpt(w, ids, gelu):
    """Logits (B,T,V) of a pre-norm GPT whose weights are (out, in) and named as in minGPT and nanoGPT."""
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:T]
    for i in range(L):
        h = f"transformer.h.{i}"
        x = x + attention(w, h + ".attn", layernorm(w, h + ".ln_1", x))
        y = F.gelu(linear(w, h + ".mlp.c_fc", layernorm(w, h + ".ln_2", x)), approximate=gelu)
        x = x + linear(w, h + ".mlp.c_proj", y)
    head = w.get("lm_head.weight", w["transformer.wte.weight"])
    return layernorm(w, "transformer.ln_f", x) @ head.T


def random_weights(seed, bias, tied):
    """Larger than a fresh model's, so that nothing in it is nearly linear or nearly zero."""
    g = torch.Generator().manual_seed(seed)
    w = {}

    def put(name, *shape, std=0.15, mean=0.0):
        w["transformer." + name] = (torch.randn(*shape, generator=g) * std + mean).float()

    def norm(name):
        put(name + ".weight", C, mean=1.0)
        if bias:
            put(name + ".bias", C)

    def matrix(name, n_out, n_in):
        put(name + ".weight", n_out, n_in)
        if bias:
            put(name + ".bias", n_out)

    put("wte.weight", V, C)
    put("wpe.weight", T, C)
    for i in range(L):
        norm(f"h.{i}.ln_1")
        matrix(f"h.{i}.attn.c_attn", 3 * C, C)
        matrix(f"h.{i}.attn.c_proj", C, C)
        norm(f"h.{i}.ln_2")
        matrix(f"h.{i}.mlp.c_fc", 4 * C, C)
        matrix(f"h.{i}.mlp.c_proj", C, 4 * C)
    norm("ln_f")
    if not tied:
        w["lm_head.weight"] = (torch.randn(V, C, generator=g) * 0.15).float()
    return w


def decays(name, tensor, rule):
    """rule linear: weights of linear maps; matrices: two or more dimensions; all: everything."""
    embedding = (name.endswith(("wte.weight", "wpe.weight", "embed_in.weight", "embed_tokens.weight"))
                 or name.startswith("value_embeds."))
    return rule == "all" or tensor.dim() >= 2 and (rule == "matrices" or not embedding)


def losses_of(forward, w, ids, labels):
    logits = forward(w, ids)
    losses = F.cross_entropy(logits.reshape(-1, V), labels.reshape(-1), reduction="none")
    return logits, losses.view(-1, T)


def reference(forward, weights, tokens, rule, most=GREEDY):
    """weights: name -> fp32; forward(weights in double, ids) -> logits; most: tokens of a continuation."""
    x = torch.from_numpy(tokens.astype(np.int64))
    ids, labels = x[:-1].view(-1, T), x[1:].view(-1, T)
    w = {k: v.double().requires_grad_() for k, v in weights.items()}
    start = {k: v.detach().clone() for k, v in w.items()}
    logits, losses = losses_of(forward, w, ids, labels)
    losses.mean().backward()
    out = {
        "token_losses": losses.detach(),
        "last_logits": logits[:, -1, :8].detach(),
        "logits": logits[:2].detach().float(),
    }
    meta = {"loss": losses.mean().item(), "windows": WINDOWS, "batch_size": BATCH, "steps": STEPS, "decay": rule,
            "gradient_clip_val": CLIP, "torch": torch.__version__, "transformers": transformers.__version__, **OPTIMIZER}
    for k, v in w.items():
        out["gradient." + k] = v.grad.float()
    with torch.no_grad():
        meta["prompt"], meta["greedy"] = good_prompt(forward, start, most)
    meta |= train(w, lambda rows: losses_of(forward, w, ids[rows], labels[rows])[1], rule)
    for k, v in w.items():
        out["update." + k] = (v.detach() - start[k]).float()
    meta["bf16"] = halved(forward, weights, ids, labels, rule, out, meta, torch.float32)
    meta["bf16_true"] = halved(forward, weights, ids, labels, rule, out, meta, torch.bfloat16)
    return out, meta


def train(w, losses_of_rows, rule):
    """Five AdamW steps on the weights w; their losses and gradient norms."""
    meta = {"step_losses": [], "step_grad_norms": []}
    groups = [{"params": [v for k, v in w.items() if decays(k, v, rule)]},
              {"params": [v for k, v in w.items() if not decays(k, v, rule)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], **OPTIMIZER)
    for step in range(STEPS):
        optimizer.zero_grad()
        rows = slice(step % (WINDOWS // BATCH) * BATCH, step % (WINDOWS // BATCH) * BATCH + BATCH)
        losses = losses_of_rows(rows)
        losses.mean().backward()
        meta["step_losses"].append(losses.mean().item())
        meta["step_grad_norms"].append(torch.nn.utils.clip_grad_norm_(w.values(), CLIP).item())
        optimizer.step()
    return meta


def distance(name, x, y):
    """Of a tensor from what it should be, relative to that; key biases, whose gradient is zero in theory, left out."""
    if name.endswith("c_attn.bias"):
        x, y = (torch.cat([t[:C], t[2 * C:]]) for t in (x, y))
    if name.endswith("query_key_value.bias"):  # head by head
        x, y = (t.view(H, 3, -1)[:, ::2] for t in (x, y))
    return ((x.double() - y.double()).norm() / y.double().norm()).item()


def halved(forward, weights, ids, labels, rule, out, meta, dtype):
    """How far PyTorch's own bf16 is off: weights in fp32 and products under autocast, or everything in bf16."""
    weights = {k: v.to(dtype) for k, v in weights.items()}
    w = {k: v.clone().requires_grad_() for k, v in weights.items()}

    def losses_of_rows(rows):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            logits = forward(w, ids[rows])
        losses = F.cross_entropy(logits.float().reshape(-1, V), labels[rows].reshape(-1), reduction="none")
        return logits, losses.view(-1, T)

    logits, losses = losses_of_rows(slice(0, WINDOWS))
    losses.mean().backward()
    off = {"losses": abs(losses.mean().item() - meta["loss"]),
           "token_losses": (losses - out["token_losses"]).abs().max().item(),
           "logits": distance("", logits[:2], out["logits"]),
           "gradients": max(distance(k, v.grad, out["gradient." + k]) for k, v in w.items())}
    steps = train(w, lambda rows: losses_of_rows(rows)[1], rule)
    for x, y in zip(steps["step_losses"], meta["step_losses"]):
        off["losses"] = max(off["losses"], abs(x - y))
    off["updates"] = max(distance(k, v.detach() - weights[k], out["update." + k]) for k, v in w.items())
    return off


def greedy(forward, w, prompt, n):
    """The n most likely next tokens, one after the other; past the context the last T tokens are what is seen. Also by
    how much the closest of these decisions was won."""
    ids, margin = list(prompt), math.inf
    for _ in range(n):
        window = ids[-T:]
        logits = forward(w, torch.tensor([window + [0] * (T - len(window))]))[0, len(window) - 1]
        best = logits.topk(2).values
        margin = min(margin, (best[0] - best[1]).item())
        ids.append(int(logits.argmax()))
    return ids[len(prompt):], margin


def good_prompt(forward, w, most):
    """The prompt with the most varied continuation among those without a near tie, which rounding would decide."""
    found = []
    for i in range(200):
        prompt = [i % V, i * 7 % V, i * i % V]
        ids, margin = greedy(forward, w, prompt, most)
        if margin > 0.01:
            found.append((len(set(ids)), prompt, ids))
    return max(found)[1:]


def write(folder, config, file_weights, tokens, out, meta):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump(meta, f, indent=1)
        f.write("\n")
    save_file({k: v.contiguous().clone() for k, v in file_weights.items()}, os.path.join(folder, "model.safetensors"))
    save_file({k: v.contiguous().clone() for k, v in out.items()}, os.path.join(folder, "reference.safetensors"))
    tokens.tofile(os.path.join(folder, "tokens.bin"))
    print(f"{folder}: loss {meta['loss']:.6f}, gradient norms", *(f"{x:.3f}" for x in meta["step_grad_norms"]))


def tokens_of(seed):
    return np.random.default_rng(seed).integers(0, V, WINDOWS * T + 1, dtype=np.uint16)


def mingpt(out):
    weights, tokens = random_weights(1, bias=True, tied=False), tokens_of(1)
    config = {"model_type": "mingpt", "n_layer": L, "n_head": H, "n_embd": C, "block_size": T, "vocab_size": V,
              "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.1}
    # minGPT's state dict also holds the causal masks
    masks = {f"transformer.h.{i}.attn.bias": torch.ones(T, T).tril().view(1, 1, T, T) for i in range(L)}
    write(out, config, weights | masks, tokens, *reference(lambda w, x: gpt(w, x, "tanh"), weights, tokens, "linear"))


def nanogpt(out, seed, bias, rule, head_in_file):
    weights, tokens = random_weights(seed, bias, tied=True), tokens_of(seed)
    config = {"model_type": "nanogpt", "n_layer": L, "n_head": H, "n_embd": C, "block_size": T, "vocab_size": V,
              "bias": bias, "dropout": 0.0}
    # nanoGPT's state dict names the tied matrix twice; tools that drop shared tensors leave the second name out
    head = {"lm_head.weight": weights["transformer.wte.weight"]} if head_in_file else {}
    write(out, config, weights | head, tokens, *reference(lambda w, x: gpt(w, x, "none"), weights, tokens, rule))


def gpt2(out):
    weights, tokens = random_weights(4, bias=True, tied=True), tokens_of(4)
    config = transformers.GPT2Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H,
                                     bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config).double().eval()
    # Conv1D keeps its weights (in, out)
    file_weights = {k: v.T.contiguous() if ".c_" in k and v.dim() == 2 else v for k, v in weights.items()}

    def forward(w, ids):
        tied = w | {"lm_head.weight": w["transformer.wte.weight"]}
        return torch.func.functional_call(model, tied, (ids,), {"use_cache": False}).logits

    def own(w, ids):
        return gpt({k: v.T if ".c_" in k and v.dim() == 2 else v for k, v in w.items()}, ids, "tanh")

    x, meta = reference(forward, file_weights, tokens, "linear")
    y, _ = reference(own, file_weights, tokens, "linear")
    for k in x:
        if k.startswith("gradient.") or not k.startswith("update."):
            assert torch.allclose(x[k].double(), y[k].double(), rtol=1e-6, atol=1e-8), k
    settings = {k: v for k, v in config.to_dict().items() if k in (
        "model_type", "vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner", "activation_function",
        "resid_pdrop", "embd_pdrop", "attn_pdrop", "layer_norm_epsilon", "tie_word_embeddings", "bos_token_id",
        "eos_token_id")}
    settings["architectures"] = ["GPT2LMHeadModel"]
    write(out, settings, file_weights, tokens, x, meta)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    torch.set_num_threads(1)
    mingpt(os.path.join(out, "mingpt"))
    nanogpt(os.path.join(out, "nanogpt"), 2, bias=False, rule="matrices", head_in_file=True)
    nanogpt(os.path.join(out, "nanogpt-bias"), 3, bias=True, rule="all", head_in_file=False)
    gpt2(os.path.join(out, "gpt2"))


if __name__ == "__main__":
    main()
