# test_data.py - covers python/levin/data.py: samples from Python, shuffled, resumed, and what is wrong with them.
import functools
import gzip
import hashlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import unittest
import weakref
from pathlib import Path

import levin
import numpy as np
import scenes
from levin.data import Data
from scenes import losses, weights

KEYS = {"model.n_layer": 1, "model.n_head": 2, "model.n_embd": 16, "model.block_size": 8, "trainer.batch_size": 4,
        "trainer.max_steps": 12, "trainer.val_check_interval": 6, "logger.report": False}


def rows(n=40, seed=0):
    out = []
    for x in np.random.default_rng(seed).integers(0, 10, (n, 9)):
        out.append({"ids": x[:-1], "labels": x[1:]})
    return out


FIELDS = {"ids": levin.Field((8,), np.int32, 10), "labels": levin.Field((8,), np.int32, 10)}


def run(name, data, fields=None, callbacks=(), resume=False, **more):
    return levin.Run(None, name=name, data=data, fields=fields, callbacks=callbacks, resume=resume, progress=False,
                     **{**KEYS, **{k.replace("__", "."): v for k, v in more.items()}})


class Kinds(levin.Callback):
    """Names and steps of the events, except those of checkpoints."""

    def __init__(self):
        self.kinds = []

    def on_start(self, run, event):
        self.first = event.step

    def on_step(self, run, event):
        self.kinds.append(("step", event.step))

    def on_validation(self, run, event):
        self.kinds.append(("validation", event.step))

    def on_epoch(self, run, event):
        self.kinds.append(("epoch", event.step))


class Stops(levin.Callback):
    def on_step(self, run, event):
        if event.step == 5:
            run.stop()


class Cut(list):
    """Validation data: in the validation after step `at` the run is to stop, and fails."""

    def __init__(self, at):
        super().__init__(rows(8))
        self.at, self.run = at, None

    def __getitem__(self, i):
        if self.run and self.run.step == self.at and i == 0:
            self.run.stop()
        if self.run and self.run.step == self.at and i == 7:
            raise KeyError("killed")
        return super().__getitem__(i)


class Interrupted(unittest.TestCase):
    """A run that ends within a validation has saved the step before it; the resumed run does what is still due."""

    def same(self, name, at, **more):
        run(name, {"train": rows(), "val": rows(8)}, callbacks=[whole := Kinds()], **more).fit()
        data = Cut(at)
        with self.assertRaises(KeyError):
            with run(name + "_cut", {"train": rows(), "val": data}, callbacks=[first := Kinds()], **more) as r:
                data.run = r
                r.fit()
        run(name + "_cut", {"train": rows(), "val": rows(8)}, callbacks=[second := Kinds()], resume=True, **more).fit()
        self.assertEqual(first.kinds[-1], ("step", second.first))
        self.assertEqual(first.kinds + second.kinds, whole.kinds)
        for link in "last", "best":
            self.assertEqual(os.readlink(f"runs/{name}_cut/checkpoints/{link}"), os.readlink(f"runs/{name}/checkpoints/{link}"))
        self.assertEqual(weights(name + "_cut"), weights(name))
        self.assertEqual(losses(name + "_cut"), losses(name))
        self.assertEqual(sorted(os.listdir(f"runs/{name}_cut/checkpoints")), sorted(os.listdir(f"runs/{name}/checkpoints")))

    def test_early_stopping(self):
        """The validation ends the run, which makes no further step."""
        self.same("patience", 8, trainer__val_check_interval=4, early_stopping__monitor="val_loss", early_stopping__patience=1,
                  optimizer__lr=0.0)

    def test_the_last_step(self):
        self.same("last_step", 12)

    def test_the_end_of_an_epoch(self):
        self.same("epoch", 10, trainer__val_check_interval=5, trainer__max_steps=23)


