# test_notebooks.py - covers python/notebooks: each cell runs in a Jupyter kernel, the loss falls, the weights have the bits
# of the command line; what is committed is whole and small.
# label: user
# label: computes
#
# The notebooks run as they are, but for a cell that is added after their recipe and makes the run short. Data: real
# MNIST and SmolLM2 of parts/real, and the texts of ../shared/data; without its files a notebook is skipped.
import ast
import json
import os
import sys
import unittest
from pathlib import Path

ROOT = Path(os.environ["LEVIN_SOURCE"])
PARTS = ROOT / "parts/jupyter"
if not (PARTS / "ipykernel").is_dir() or not (PARTS / "nbclient").is_dir():
    print("skipped: no parts/jupyter (tools/setup.sh --dev installs it)")
    sys.exit(77)
os.environ["PYTHONPATH"] += f":{PARTS}"  # of the kernels
os.environ["PATH"] = f"{Path(os.environ['LEVIN']).parent}:{os.environ['PATH']}"
os.environ["IPYTHONDIR"] = os.environ["JUPYTER_CONFIG_DIR"] = os.environ["JUPYTER_DATA_DIR"] = str(Path("jupyter").resolve())
sys.path.append(str(PARTS))

import nbformat  # noqa: E402
import scenes  # noqa: E402
from nbclient import NotebookClient  # noqa: E402

MNIST, TEXTS = ROOT / "parts/real/mnist", ROOT.parent / "shared/data"


def text_of(cell):
    """What a cell printed, and its result."""
    return "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)


class Notebooks(unittest.TestCase):
    def executes(self, name, files, steps, parts=(), **trainer):
        """Run a short form of a notebook; returns its cells of code. parts: of the recipe, for the command line."""
        for to, source in files.items():
            if not source.exists():
                self.skipTest(f"{source} was not found")
            Path(to).parent.mkdir(exist_ok=True)
            if not Path(to).exists():
                Path(to).symlink_to(source)
        book = nbformat.read(ROOT / f"python/notebooks/{name}.ipynb", as_version=4)
        at = next(i for i, c in enumerate(book.cells) if c.source.startswith("import levin"))
        short = {"max_steps": steps, "val_check_interval": steps, **trainer}
        book.cells.insert(at + 1, nbformat.v4.new_code_cell(f"recipe['trainer'].update({short!r})"))
        book.cells.append(nbformat.v4.new_code_cell("import json; print(json.dumps([recipe, history]))"))
        NotebookClient(book, timeout=1800, kernel_name="python3").execute()  # a cell that fails raises
        *cells, last = [c for c in book.cells if c.cell_type == "code"]
        recipe, history = json.loads(text_of(last))
        self.fell(history["loss"], steps)
        self.drawn(cells)
        self.same_bits(name, {**recipe, **dict(parts)}, ast.literal_eval(text_of(cells[-1])))
        return cells

    def fell(self, losses, steps):
        self.assertEqual(len(losses), steps)
        n = steps // 4
        self.assertLess(sum(losses[-n:]), 0.99 * sum(losses[:n]))

    def drawn(self, cells):
        """fit() left one output: the whole curve."""
        fit, = (c for c in cells if ".fit()" in c.source)
        output, = fit.outputs
        self.assertIn("all steps are done", output.data["text/html"])
        self.assertIn('<path class="loss"', output.data["text/html"])
        self.assertIn("all steps are done", output.data["text/plain"])

    def same_bits(self, name, recipe, printed):
        Path("recipe.yaml").write_text(json.dumps(recipe, ensure_ascii=False), encoding="utf-8")
        scenes.program("train", "--quiet", "recipe.yaml", f"--name=cli-{name}")
        self.assertEqual(printed, scenes.weights(f"cli-{name}"))

    def test_mnist(self):
        cells = self.executes("mnist", {"data/mnist": MNIST}, 40, limit_val_batches=4, limit_test_batches=4)
        self.assertIn("test_accuracy", text_of(cells[-2]))

    def test_shakespeare(self):
        cells = self.executes("shakespeare", {"data/tinyshakespeare.txt": TEXTS / "tinyshakespeare.txt"}, 40,
                              limit_val_batches=4)
        self.assertRegex(text_of(cells[-2]), r"^KING RICHARD:\n(.|\n){100}")

    def test_nsmc_bert(self):
        cells = self.executes("nsmc-bert", {"data/nsmc-train.tsv": TEXTS / "nsmc-train.tsv"}, 120, limit_val_batches=8)
        self.assertIn("8,000 tokens", text_of(cells[0]))
        self.assertRegex(text_of(cells[-3]), r"^2,000 samples, accuracy 0\.[5-9]")
        self.assertRegex(text_of(cells[-2]), r"^0\.\d+ positive .*\n0\.\d+ positive .*\n$")

    def test_chat(self):
        folder = Path("HuggingFaceTB/SmolLM2-135M-Instruct")
        folder.parent.mkdir()
        files = list((ROOT / "parts/real/smollm2").glob("*.gguf"))
        if not files:
            self.skipTest("no parts/real/smollm2 (tools/setup.sh --dev installs it)")
        scenes.program("export", "--quiet", str(files[0]), str(folder))
        book, scope = nbformat.read(ROOT / "python/notebooks/chat.ipynb", as_version=4), {}
        exec(next(c.source for c in book.cells if c.source.startswith("facts = ")), scope)
        Path("talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in scope["talks"]))
        cells = self.executes("chat", {}, 8, {"data": {"kind": "chat", "path": "talks.jsonl"}}, limit_val_batches=1)
        self.assertRegex(text_of(cells[-2]), r"^How long can I keep a film\? -> .*\n")

    def test_committed(self):
        books = sorted((ROOT / "python/notebooks").glob("*.ipynb"))
        self.assertEqual([b.stem for b in books], ["chat", "mnist", "nsmc-bert", "shakespeare"])
        for path in books:
            book = nbformat.read(path, as_version=4)
            nbformat.validate(book)
            self.assertLess(path.stat().st_size, 200_000)
            before = None
            for n, cell in enumerate(book.cells):
                if cell.cell_type == "code":  # with a sentence before it, and run in order
                    self.assertEqual(before, "markdown", f"{path.name}: cell {n}")
                    self.assertFalse([o for o in cell.outputs if o.output_type == "error"])
                before = cell.cell_type
            counts = [c.execution_count for c in book.cells if c.cell_type == "code"]
            self.assertEqual(counts, list(range(1, len(counts) + 1)), f"{path.name} was not executed as a whole")
            self.drawn([c for c in book.cells if c.cell_type == "code"])


scenes.main()
