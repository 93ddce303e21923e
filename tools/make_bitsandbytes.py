#!/usr/bin/env python3
"""make_bitsandbytes.py - writes tests/golden/bitsandbytes: matrices that bitsandbytes has quantized, in the parts in which
transformers saves them, and their values as bitsandbytes computes them. nf4.safetensors: one in nf4 with double quantization, and
the tensor `values`. kinds.safetensors: NAME.weight and NAME.values for nf4 with factors in fp32, fp4 with both, and int8. The same
files without values are the corpus of the fuzz target quant_state. Needs torch, safetensors and bitsandbytes."""
from pathlib import Path

import torch
from bitsandbytes.functional import dequantize_4bit, int8_vectorwise_dequant, int8_vectorwise_quant, quantize_4bit
from safetensors.torch import save_file


def four_bits(name, w, kind, double):
    values, state = quantize_4bit(w, blocksize=64, compress_statistics=double, quant_type=kind)
    parts = {name: values, **{f"{name}.{part}": t for part, t in state.as_dict(packed=True).items()}}
    return parts, dequantize_4bit(values, state)


def save(name, parts, values):
    tests = Path(__file__).resolve().parent.parent / "tests"
    save_file(parts, tests / f"fuzz/corpus/quant_state/{name}.safetensors", metadata={"format": "pt"})
    save_file({**parts, **values}, tests / f"golden/bitsandbytes/{name}.safetensors", metadata={"format": "pt"})


def main():
    torch.manual_seed(3)
    w = torch.randn(5, 330) * 0.05
    w[3] *= 7
    parts, values = four_bits("a.weight", w, "nf4", True)
    parts["a.bias"] = torch.arange(5, dtype=torch.float32)
    save("nf4", parts, {"values": values})

    parts, values = {}, {}
    for name, kind, double in [("nf4", "nf4", False), ("fp4", "fp4", False), ("double", "fp4", True)]:
        more, values[name + ".values"] = four_bits(name + ".weight", w, kind, double)
        parts.update(more)
    parts["int8.weight"], parts["int8.SCB"], _ = int8_vectorwise_quant(w.half())
    parts["int8.weight_format"] = torch.tensor(0, dtype=torch.uint8)
    values["int8.values"] = int8_vectorwise_dequant(parts["int8.weight"], parts["int8.SCB"])
    save("kinds", parts, values)


if __name__ == "__main__":
    main()
