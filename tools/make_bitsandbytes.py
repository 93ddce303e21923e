#!/usr/bin/env python3
"""make_bitsandbytes.py - writes tests/golden/bitsandbytes/nf4.safetensors: a matrix in nf4 with double quantization, in the parts
in which transformers saves it, and its values as bitsandbytes computes them, as the tensor `values`; and the same without values
for the fuzz target quant_state. Needs torch, safetensors and bitsandbytes."""
from pathlib import Path

import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
from safetensors.torch import save_file


def main():
    tests = Path(__file__).resolve().parent.parent / "tests"
    torch.manual_seed(3)
    w = torch.randn(5, 330) * 0.05
    w[3] *= 7
    values, state = quantize_4bit(w, blocksize=64, compress_statistics=True, quant_type="nf4")
    tensors = {"a.weight": values, "a.bias": torch.arange(5, dtype=torch.float32)}
    tensors.update({"a.weight." + name: part for name, part in state.as_dict(packed=True).items()})
    save_file(tensors, tests / "fuzz/corpus/quant_state/nf4.safetensors", metadata={"format": "pt"})
    tensors["values"] = dequantize_4bit(values, state)
    save_file(tensors, tests / "golden/bitsandbytes/nf4.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
