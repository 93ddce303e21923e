#!/usr/bin/env python3
"""Times levin's tokenizer and another one, one thread each, in turns, on the same text with the same vocabulary.

    python3 tools/bench_tokens.py [--tokenizer DIR] [--text FILE] [--rounds N] [--alone | --peer tokenizers]

With --peer tokenizers the other is Hugging Face's, which is fastest line by line, and DIR holds a tokenizer.json; without DIR
levin makes a WordPiece and a byte-level BPE vocabulary of 10,000 tokens from the text, and each is timed. Otherwise the other
is tiktoken:

DIR holds vocab.json or encoder.json; without DIR GPT-2's own files if they exist (build/gpt2, ../shared/data), else the small
vocabulary of the tests. Without FILE the text is levin's own sources, repeated. Each round runs build/bench_tokenizer and then
tiktoken, which is installed into the environment of bench/peers; the best of all rounds counts. --alone times levin only.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def tokenizer_files(folder):
    """The vocabulary and the file to name to levin."""
    shared = ROOT.parent / "shared/data"
    if folder is None and (shared / "gpt2-encoder.json").exists():
        return shared / "gpt2-encoder.json"
    places = [Path(folder)] if folder else [ROOT / "build/gpt2", ROOT / "tests/golden/tokenizers/tiny-gpt2"]
    for place in places:
        for name in ("encoder.json", "vocab.json"):
            if (place / name).exists():
                return place / name
    sys.exit(f"bench_tokens: '{folder}' has neither vocab.json nor encoder.json")


def own_text():
    parts = [p.read_bytes() for folder in ("src", "docs", "tests/unit") for p in sorted((ROOT / folder).rglob("*"))
             if p.suffix in (".c", ".h", ".def", ".md")]
    return b"".join(parts) * 8


def encoding(vocab):
    import tiktoken

    printable = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    table = {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(rest)}}
    ids = json.load(open(vocab, encoding="utf-8"))
    end = ids.pop("<|endoftext|>", len(ids))
    # merges in their order: single bytes first, then the ids of what they make
    ranks = {bytes(table[c] for c in token): i for token, i in ids.items()}
    return tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end})


def rate(run, size):
    began = time.perf_counter()
    run()
    return size / (time.perf_counter() - began) * 1e-6


def own_rates(vocab, path, best):
    out = subprocess.run([ROOT / "build/bench_tokenizer", vocab, path, "0.5"], capture_output=True, text=True, check=True)
    for line in out.stdout.splitlines():
        if "MB/s" in line:
            name, value = line[:22].strip(), float(line.split()[-2])
            best[name] = max(best.get(name, 0), value)


def with_module(module):
    """Continue in the environment that has the module."""
    if importlib.util.find_spec(module):
        return
    folder = Path(os.environ.get("LEVIN_PEERS") or ROOT / "build/peers")
    python = folder if folder.is_file() else folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode and \
            subprocess.run([python, "-m", "pip", "install", "--quiet", module]).returncode:
        sys.exit(f"bench_tokens: {module} could not be installed; --alone times levin without it")
    os.execv(python, [str(python), *sys.argv])


def beside_tokenizers(folder, path, text, rounds):
    """levin and Hugging Face's tokenizers in turns; both on one thread, and the ids must be the same."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    theirs, best, lines = Tokenizer.from_file(str(folder / "tokenizer.json")), {}, text.splitlines(keepends=True)
    size = len(text.encode())
    for _ in range(rounds):
        own_rates(folder, path, best)
        best["tokenizers"] = max(best.get("tokenizers", 0), rate(
            lambda: [theirs.encode(line, add_special_tokens=False) for line in lines], size))
    own = subprocess.run([ROOT / "build/levin", "tokenize", f"--tokenizer={folder}", "--json"], input=text.encode(),
                         capture_output=True, check=True)
    if json.loads(own.stdout)["ids"] != theirs.encode(text, add_special_tokens=False).ids:
        sys.exit(f"bench_tokens: other ids with {folder}")
    print(f"{folder}: levin {best['encode, cold']:.1f} MB/s, tokenizers {best['tokenizers']:.2f} MB/s: "
          f"{best['encode, cold'] / best['tokenizers']:.1f} x (>= 5)")


def bench_tokenizers(options, data):
    text = data.decode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_bytes(data)
        if options.tokenizer:
            beside_tokenizers(Path(options.tokenizer), path, text, options.rounds)
            return
        for kind in ("wordpiece", "bpe"):
            subprocess.run([ROOT / "build/levin", "tokenizer", "train", f"--kind={kind}", f"--input={path}",
                            "--vocab-size=10000", f"--out={Path(folder) / kind}"], check=True, capture_output=True)
            beside_tokenizers(Path(folder) / kind, path, text, options.rounds)


def main():
    parser = argparse.ArgumentParser(description="Time levin's tokenizer and another in turns.")
    parser.add_argument("--tokenizer")
    parser.add_argument("--text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--peer", choices=("tiktoken", "tokenizers"), default="tiktoken")
    options = parser.parse_args()
    if not options.alone:
        with_module(options.peer)
    data = Path(options.text).read_bytes() if options.text else own_text()
    if options.peer == "tokenizers":
        bench_tokenizers(options, data)
        return
    vocab, best = tokenizer_files(options.tokenizer), {}
    text = data.decode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        theirs = None if options.alone else encoding(vocab)
        ids = theirs.encode_ordinary(text) if theirs else []
        for _ in range(options.rounds):
            own_rates(vocab, file.name, best)
            if theirs:
                for name, run in (("tiktoken, encode", lambda: theirs.encode_ordinary(text)),
                                  ("tiktoken, decode", lambda: theirs.decode_bytes(ids))):
                    best[name] = max(best.get(name, 0), rate(run, len(data)))
    print(f"tokenizer of {vocab}, {len(data) / 1e6:.1f} MB of text")
    for name, value in best.items():
        print(f"{name:22} {value:8.1f} MB/s")
    threads = [name for name in best if name.endswith("threads")]
    print(f"decode: {best['decode']:.0f} MB/s (>= 200)" + "".join(
        f"; {name}: {best[name] / best['encode, cold']:.2f} x one" for name in threads))
    if theirs:
        print(f"levin : tiktoken, one thread: {best['encode, cold'] / best['tiktoken, encode']:.1f} (>= 3)")


main()
