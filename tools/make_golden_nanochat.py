#!/usr/bin/env python3
"""Writes tests/golden/nanochat and nanochat-muon.json with nanochat's own code, as make_golden.py does.

    python3 tools/make_golden_nanochat.py CHECKOUT [OUT]        needs torch, numpy, safetensors

CHECKOUT: a clone of https://github.com/karpathy/nanochat at commit 92d63d4. Its network computes in fp32 or less; here it
computes in double. Its norms keep the epsilon that they have in fp32, and its rotary tables are computed in double. The
context is long enough for windows.
"""

import json
import math
import os
import sys

import torch
import torch.nn.functional as F

import make_golden as g


def without_padding(tensors):
    return {k: v[:g.V] if v.dim() == 2 and v.shape[0] == 64 else v for k, v in tensors.items()}


def muon(out):
    """Updates of matrices (outputs, inputs). Parameters and gradients are formulas that test_muon.c has, too."""
    import torch._dynamo
    torch.compile = lambda *args, **options: lambda f: f
    from nanochat import optim
    optim.COMPUTE_DTYPE = torch.float32
    to_fp32, torch.Tensor.float = torch.Tensor.float, lambda x: x
    real = lambda x: torch.tensor(x, dtype=torch.float64)
    end, fall, steps, cases = 1000, 350, [0, 1, 200, 500, 980], []
    for outputs, inputs in ((12, 20), (20, 12), (16, 16)):
        n = outputs * inputs
        p = real([math.sin(0.9 * i + 0.5) for i in range(n)]).reshape(1, outputs, inputs)
        m = torch.zeros_like(p)
        second = torch.zeros((1, outputs, 1) if outputs >= inputs else (1, 1, inputs), dtype=torch.float64)
        for t, it in enumerate(steps):
            g = real([math.sin(0.013 * i * i + 0.7 * i + 1.3 * t) * (1 + i % 5) for i in range(n)]).reshape(1, outputs, inputs)
            rise = 0.85 + (0.97 - 0.85) * it / 400
            mu = rise if it < 400 else 0.97 + (0.9 - 0.97) * (it - fall) / (end - fall)
            decay = 0.28 * 0.5 * (1 + math.cos(math.pi * it / end))
            optim.muon_step_fused(g, p, m, second, real(mu), real(0.02 * max(1, outputs / inputs) ** 0.5), real(decay),
                                  real(0.9), 5, -1 if outputs >= inputs else -2)
        cases.append({"outputs": outputs, "inputs": inputs, "parameters": p.flatten().tolist(),
                      "second_moments": second.flatten().tolist()})
    torch.Tensor.float = to_fp32
    with open(os.path.join(out, "nanochat-muon.json"), "w") as f:
        json.dump({"steps": steps, "end": end, "fall": fall, "cases": cases}, f)
        f.write("\n")


def main():
    out = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    sys.path.insert(0, sys.argv[1])
    torch.set_num_threads(1)
    muon(out)
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
