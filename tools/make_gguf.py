#!/usr/bin/env python3
"""make_gguf.py - writes tests/golden/gguf/types.gguf: random blocks of each type that levin reads, and their values as the
Python package gguf computes them, as a tensor NAME.f32. Needs gguf (pip install gguf)."""
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize

SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "F32": [], "F16": [], "BF16": []}  # where a block has fp16 numbers, which random bytes would make infinite
COLUMNS, ROWS = 256, 2


def main():
    rng = np.random.default_rng(7)
    w = GGUFWriter(str(Path(__file__).resolve().parent.parent / "tests/golden/gguf/types.gguf"), "none")
    w.add_string("text", "a \u2581 b")
    w.add_array("numbers", [1, -2, 3])
    for name, offsets in SCALES.items():
        kind = GGMLQuantizationType[name]
        values, size = GGML_QUANT_SIZES[kind]
        if offsets:
            blocks = rng.integers(0, 256, (ROWS * COLUMNS // values, size), dtype=np.uint8)
            for at in offsets:
                scales = rng.standard_normal(len(blocks)).astype(np.float16)
                scales[0] = 3e-6  # a subnormal number
                blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
            data = blocks.reshape(ROWS, -1)
        else:
            data = rng.standard_normal((ROWS, COLUMNS)).astype("<f4")
            data = data.astype("<f2") if name == "F16" else data
            data = (data.view(np.uint32) >> 16).astype("<u2").view(np.uint8).reshape(ROWS, -1) if name == "BF16" else data
        w.add_tensor(name, data, raw_dtype=kind)
        w.add_tensor(name + ".f32", dequantize(data, kind).astype("<f4").reshape(ROWS, COLUMNS))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