class Sequences(unittest.TestCase):
    def test_the_bits_of_a_file(self):
        """The windows of a token file, given as a list: the same samples in the same order, so the same weights."""
        tokens = np.random.default_rng(1).integers(0, 10, 8 * 40 + 1).astype(np.uint16)
        Path("tokens").mkdir()
        tokens.tofile("tokens/train.bin")
        tokens[:65].tofile("tokens/val.bin")
        levin.Run(None, name="file", data={"kind": "tokens", "path": "tokens", "sampling": "sequential"}, progress=False,
                  **{**KEYS, "model.vocab_size": 10}).fit()
        windows = [{"ids": tokens[i:i + 8], "labels": tokens[i + 1:i + 9]} for i in range(0, 8 * 40, 8)]
        run("list", {"train": windows, "val": windows[:8]}, data__sampling="sequential", model__vocab_size=10).fit()
        self.assertEqual(weights("list"), weights("file"))
        self.assertEqual(losses("list"), losses("file"))

    def test_documents_in_rows(self):
        """data.pack of a token file, and segments of samples: those of one document change nothing."""
        tokens = np.random.default_rng(2).integers(1, 10, 900).astype(np.uint16)
        tokens[4::7] = 0
        tokens.tofile("packed.bin")
        keys = {"pack": True, "end_token": 0, "overlong": "refuse"}
        one = levin.Run(None, name="packed", data={"kind": "tokens", "path": "packed.bin", **keys}, progress=False,
                        **{**KEYS, "model.vocab_size": 10}).fit()
        self.assertEqual(len(one["loss"]), 12)
        single = [{**r, "segments": np.zeros(8, int)} for r in rows()]
        halves = [{**r, "segments": np.repeat([0, 4], 4)} for r in rows()]
        plain, single, halves = (run(f"segments{i}", data).fit()["loss"] for i, data in enumerate((rows(), single, halves)))
        np.testing.assert_allclose(single, plain, rtol=1e-5)
        self.assertGreater(np.abs(np.array(halves) - plain).max(), 1e-4)

    def test_shuffled_and_resumed(self):
        data = {"train": rows(), "val": rows(8, 1)}
        history = run("whole", data).fit()
        self.assertEqual((len(history["loss"]), history["val_step"]), (12, [6, 12]))
        run("sequential", data, data__sampling="sequential").fit()
        self.assertNotEqual(weights("sequential"), weights("whole"))
        run("cut", data, callbacks=Stops()).fit()
        self.assertEqual(run("cut", data, resume=True).fit()["step"][0], 6)
        self.assertEqual(weights("cut"), weights("whole"))
        with self.assertRaisesRegex(levin.InputError, "was trained on other data"):
            run("cut", {"train": rows(seed=7), "val": rows(8, 1)}, resume=True).open()

    def test_objects_that_are_sequences(self):
        class Set:  # as Hugging Face's datasets
            def __len__(self):
                return 40

            def __getitem__(self, i):
                return rows()[i]

        run("set", Set()).fit()
        run("rows", rows()).fit()
        self.assertEqual(weights("set"), weights("rows"))
        class Windows:  # of one array; a slice beyond its end is no IndexError, so that iteration would not end
            def __len__(self):
                return 40

            def __getitem__(self, i):
                assert i < 1000
                row = tokens[9 * i:9 * i + 9]
                return {"ids": row[:-1], "labels": row[1:]}

        tokens = np.array([[*r["ids"], r["labels"][-1]] for r in rows()]).reshape(-1)
        run("windows", Windows()).fit()
        self.assertEqual(weights("windows"), weights("rows"))
        run("names", {"train": rows(), "validation": rows(8, 1)}).fit()  # as datasets.DatasetDict names them
        run("ours", {"train": rows(), "val": rows(8, 1)}).fit()
        self.assertEqual(losses("names"), losses("ours"))

    def test_a_model_and_the_samples_of_another_run(self):
        """A model is never evaluated on the samples of another run that happens to be open."""
        with run("first-samples", {"train": rows(), "val": rows(8, 1)}) as r:
            r.fit()
        m = levin.load("runs/first-samples")
        with self.assertRaisesRegex(levin.InputError, "data.kind=program is for programs"):
            m.evaluate()
        with run("others", {"train": rows(seed=5), "val": rows(8, 6)}) as r:
            next(r.steps())
            for call in m.evaluate, m.gradients:
                with self.assertRaisesRegex(levin.InputError, "was trained on samples of a program, and the open run has others"):
                    call()
        with run("same-samples", {"train": rows(), "val": rows(8, 1)}) as r:
            next(r.steps())
            self.assertGreater(m.evaluate().loss, 0)

    def test_images(self):
        rng = np.random.default_rng(0)
        samples = [{"pixels": rng.integers(0, 256, (1, 28, 28), np.uint8), "label": i % 10} for i in range(40)]
        r = levin.Run(None, name="images", data={"train": samples, "val": samples[:10]}, progress=False,
                      **{"model.kind": "mnist-mlp", "trainer.max_steps": 4, "trainer.batch_size": 8})
        self.assertEqual(len(r.fit()["loss"]), 4)
        self.assertIn("val_accuracy", r.validate())

    def test_served_images(self):
        """Training downloads the files of its own splits; test() those of the test split."""
        Path("www").mkdir()
        digits = Path(os.environ["LEVIN_SOURCE"], "tests/cli/drawn_digits.py")
        subprocess.run([sys.executable, str(digits), "www", "1200", "200"], check=True)
        sums = []
        for name in (f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")):
            if Path("www", name).exists():
                Path("www", name + ".gz").write_bytes(gzip.compress(Path("www", name).read_bytes()))
            sums.append(hashlib.sha256(Path("www", name + ".gz").read_bytes()).hexdigest())
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory="www"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            data = {"kind": "mnist", "path": "in", "url": f"http://127.0.0.1:{server.server_port}", "sha256": ",".join(sums)}
            with levin.Run({"data": data}, name="served", progress=False,
                           **{"model.kind": "mnist-mlp", "trainer.max_steps": 4, "trainer.batch_size": 8}) as r:
                r.fit()
                self.assertEqual(len(os.listdir("in")), 2)
                self.assertIn("test_accuracy", r.test())
                self.assertEqual(len(os.listdir("in")), 4)
        finally:
            server.shutdown()
            server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class Classes(unittest.TestCase):
    """Labels that are names: their classes are sorted, or in the order of `classes`; the samples are those of numbers."""

    KEYS = {"model.kind": "bert", "model.n_layer": 1, "model.n_head": 2, "model.n_embd": 16, "model.block_size": 8,
            "model.vocab_size": 16, "trainer.batch_size": 4, "trainer.max_steps": 4, "task.kind": "classify",
            "logger.report": False}

    @staticmethod
    def rows(names, n=24):
        ids = np.random.default_rng(0).integers(2, 10, (n, 8))
        return [{"ids": ids[i], "types": 0 * ids[i], "length": 8, "label": names[i % 2]} for i in range(n)]

    def run_on(self, name, data, resume=False, classes=None, **more):
        return levin.Run(None, name="classes-" + name, data=data, classes=classes, resume=resume, progress=False, **{**self.KEYS, **more})

    def test_names(self):
        self.run_on("numbers", self.rows((1, 0))).fit()
        self.run_on("words", self.rows(("pos", "neg"))).fit()
        self.run_on("order", self.rows(("pos", "neg")), classes=["neg", "pos"]).fit()
        self.run_on("both", self.rows((1, "neg")), classes=["neg", "pos"]).fit()
        for name in ("words", "order", "both"):
            self.assertEqual(weights(f"classes-{name}"), weights("classes-numbers"))
            config = json.loads(Path(f"runs/classes-{name}/checkpoints/last/config.json").read_text())
            self.assertEqual(config["id2label"], {"0": "neg", "1": "pos"})
            with levin.load(f"runs/classes-{name}") as m:
                self.assertEqual(m.classes, ["neg", "pos"])
        self.run_on("words", self.rows(("pos", "neg")), resume=True, **{"trainer.max_steps": 6}).fit()
        with self.assertRaisesRegex(levin.InputError, "class 0 is 'bad' in the program's data and 'neg' in the model"):
            self.run_on("words", self.rows(("good", "bad")), resume=True, **{"trainer.max_steps": 8}).fit()

    def test_wrong(self):
        good = self.rows(("pos", "neg"))
        for text, data, classes in (
                ("sample 1 of val has the label 'meh', which no sample of train has; their labels are 'neg', 'pos'",
                 {"train": good, "val": self.rows(("pos", "meh"))}, None),
                ("sample 24 of train has the label 3, but others have names", good + self.rows((3, 3), 1), None),
                ("all samples of train have the label 'pos'", self.rows(("pos", "pos")), None),
                ("the label is 'pos', but the classes are 'neg'", good, ["neg"]),
                ("has values up to 2, but the program names 2 classes", self.rows((0, 2)), ["neg", "pos"]),
                ("the class 'a' is empty, contains a line end or a control character, or is listed twice", good, ["a", "a"]),
                ("classes must be a list of names", good, "ab"),
                ("no data were given", None, ["neg", "pos"])):
            with self.assertRaises(levin.InputError) as caught:
                self.run_on("wrong", data, classes=classes).open()
            self.assertIn(text, str(caught.exception))


class Ranks(unittest.TestCase):
    def test_two_ranks_have_the_bits_of_one(self):
        """Two processes of Python are two ranks, as a launcher's variables tell them."""
        more = {"trainer.deterministic": True, "trainer.micro_batch_size": 1, "trainer.threads": 1}
        run("one", {"train": rows(), "val": rows(8, 1)}, **more).fit()
        script = f"""import test_data
test_data.run("two", {{"train": test_data.rows(), "val": test_data.rows(8, 1)}}, **{more!r}).fit()"""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        path = os.environ["PYTHONPATH"] + ":" + str(Path(__file__).parent)
        ranks = [subprocess.Popen([sys.executable, "-c", script], env={
            **os.environ, "PYTHONPATH": path, "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for r in range(2)]
        self.assertEqual([p.wait() for p in ranks], [0, 0])
        self.assertEqual(weights("two"), weights("one"))
        self.assertEqual(len(json.loads(Path("runs/two/status.json").read_text())["ranks"]), 2)


class Iterables(unittest.TestCase):
    def test_in_order_and_resumed_by_skipping(self):
        data = rows(48)
        run("list48", data, data__sampling="sequential").fit()
        run("iter", iter(data), FIELDS).fit()
        self.assertEqual(weights("iter"), weights("list48"))
        run("iter_cut", iter(data), FIELDS, callbacks=Stops()).fit()
        run("iter_cut", iter(data), FIELDS, resume=True).fit()
        self.assertEqual(weights("iter_cut"), weights("iter"))

    def test_samples_of_other_ranks_are_not_kept(self):
        class Sample(dict):
            __hash__ = object.__hash__

        alive = weakref.WeakSet()

        def samples():
            for k in range(64):
                sample = Sample(number=k)
                alive.add(sample)
                yield sample
                del sample

        data = Data(samples(), FIELDS)
        for i in range(7, 64, 8):  # as rank 7 of 8 reads
            self.assertEqual(data._next(i)["number"], i)
            self.assertLessEqual(len(alive), 1)


class Wrong(unittest.TestCase):
    def fails(self, text, call, kind=levin.InputError):
        with self.assertRaises(kind) as caught:
            call()
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_samples(self):
        def changed(**more):
            out = rows()
            out[7] = {**out[7], **more}
            return out

        self.fails("sample 7 of train: the field 'ids' has the shape (5,), expected (8,)",
                   lambda: run("w1", changed(ids=np.zeros(5, int))).fit())
        self.fails("sample 7 of train: the field 'ids' has the type float64, expected int32",
                   lambda: run("w2", iter(changed(ids=np.zeros(8))), FIELDS).fit())
        self.fails("sample 7 of train: 'ids' holds 10, and it may hold 0 to 9",
                   lambda: run("w3", iter(changed(ids=np.full(8, 10))), FIELDS).fit())
        self.fails("sample 7 of train has no field 'labels'; it has ids",
                   lambda: run("w4", [{"ids": r["ids"]} if i == 7 else r for i, r in enumerate(rows())], FIELDS).fit())
        self.fails("sample 7 of train has no field 'labels'; it has ids",
                   lambda: run("w4", [{"ids": r["ids"]} if i == 7 else r for i, r in enumerate(rows())]))
        self.fails("sample 7 of val is a NoneType, but a sample must be a dict of arrays",
                   lambda: run("w4", {"train": rows(), "val": rows(7) + [None]}))
        self.fails("data must be a list of samples, each a dict as {'ids': ..., 'labels': ...}, not one dict",
                   lambda: run("w4", {"ids": np.zeros((4, 8)), "labels": np.ones((4, 8))}))
        self.fails("fields must be a dict, as {'ids': levin.Field((16,))}, not list", lambda: run("w4", rows(), ["ids"]))
        self.fails("'labels' holds -100, and it may hold 0 to 9, or -1 for no label",
                   lambda: run("w13", [{**r, "labels": np.full(8, -100)} for r in rows()]).fit())
        self.fails("sample 7 of train: the field 'ids' has values from 4294967297 to 4294967297, expected int32",
                   lambda: run("w11", iter(changed(ids=np.full(8, 2**32 + 1))), FIELDS).fit())
        self.fails("and may have 'val' (or 'validation') and 'test'; these have 'train', 'dev'",
                   lambda: run("w12", {"train": rows(), "dev": rows()}))
        for i, segments in enumerate(([1, 1, 1, 1, 4, 4, 4, 4], [0, 0, 2, 0, 4, 4, 4, 4], [0, 0, 0, 2, 4, 4, 4, 4])):
            wrong = [{**r, "segments": segments if k == 7 else np.zeros(8, int)} for k, r in enumerate(rows())]
            self.fails("sample 7 of train: 'segments' holds", lambda w=wrong, i=i: run(f"wrong-segments{i}", w).fit())
        self.fails("a sample must be a dict of arrays, but data[0] is a int", lambda: run("w5", [1, 2]))
        self.fails("the field 'ids' of a sample must have numbers, not <U1; texts are read from a file", lambda: run("w6", [{"ids": ["a"]}]))
        self.fails("data['train'] is empty", lambda: run("w7", []))
        self.fails("must have 1 to 5 fields, but these have none", lambda: run("w7", [{}]))
        self.fails("have a, b, c, d, e, f", lambda: run("w7", [dict.fromkeys("abcdef", 1)]))
        self.fails("data must be a sequence of dicts or an iterable of them, not int", lambda: run("w8", 3))
        self.fails("data has both 'val' and its other name, 'validation'",
                   lambda: run("w12", {"train": rows(), "val": rows(8), "validation": rows(8)}))
        self.fails("data given as an iterable also need trainer.max_steps",
                   lambda: run("w9", iter(rows()), FIELDS, trainer__max_steps=0, trainer__max_epochs=1))
        self.fails("data given as an iterable also need fields=", lambda: run("w9", iter(rows())))
        self.fails("data.kind=program is for programs",
                   lambda: levin.Run(None, data={"kind": "program"}, name="w10", progress=False).fit())

    def test_ranges(self):
        """Every integer of a sample is compared with what the model and the task accept, whether its field has a range or
        not."""
        def texts(**more):
            rows = [{"ids": x, "types": np.zeros(8, int), "length": 8, "label": i % 2}
                    for i, x in enumerate(np.random.default_rng(0).integers(0, 10, (40, 8)))]
            rows[7].update(more)
            return rows

        def images(label):
            rows = [{"pixels": np.zeros((1, 28, 28), np.uint8), "label": i % 10} for i in range(40)]
            rows[7]["label"] = label
            return rows

        of_texts = {"ids": levin.Field((8,), np.int32, 10), "types": levin.Field((8,)), "length": levin.Field(),
                    "label": levin.Field()}
        of_images = {"pixels": levin.Field((1, 28, 28), np.uint8), "label": levin.Field()}
        bert, mnist = {"model.kind": "bert"}, {"model.kind": "mnist-mlp"}
        cases = [(texts(**{name: value}), of_texts, bert, f"'{name}' holds {number}, and it may hold {may}")
                 for name, value, number, may in (
                     ("types", np.full(8, 5), 5, "0 to 1"), ("types", np.full(8, -1), -1, "0 to 1"),
                     ("types", np.full(8, 2 * 10**9), 2 * 10**9, "0 to 1"), ("length", 9, 9, "1 to 8"),
                     ("length", 0, 0, "1 to 8"), ("ids", np.full(8, -1), -1, "0 to 9"),
                     ("label", -2, -2, "0 to 1, or -1 for no label"), ("label", -100, -100, "0 to 1, or -1 for no label (Hugging"))]
        cases += [(images(n), of_images, mnist, f"'label' holds {n}, and it may hold 0 to 9, or -1 for no label")
                  for n in (10, 50, 10**6, -2)]
        for i, (rows_, fields, keys, text) in enumerate(cases):
            keys = {**{k: v for k, v in KEYS.items() if "model." not in k or keys is bert}, **keys}
            for data, described in ((rows_, None), (iter(rows_), fields)):
                r = levin.Run(None, overwrite=True, name=f"range{i}", data=data, fields=described, progress=False, **keys)
                self.fails("sample 7 of train: " + text, lambda r=r: r.fit())
        wide = iter(texts(label=10**6))
        self.fails("sample 7 of train: 'label' holds 1000000, and it may hold 0 to 1",
                   lambda: run("range-label", wide, of_texts, **bert).fit())
        levin.Run(None, name="range", data=iter(images(-1)), fields=of_images, progress=False,
                  **{"trainer.max_steps": 4, "trainer.batch_size": 8, **mnist}).fit()

    def test_fields(self):
        mask = [{**r, "attention_mask": np.ones(8, int)} for r in rows()]
        self.fails("a field 'attention_mask', which neither the model 'nanogpt' nor task.kind=lm reads", lambda: run("f1", mask).fit())
        self.fails("task.kind=mlm masks tokens of", lambda: run("f2", [{"ids": r["ids"]} for r in rows()], **{
            "model.kind": "bert", "task.kind": "mlm"}).fit())
        for shape in ((2**31,), (2**20, 2**20)):
            self.fails("may have at most 2147483647 elements",
                       lambda: run("f3", iter([]), {"ids": levin.Field(shape), "labels": levin.Field(shape)}).fit())
        self.fails("the vocabulary below 2147483648", lambda: run("f4", iter([]), {"ids": levin.Field((8,), np.int32, 2**40)}).fit())
        self.fails("below is -1: give a whole number from 0", lambda: levin.Field((8,), np.int32, -1))
        self.assertEqual(levin.Field(8).shape, (8,))
        self.fails("a size of a field is 0: give a whole number from 1", lambda: levin.Field((0,)))
        self.fails("the name of a field must be a text, not 3", lambda: run("f5", [{3: np.zeros(8, int)}]))

    def test_labels_that_are_the_ids(self):
        """Hugging Face's trainers shift labels; levin's labels are next tokens."""
        same = [{"ids": r["ids"], "labels": r["ids"]} for r in rows()]
        self.fails("shift them by one: ids = tokens[:-1], labels = tokens[1:]", lambda: run("same", same).fit())
        partly = [{"ids": r["ids"], "labels": np.where(np.arange(8) < 5, -1, r["ids"])} for r in rows()]
        self.fails("equal the ids at their own positions", lambda: run("partly", iter(partly), FIELDS).fit())
        constant = [{"ids": np.full(8, 3), "labels": np.full(8, 3)}] * 40  # the next token, too
        self.assertEqual(len(run("constant", constant).fit()["loss"]), 12)

    def test_exceptions_without_a_text(self):
        class Bad(Exception):
            def __str__(self):
                raise TypeError("no text")

        def data(e):
            yield from rows(8)
            raise e

        for e in (ValueError("\ud800"), Bad()):
            with self.assertRaises(type(e)):
                run(f"textless-{type(e).__name__}", data(e), FIELDS).fit()

    def test_a_token_that_is_only_a_label(self):
        """The vocabulary also has the largest label, which may be no id of any sample."""
        last = [{"ids": np.arange(8), "labels": np.arange(1, 9)}] * 40
        r = run("last", last)
        self.assertEqual(len(r.fit()["loss"]), 12)
        r.close()
        self.assertEqual(levin.load("last").vocab_size, 9)

    def test_pandas(self):
        """The rows of a frame and the elements of a column, whatever their index."""
        class Column(list):  # as a pandas.Series, which has an index
            iloc = property(lambda self: self)

            def to_dict(self):
                return dict(enumerate(self, 100))

        class Frame(Column):
            columns = ("ids", "labels")

            def to_dict(self, form):
                return list(self) if form == "records" else {}

        for kind in Column, Frame:
            run(f"pandas-{kind.__name__}", kind(rows())).fit()
        self.assertEqual(weights("pandas-Column"), weights("pandas-Frame"))

    def test_ends_early(self):
        with self.assertRaisesRegex(levin.InputError, "the iterable ended after 10 samples") as caught:
            with run("early", iter(rows(10)), FIELDS, trainer__max_epochs=10**9) as r:  # of an unknown length
                r.fit()
        self.assertEqual(getattr(caught.exception, "__notes__", []), [])  # closing it has reported nothing new
        self.assertTrue(Path("runs/early/checkpoints/step-2").is_dir())

    def test_raises(self):
        def data():
            for i, row in enumerate(rows(48)):
                if i == 30:
                    raise KeyError("thirty")
                yield row

        # A validation is due at the step whose next batch cannot be read.
        with self.assertRaises(KeyError) as caught:
            run("raises", {"train": data(), "val": rows(8)}, FIELDS, trainer__val_check_interval=7).fit()
        self.assertIn("reading the batch of step 8; step 7 is saved", caught.exception.__cause__.trace)
        self.assertTrue(Path("runs/raises/checkpoints/step-7").is_dir())
        for name in "raises", "unbroken":
            parts = {"train": iter(rows(48)), "val": rows(8)}
            run(name, parts, FIELDS, resume=name == "raises", trainer__val_check_interval=7).fit()
        self.assertEqual(weights("raises"), weights("unbroken"))
        self.assertEqual(losses("raises"), losses("unbroken"))

    def test_raises_after_an_epoch(self):
        """The epoch that has ended before it is complete in the checkpoint."""
        keys = {"early_stopping__monitor": "train_loss", "early_stopping__patience": 3, "optimizer__lr": 0.0,
                "trainer__max_steps": 100, "checkpoint__monitor": "train_loss", "data__sampling": "sequential"}

        class Reads(list):
            def __init__(self, end):
                super().__init__(rows(16))
                self.first, self.end = 0, end

            def __getitem__(self, i):
                self.first += i == 0
                if self.first == self.end:
                    raise KeyError("once")
                return super().__getitem__(i)

        run("epochs", whole := Reads(None), FIELDS, **keys).fit()
        # sample 0 was read by the checks at the start, in each epoch, and in the batch after the last one
        checks = whole.first - int(os.readlink("runs/epochs/checkpoints/last").split("-")[1]) // 4 - 1
        with self.assertRaises(KeyError):
            run("epochs_cut", Reads(checks + 3), FIELDS, **keys).fit()
        state = json.loads(Path("runs/epochs_cut/checkpoints/last/state/state.json").read_text())
        self.assertEqual((state["step"], state["callbacks"]["train_metrics"]["labels"]), (8, 0))
        self.assertEqual(state["callbacks"]["early_stopping"]["waited"], 1)
        run("epochs_cut", rows(16), FIELDS, resume=True, **keys).fit()
        self.assertEqual(losses("epochs_cut"), losses("epochs"))
        self.assertEqual(os.readlink("runs/epochs_cut/checkpoints/last"), os.readlink("runs/epochs/checkpoints/last"))

    def test_no_finite_loss(self):
        """The batch of the failed step is needed again to find the origin; an iterable cannot repeat it."""
        bad = {"optimizer__lr": 1e6, "optimizer__weight_decay": 1000.0, "trainer__gradient_clip_val": 0.0}
        for name, data in ("once", iter(rows(48))), ("again", rows(48)):
            with self.assertRaisesRegex(levin.FaultError, "the gradient norm -?(nan|inf);") as caught:
                run(name, data, FIELDS, **bad).fit()
            cause = {"once": "because the data of the step cannot be read again", "again": "not finite is in '"}[name]
            self.assertIn(cause, str(caught.exception))

    def test_no_labels(self):
        none = [{**r, "labels": np.full(8, -1)} for r in rows(16)]
        with run("none", {"train": none, "val": none, "test": none}) as r:
            history = r.fit()
            self.assertTrue(history["loss"] and np.isnan(history["loss"]).all())
            self.assertTrue(history["val_loss"] and np.isnan(history["val_loss"]).all())
            self.assertTrue(np.isnan(r.validate()["val_loss"]))
            self.fails("no label of the split 'test' counts", r.test)
        run("none-2", none, trainer__max_steps=2).fit()
        self.assertEqual(weights("none"), weights("none-2"))


class Numbers(unittest.TestCase):
    """task.kind=regress: a label that is a number."""

    KEYS = {"model.kind": "gpt2", "trainer.batch_size": 8, "trainer.max_steps": 40, "optimizer.lr": 3e-3}

    @staticmethod
    def rows(n=32):
        return [{"ids": x, "length": 8, "label": float(x[0]) / 2} for x in np.random.default_rng(1).integers(0, 10, (n, 8))]

    def test_trains_and_scores(self):
        rows = self.rows()
        with run("numbers", {"train": rows, "val": rows[:8]}, **self.KEYS) as r:  # the task follows from the label
            history = r.fit()
        self.assertLess(history["loss"][-1], history["loss"][0])
        self.assertEqual(history["val_loss"], history["val_mse"])
        self.assertIn("val_pearson", history)
        with levin.load("runs/numbers") as m:
            self.assertEqual(m.logits(rows[0]["ids"]).shape, (1,))

    def test_wrong_labels(self):
        rows = self.rows()
        rows[3]["label"] = float("nan")
        with self.assertRaisesRegex(levin.InputError, "sample 3 of train: 'label' holds -?nan; a finite number is expected"):
            run("nan", rows, **self.KEYS).fit()
        whole = [{**r, "label": 1} for r in self.rows()]
        with self.assertRaisesRegex(levin.InputError, "learns from 'label' of fp32, and data.kind=program has int32 there: "
                                                      "give task__kind='classify'"):
            run("whole", whole, task__kind="regress", **self.KEYS).fit()
        with self.assertRaisesRegex(levin.InputError, "has fp32 there: give task__kind='regress'"):
            run("real", self.rows(), task__kind="classify", **self.KEYS).fit()

    def test_predictions(self):
        Path("numbers.tsv").write_text("text\tlabel\n" + "good film\t1.5\nbad film\t-1.5\n" * 8, encoding="utf-8")
        vocabulary = str(Path(os.environ["LEVIN_SOURCE"]) / "tests/golden/tokenizers/tiny-bert")
        replace = [{"pattern": "[\U0001f600-\U0001f64f\\\\\"']+", "with": ""}, {"pattern": r"(o)\1", "with": r"\1\1"},
                   {"pattern": "^(good|bad)!", "with": "\\1"}]
        levin.Run(run_dir="runs/texts", progress=False,
                  data={"path": "numbers.tsv", "tokenizer": vocabulary, "replace": replace},
                  model={"kind": "bert", "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16},
                  trainer={"max_steps": 4, "batch_size": 4}, task__kind="regress").fit()
        with levin.load("runs/texts") as m:
            p = m.predict(["good film", "bad film"])
            self.assertEqual((p.label, p.name, p.probabilities, p.number.shape), (None, None, None, (2,)))
            same = m.predict(["good! \U0001f600film\\", "\"bad\U0001f64f film'"])
            self.assertEqual(p.number.tolist(), same.number.tolist())
            self.assertEqual(set(m.evaluate(data__split="all").metrics), {"loss", "mse", "mae", "r2", "pearson"})


if __name__ == "__main__":  # the ranks of a test import this file
    scenes.main()
