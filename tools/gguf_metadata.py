"""gguf_metadata.py - reads the metadata of GGUF files, as llama.cpp writes them, for tests that compare levin's reader with others.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""
import struct
import sys

NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, LIST = 8, 9


def metadata(path):
    """The metadata as a dict."""
    with open(path, "rb") as file:
        def number(form):
            return struct.unpack(form, file.read(struct.calcsize(form)))[0]

        def text():
            return file.read(number("<Q")).decode("utf-8", "surrogateescape")

        def value(kind):
            if kind == STRING:
                return text()
            if kind == LIST:
                kind, n = number("<I"), number("<Q")
                return [value(kind) for _ in range(n)]
            return number(NUMBERS[kind])

        magic, _, _, n = file.read(4), number("<I"), number("<Q"), number("<Q")
        if magic != b"GGUF":
            sys.exit(f"{path} is not a GGUF file")
        return {text(): value(number("<I")) for _ in range(n)}
