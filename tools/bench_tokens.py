#!/usr/bin/env python3
"""Times levin's tokenizer beside tiktoken, one thread each, in turns, on the same text with GPT-2's own files.

    python3 tools/bench_tokens.py ENCODER_JSON VOCAB_BPE TEXT [ROUNDS]

Wants tiktoken in this Python. Each round runs build/bench_tokenizer and then tiktoken; the best of all rounds counts.
"""
import json
import subprocess
import sys
import time
from pathlib import Path

import tiktoken

ROOT = Path(__file__).resolve().parent.parent
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def encoding(encoder):
    printable = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    table = {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(rest)}}
    ranks = {bytes(table[c] for c in token): i for token, i in json.load(open(encoder, encoding="utf-8")).items()
             if token != "<|endoftext|>"}
    return tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def rate(run, size):
    began = time.perf_counter()
    run()
    return size / (time.perf_counter() - began) * 1e-6


def main():
    encoder, bpe, path = sys.argv[1:4]
    text, best = open(path, encoding="utf-8").read(), {}
    size, theirs = len(text.encode()), encoding(encoder)
    ids = theirs.encode_ordinary(text)
    for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 3):
        out = subprocess.run([ROOT / "build/bench_tokenizer", bpe, path, "0.5", "2"], capture_output=True, text=True, check=True)
        for line in out.stdout.splitlines():
            if "MB/s" in line:
                name, value = line[:22].strip(), float(line.split()[-2])
                best[name] = max(best.get(name, 0), value)
        for name, run in (("tiktoken, encode", lambda: theirs.encode_ordinary(text)),
                          ("tiktoken, decode", lambda: theirs.decode_bytes(ids))):
            best[name] = max(best.get(name, 0), rate(run, size))
    for name, value in best.items():
        print(f"{name:22} {value:8.1f} MB/s")
    print(f"encoding {best['encode, cold'] / best['tiktoken, encode']:.1f} x tiktoken (wanted: 3), "
          f"two threads {best['encode, 2 threads'] / best['encode, cold']:.2f} x one, {len(ids)} ids")


sys.exit(main())
