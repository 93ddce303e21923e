"""gguf.py - reads GGUF files, as llama.cpp writes them: metadata, and tensors of the types F32, Q4_1 and Q8_0.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. For tests that need a published model; levin itself does
not read GGUF.
"""
import math
import struct
import sys

NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, LIST = 8, 9
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCK = 32  # values of a block in Q4_1 and Q8_0


class Reader:
    """Reads metadata immediately, and each tensor on request."""

    def __init__(self, path):
        self.file = open(path, "rb")
        magic, _, n_tensors, n = self.file.read(4), self.number("<I"), self.number("<Q"), self.number("<Q")
        if magic != b"GGUF":
            sys.exit(f"{path} is no GGUF file")
        self.metadata = {self.text(): self.value(self.number("<I")) for _ in range(n)}
        self.tensors = {}  # name -> (shape with the fastest dimension last, type, offset from self.first)
        for _ in range(n_tensors):
            name, n_dims = self.text(), self.number("<I")
            shape = [self.number("<Q") for _ in range(n_dims)][::-1]
            self.tensors[name] = (shape, self.number("<I"), self.number("<Q"))
        align = self.metadata.get("general.alignment", 32)
        self.first = -(-self.file.tell() // align) * align

    def number(self, form):
        return struct.unpack(form, self.file.read(struct.calcsize(form)))[0]

    def text(self):
        return self.file.read(self.number("<Q")).decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == LIST:
            kind, n = self.number("<I"), self.number("<Q")
            return [self.value(kind) for _ in range(n)]
        return self.number(NUMBERS[kind])

    def tensor(self, name):
        """The tensor as an fp32 array of NumPy."""
        import numpy as np

        shape, kind, offset = self.tensors[name]
        n = math.prod(shape)
        self.file.seek(self.first + offset)
        if kind == F32:
            return np.frombuffer(self.file.read(4 * n), "<f4").reshape(shape)
        if kind == Q8_0:  # a block: scale, 32 signed bytes
            block = np.frombuffer(self.file.read(n // BLOCK * 34), np.dtype([("d", "<f2"), ("q", "i1", BLOCK)]))
            return (block["d"].astype("f4")[:, None] * block["q"]).reshape(shape)
        if kind == Q4_1:  # a block: scale, minimum, 16 bytes; their low halves are the first 16 values
            block = np.frombuffer(self.file.read(n // BLOCK * 20),
                                  np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", BLOCK // 2)]))
            q = np.concatenate([block["q"] & 15, block["q"] >> 4], axis=1)
            return (block["d"].astype("f4")[:, None] * q + block["m"].astype("f4")[:, None]).reshape(shape)
        sys.exit(f"{self.file.name}: '{name}' has the type {kind}, which is none of F32, Q4_1 and Q8_0")
