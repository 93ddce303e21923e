#!/usr/bin/env python3
"""Writes tests/golden/nanochat with nanochat's own code, as make_golden.py does.

    python3 tools/make_golden_nanochat.py CHECKOUT [OUT]        needs torch, numpy, safetensors

CHECKOUT: a clone of https://github.com/karpathy/nanochat at commit 92d63d4. Its network computes in fp32 or less; here it
computes in double. Its norms keep the epsilon that they have in fp32, and its rotary tables are computed in double. The
context is long enough for windows.
"""

import os
import sys

import torch
import torch.nn.functional as F

import make_golden as g


def without_padding(tensors):
    return {k: v[:g.V] if v.dim() == 2 and v.shape[0] == 64 else v for k, v in tensors.items()}


def main():
    out = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    sys.path.insert(0, sys.argv[1])
    torch.set_num_threads(1)
    from nanochat import gpt
    gpt.norm = lambda x: F.rms_norm(x, (x.size(-1),), eps=2.0 ** -23)

    g.T, g.WINDOWS, C, H, K, L = 132, 4, 24, 4, 2, 3
    config = gpt.GPTConfig(sequence_len=g.T, vocab_size=g.V, n_layer=L, n_head=H, n_kv_head=K, n_embd=C,
                           window_pattern="SSL")
    model = gpt.GPT(config)
    model.init_weights()
    assert [left for left, _ in model.window_sizes] == [128, 128, g.T]
    frequency = 100000.0 ** (-torch.arange(0, C // H, 2, dtype=torch.float64) / (C // H))
    angles = torch.outer(torch.arange(g.T, dtype=torch.float64), frequency)[None, :, None, :]
    random = torch.Generator().manual_seed(18)
    weights = {}
    for name, p in model.named_parameters():
        mean = 1.0 if name == "resid_lambdas" else 0.3 if name.endswith("lambda") else 0.0
        weights[name] = torch.randn(*p.shape, generator=random) * (0.4 if name.endswith("gate.weight") else 0.15) + mean
        if weights[name].shape[0] == 64:
            weights[name][g.V:] = 0  # rows that round the vocabulary up
    model = model.double()
    to_fp32 = torch.Tensor.float

    def forward(w, ids):
        real = w["lm_head.weight"].dtype
        gpt.COMPUTE_DTYPE, model.cos, model.sin = real, angles.cos().to(real), angles.sin().to(real)
        torch.Tensor.float = lambda x: x if real == torch.float64 else to_fp32(x)
        try:
            return torch.func.functional_call(model, w, (ids,))
        finally:
            torch.Tensor.float = to_fp32

    tokens = g.tokens_of(17)
    settings = {"model_type": "nanochat_gpt", "architectures": ["GPT"], "sequence_len": g.T, "vocab_size": g.V,
                "n_layer": L, "n_head": H, "n_kv_head": K, "n_embd": C, "window_pattern": "SSL"}
    results, meta = g.reference(forward, weights, tokens, "linear", 40)
    g.write(os.path.join(out, "nanochat"), settings, without_padding(weights), tokens, without_padding(results), meta)


if __name__ == "__main__":
    main()
