# test_docs.py - covers docs/python.md: its examples run, one after the other, as a reader would type them.
# label: user
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import scenes

PAGE = Path(os.environ["LEVIN_SOURCE"]) / "docs/python.md"


def blocks(text):
    """The indented blocks of the page: (line, code)."""
    out, current, start = [], [], 0
    for n, line in enumerate([*text.splitlines(), "end"], 1):
        if line.startswith("    "):
            start = start or n
            current.append(line[4:])
        elif not line and current:
            current.append("")
        elif current:
            out.append((start, "\n".join(current)))
            current, start = [], 0
    return out


class Page(unittest.TestCase):
    def test_examples(self):
        Path("recipe.yaml").write_text("data: {path: verse.txt}\n"
                                       "model: {n_layer: 1, n_head: 2, n_embd: 16, block_size: 16}\n"
                                       "trainer: {batch_size: 4, max_steps: 20, val_check_interval: 10}\n"
                                       "optimizer: {lr: 3e-3}\n")
        scenes.keys()  # the verse
        Path("reviews.tsv").write_text("id\tdocument\tlabel\n"
                                       + "".join(f"{i}\t{'good' if i % 2 else 'bad'} film\t{i % 2}\n" for i in range(40)))
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
        Path("tokenizer").mkdir()
        Path("tokenizer/vocab.txt").write_text("\n".join(words) + "\n")
        Path("my-tokenizer").mkdir()
        shutil.copy(Path(os.environ["LEVIN_SOURCE"]) / "tests/golden/tokenizers/tiny-llama3/tokenizer.json", "my-tokenizer")
        Path("my-tokenizer/tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
        code = blocks(PAGE.read_text())
        self.assertGreater(len(code), 8)
        lines = []
        for at, text in code:  # with the line numbers of the page
            lines += [""] * (at - 1 - len(lines)) + text.splitlines()
        Path("page.py").write_text("\n".join(lines) + "\n")
        done = subprocess.run([sys.executable, "page.py"], capture_output=True, text=True, timeout=1800)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("did you mean 'optimizer.lr'?", done.stdout)
        self.assertIn("my/number", Path("runs/hand/metrics.csv").read_text())


scenes.main()
