#!/usr/bin/env python3
"""Writes tests/golden/attention.safetensors: attention with windows, segments, soft caps and lengths, by PyTorch in double.

    python3 tools/make_golden_attention.py [OUT]        needs torch, safetensors

Each case has q (B,T,Hq,D), k and v (B,T,Hkv,D), out (B,T,Hq*D), its gradient dout, and the gradients dq, dk and dv. Case
i is named in tests/unit/ops/test_attention.c, which reads the file."""

import os
import sys

import torch
from safetensors.torch import save_file

# T, Hq, Hkv, D, window, softcap, starts of documents, length
CASES = [
    (5, 2, 2, 4, 8, 0.0, [0], None),  # a window above, equal to and below the number of positions
    (8, 2, 2, 4, 8, 0.0, [0], None),
    (11, 2, 1, 4, 4, 0.0, [0], None),
    (11, 4, 2, 4, 0, 0.0, [0, 3, 4, 9], None),
    (11, 2, 2, 4, 3, 0.7, [0, 6], None),
    (9, 2, 1, 4, 0, 2.0, [0], 6),
]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    random = torch.Generator().manual_seed(21)
    tensors = {}
    for i, (T, Hq, Hkv, D, window, softcap, starts, length) in enumerate(CASES):
        draw = lambda *dims: torch.randn(*dims, generator=random, dtype=torch.float64)
        q, k, v = draw(1, T, Hq, D), draw(1, T, Hkv, D), draw(1, T, Hkv, D)
        dout = draw(1, T, Hq * D)
        for x in q, k, v:
            x.requires_grad_()
        document = torch.tensor([max(s for s in starts if s <= t) for t in range(T)])
        query, key = torch.arange(T)[:, None], torch.arange(T)[None]
        seen = (key <= query) & (key >= document[:, None])
        if window:
            seen &= key > query - window
        if length is not None:
            seen &= key < length
        heads = [x.transpose(1, 2).repeat_interleave(Hq // x.shape[2], dim=1) for x in (q, k, v)]
        scores = heads[0] @ heads[1].transpose(2, 3) / D ** 0.5
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        y = (scores.masked_fill(~seen, -torch.inf).softmax(-1) @ heads[2]).transpose(1, 2).reshape(1, T, Hq * D)
        y.backward(dout)
        values = dict(q=q, k=k, v=v, out=y, dout=dout, dq=q.grad, dk=k.grad, dv=v.grad)
        tensors |= {f"{i}.{name}": x.detach().contiguous() for name, x in values.items()}
        tensors[f"{i}.segments"] = document[None].to(torch.int32)
    save_file(tensors, os.path.join(out, "attention.safetensors"))


if __name__ == "__main__":
    main()
