#!/usr/bin/env python3
"""make_real_tokens.py - writes expected ids and texts of a published tokenizer, by Hugging Face's tokenizers.

    make_real_tokens.py N SEED SOURCE FOLDER

SOURCE is a folder with a tokenizer.json somewhere in it, or with a GGUF file of byte-level BPE. Writes that tokenizer to
FOLDER/tokenizer.json, and N difficult texts to FOLDER/cases.json: those of make_tokens.py, and random ones with the tokenizer's
added tokens and tokens of its vocabulary in them. Ends with 77 and a sentence if something is missing. Needs the package
tokenizers: parts/real/tokenizers, or any other that Python finds.
"""
import json
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "parts/real/tokenizers"))
try:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
except ImportError:
    print("skipped: Python finds no tokenizers (tools/setup.sh --dev installs it)")
    sys.exit(77)
from gguf_metadata import metadata  # noqa: E402
from make_tokens import cases, write_sentences  # noqa: E402  (without tokenizers it cannot be read)

CONTROL = 3  # a kind of token


def from_gguf(data):
    """The tokenizer of a GGUF file of SmolLM2: byte-level BPE that splits digits, as SmolLM2's tokenizer.json does."""
    tokens = data["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in data["tokenizer.ggml.merges"]]
    t = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([token for token, kind in zip(tokens, data["tokenizer.ggml.token_type"]) if kind == CONTROL])
    return t


def hostile(rng, n, t):
    """Texts that are hard for every tokenizer, then some that are hard for this one."""
    added = [token.content for token in t.get_added_tokens_decoder().values()] or ["<|none|>"]
    vocabulary = sorted(t.get_vocab())
    texts = cases(rng, max(0, n // 2))
    while len(texts) < n:
        parts = cases(rng, 3)[-3:]
        for _ in range(rng.randrange(1, 4)):
            token = rng.choice(added) if rng.random() < .5 else rng.choice(vocabulary)
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(["", " ", "\n"]) + token[:200] + rng.choice(["", " ", "a"]))
        texts.append("".join(parts))
    return texts[:n]


def main():
    n, seed, source, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    found = sorted(source.rglob("tokenizer.json")) + sorted(source.rglob("*.gguf"))
    if not found:
        print(f"skipped: no {source} (tools/setup.sh --dev installs it)")
        return 77
    t = Tokenizer.from_file(str(found[0])) if found[0].name == "tokenizer.json" else from_gguf(metadata(found[0]))
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").unlink(missing_ok=True)
    if found[0].name == "tokenizer.json":
        (out / "tokenizer.json").symlink_to(found[0].resolve())
    else:
        t.save(str(out / "tokenizer.json"))
    write_sentences(out / "cases.json", source.name, t, hostile(random.Random(seed), n, t))
    return 0


if __name__ == "__main__":
    sys.exit(main())
