# test_model.py - covers python/levin/model.py: a loaded model has the results of the commands, as often as one likes.
import contextlib
import json
import unittest
import weakref
from pathlib import Path

import levin
import numpy as np
import scenes
from levin.model import read_safetensors
from scenes import program, run


class Language(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run("gpt", model__block_size=32, trainer__max_steps=30).fit()
        cls.m = levin.load("runs/gpt")

    def test_generate(self):
        options = dict(max_new_tokens=40, temperature=0.8, top_k=5, seed=3)
        said = program("generate", "runs/gpt", "--prompt=the owl", "--max-new-tokens=40", "--temperature=0.8", "--top-k=5",
                       "--seed=3")
        for _ in range(3):
            text = self.m.generate("the owl", **options)
            self.assertEqual("the owl" + text + "\n", said)
            self.assertEqual("".join(self.m.generate("the owl", stream=True, **options)), text)
        self.assertEqual(self.m.generate(self.m.encode("the owl"), **options), text)
        self.assertNotEqual(self.m.generate("the owl", number=1, **options), text)
        pieces = self.m.generate("the owl", stream=True, **options)
        self.assertTrue(text.startswith(next(pieces)))
        pieces.close()  # ends it
        self.assertEqual(self.m.generate("the owl", **options), text)

    def test_encode(self):
        ids = self.m.encode("the owl")
        self.assertEqual((ids.dtype, ids.shape), (np.int32, (7,)))
        self.assertEqual(self.m.decode(ids), "the owl")
        self.assertEqual(self.m.vocab_size, len(set(scenes.VERSE)))

    def test_logits(self):
        ids = self.m.encode("the owl and the")
        one = self.m.logits(ids)
        self.assertEqual((one.dtype, one.shape), (np.float32, (15, self.m.vocab_size)))
        np.testing.assert_allclose(self.m.logits(np.stack([ids, ids]))[1], one, rtol=1e-5, atol=1e-6)
        greedy = self.m.generate(ids, 1, temperature=0)
        self.assertEqual(self.m.decode([one[-1].argmax()]), greedy)

    def test_evaluate(self):
        said = json.loads(program("evaluate", "runs/gpt", "--json"))
        result = self.m.evaluate()
        self.assertEqual(result.loss, said["loss"])
        self.assertEqual(result.split, "val")
        self.assertEqual(result.metrics["perplexity"], np.exp(result.loss))
        self.assertLess(self.m.evaluate(limit=1).labels, result.labels)
        self.assertEqual(self.m.evaluate(trainer__limit_test_batches=1).labels, self.m.evaluate(limit=1).labels)
        self.assertLess(self.m.evaluate(trainer__limit_val_batches=0.5).labels, result.labels)

    def test_evaluate_tasks(self):
        rows = [{"q": "the owl and the " + w, "a": [" cat went", " green boat", " honey"], "gold": i % 3} for i, w in
                enumerate(["pussy", "pea", "money", "sea in a"])]
        Path("items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path("mini.yaml").write_text("task: mini\ndataset_path: json\ndataset_kwargs: {data_files: {test: items.jsonl}}\n"
                                     "test_split: test\noutput_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: a\n"
                                     "doc_to_target: gold\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n")
        said = json.loads(program("evaluate", "runs/gpt", "--tasks=mini.yaml", "--items=out.jsonl", "--json"))["tasks"]
        lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
        result = self.m.evaluate(tasks=Path("mini.yaml"), items=True)
        self.assertEqual([{"task": name, **values} for name, values in result.tasks.items()], said)
        self.assertEqual(result.items, lines)
        self.assertIsNone(result.core)
        short = self.m.evaluate(tasks=["mini.yaml"], limit=2)
        self.assertEqual((short.tasks["mini"]["items"], short.items), (2, None))
        self.assertEqual(self.m.evaluate(tasks="mini.yaml", limit=1, num_fewshot=1).tasks["mini"]["num_fewshot"], 1)
        for words, wrong in [("at least one task", dict(tasks=[])), ("no num_fewshot without tasks", dict(num_fewshot=1)),
                             ("no items without tasks", dict(items=True)), ("does not exist", dict(tasks="none.yaml")),
                             ("data__path has no effect", dict(tasks="mini.yaml", data__path="verse.txt")),
                             ("limit", dict(tasks="mini.yaml", limit=-1))]:
            with self.assertRaisesRegex(levin.InputError, words):
                self.m.evaluate(**wrong)

    def test_parameters(self):
        p = self.m.parameters()
        with open("runs/gpt/checkpoints/last/model.safetensors", "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        for name, array in p.items():
            self.assertEqual(list(array.shape), header[name]["shape"])
        wte = p["transformer.wte.weight"]
        before = self.m.logits([0, 1])
        wte[0, 0] += 1  # it shares the memory
        self.assertGreater(np.abs(self.m.logits([0, 1]) - before).max(), 0)
        self.assertEqual(self.m.parameters()["transformer.wte.weight"][0, 0], wte[0, 0])
        wte[0, 0] -= 1

    def test_gradients(self):
        g, p = self.m.gradients(), self.m.parameters()
        self.assertEqual({k: v.shape for k, v in g.items()}, {k: v.shape for k, v in p.items()})
        bias = p["transformer.ln_f.weight"]
        with levin.load("runs/gpt") as other:  # against a finite difference
            array = other.parameters()["transformer.ln_f.weight"]
            self.assertIsNot(array, bias)
        self.assertGreater(np.abs(g["transformer.ln_f.weight"]).max(), 0)

    def test_limits_of_a_run(self):
        run("few", model__block_size=32, trainer__max_steps=1, trainer__limit_test_batches=1).fit()
        one, every = {"trainer__limit_test_batches": 1}, {"trainer__limit_test_batches": 1.0}
        with levin.load("runs/few") as m:
            said = json.loads(program("evaluate", "runs/few", "--json"))
            self.assertEqual((m.evaluate().loss, m.evaluate().labels), (said["loss"], said["tokens"]))
            self.assertLess(said["tokens"], m.evaluate(**every).labels)
            name = "transformer.ln_f.weight"
            g = m.gradients()[name]  # of all batches, unless the caller gives a limit
            np.testing.assert_array_equal(g, m.gradients(**every)[name])
            self.assertFalse(np.array_equal(g, m.gradients(**one)[name]))
            program("evaluate", "runs/few", "--gradients=few.safetensors")
            np.testing.assert_array_equal(g, read_safetensors("few.safetensors")[name])

    def test_wrong(self):
        for text, call in (("ids must be whole numbers, not float64", lambda: self.m.logits([[1.5]])),
                           ("the vocabulary has the ids 0 to", lambda: self.m.logits([999])),
                           ("of 1 to 32 tokens", lambda: self.m.logits([0] * 33)),
                           ("ids must have 2 dimensions, not the shape (1, 1, 1)", lambda: self.m.logits([[[0]]])),
                           ("text must be a text, not int", lambda: self.m.encode(3)),
                           ("'Z'", lambda: self.m.generate("Z")),
                           ("the prompt is empty", lambda: self.m.generate("")),
                           ("no classes to predict", lambda: self.m.predict(["a"])),
                           ("did you mean 'trainer.accelerator'", lambda: levin.load("runs/gpt", trainer__acelerator=1))):
            with self.assertRaises(levin.InputError) as caught:
                call()
            self.assertIn(text, str(caught.exception))
        with self.assertRaisesRegex(levin.InputError, "there is no model 'nope'"):
            levin.load("nope")
        closed = levin.load("runs/gpt")
        closed.close()
        with self.assertRaisesRegex(levin.InputError, "is closed"):
            closed.logits([0])


class Classes(unittest.TestCase):
    def test_predict(self):
        Path("tokenizer").mkdir()
        Path("tokenizer/vocab.txt").write_text("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] good bad film dull".split()) + "\n")
        Path("reviews.tsv").write_text("document\tlabel\n" + "good film\t1\nbad dull film\t0\n" * 20)
        levin.Run(None, name="reviews", progress=False, data={"kind": "labelled", "path": "reviews.tsv",
                                                              "tokenizer": "tokenizer"},
                  model={"kind": "bert", "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8},
                  trainer={"max_steps": 10, "batch_size": 4}, task__kind="classify", logger__report=False).fit()
        texts = ["good film", "bad film", "dull", "good good good"]
        said = json.loads(program("predict", "runs/reviews", "--json", *(f"--text={t}" for t in texts)))["predictions"]
        with levin.load("runs/reviews") as m:
            for _ in range(2):
                got = m.predict(texts)
                self.assertEqual(got.probabilities.tolist(), [row["probabilities"] for row in said])
                self.assertEqual(got.label.tolist(), [row["label"] for row in said])
                self.assertEqual(got.name, [row["name"] for row in said])
            self.assertEqual(m.logits(m.encode("good film")).shape, (2,))
            result = m.evaluate()
            self.assertEqual(result.confusion.shape, (2, 2))
            self.assertEqual(result.confusion.sum(), result.samples)
            self.assertIn("accuracy", result.metrics)
            with self.assertRaisesRegex(levin.InputError, "needs at least one text"):
                m.predict([])
            with self.assertRaisesRegex(levin.InputError, "a second text for each text, but got 1 for 2 texts"):
                m.predict(["a", "b"], ["c"])
            with self.assertRaisesRegex(levin.InputError, "in a list or a column, not dict"):
                m.predict({"text": ["a", "b"]})
            for kind in (tuple, np.array):  # np.array as a pandas.Series: it has no truth value
                self.assertEqual(m.predict(kind(texts)).name, got.name)
                self.assertEqual(m.predict(kind(texts), kind(texts)).name, got.name)
            with self.assertRaisesRegex(levin.FaultError, "this bert classifies and does not generate text"):
                m.generate([1, 2])


class Half(unittest.TestCase):
    def test_bf16(self):
        run("bf16", trainer__precision="bf16-true").fit()
        with levin.load("runs/bf16") as m:
            a = m.parameters()["transformer.wte.weight"]
            self.assertIsInstance(a, levin.BFloat16Array)
            self.assertEqual(a.float32().dtype, np.float32)
            self.assertEqual(np.asarray(a).shape, a.shape)
            self.assertEqual(a.__dlpack_device__(), (1, 0))
            if not hasattr(np.ndarray, "__dlpack__"):
                self.skipTest("this numpy is older than 1.22 and exports no memory")
            for bits in a.bits, a.bits[:, ::2]:
                bits = np.array(bits).view(type("Bits", (np.ndarray,), {}))
                bits.flags.writeable = False
                kept, array = weakref.ref(bits), levin.BFloat16Array(bits)
                del bits
                capsule = array.__dlpack__()
                self.assertIn("dltensor", repr(capsule))
                with contextlib.suppress(Exception):
                    np.from_dlpack(array)  # refuses the type
                del array
                self.assertIsNotNone(kept())
                del capsule  # which nobody has used
                self.assertIsNone(kept())


scenes.main()
