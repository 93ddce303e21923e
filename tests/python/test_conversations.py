# test_conversations.py - covers python/levin/conversations.py and Model.chat(): lists of messages train as their file does, and
# answers are those of the command line.
import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import levin
import scenes

TEMPLATE = ("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")
ROWS = [{"messages": [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": f"yes, {i % 3}"}]} for i in range(40)]


def keys(**more):
    return {"data.tokenizer": "t", "model.kind": "llama", "model.n_layer": 1, "model.n_head": 2, "model.n_embd": 16,
            "model.block_size": 64, "trainer.batch_size": 4, "trainer.max_steps": 6, "checkpoint.every_n_steps": 0,
            "optimizer.lr": 1e-2, "logger.report": False, **{k.replace("__", "."): v for k, v in more.items()}}


def run(name, data, **more):
    given = {k: more.pop(k) for k in ("resume", "overwrite", "fields") if k in more}
    return levin.Run(None, progress=False, name=name, data=data, **given, **keys(**more))


class Conversations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["LEVIN_CACHE"] = str(Path("cache").resolve())
        Path("tmp").mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = str(Path("tmp").resolve())
        Path("t").mkdir()
        shutil.copy(Path(os.environ["LEVIN_SOURCE"]) / "tests/golden/tokenizers/tiny-llama3/tokenizer.json", "t")
        Path("t/tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "chat_template": TEMPLATE}))
        Path("rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS))
        scenes.program("train", "--quiet", "--name=file", "--data.kind=chat", "--data.path=rows.jsonl",
                       *(f"--{k}={v}" for k, v in keys().items()))

    def test_train(self):
        run("list", ROWS).fit()
        self.assertEqual(scenes.weights("list"), scenes.weights("file"))
        run("iterator", iter(ROWS)).fit()
        self.assertEqual(scenes.weights("iterator"), scenes.weights("file"))
        with run("splits", {"train": ROWS, "validation": ROWS[:5], "test": ROWS[:2]}, data__pack=True) as splits:
            history = splits.fit()
            folder = Path(splits.settings["data.val_path"]).parent
            self.assertTrue(folder.is_dir())
            self.assertGreater(history["loss"][0], history["loss"][-1])
            self.assertGreater(splits.validate()["val_loss"], 0)
        del splits
        gc.collect()
        self.assertFalse(folder.exists())

    def test_resume(self):
        run("parts", ROWS, trainer__max_steps=3).fit()
        levin.Run("parts", resume=True, progress=False, data=iter(ROWS), trainer__max_steps=6).fit()
        self.assertEqual(scenes.weights("parts"), scenes.weights("file"))
        with self.assertRaisesRegex(levin.InputError, "was trained on other data"):
            levin.Run("parts", resume=True, progress=False, data=ROWS[1:], trainer__max_steps=9).fit()

    def test_ranks(self):
        Path("ranks.py").write_text(f"import levin\nlevin.Run(None, progress=False, name='ranks', data={ROWS!r}, **{keys()!r}).fit()\n")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        ranks = [subprocess.Popen([sys.executable, "ranks.py"], stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2",
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for r in range(2)]
        for rank in ranks:
            errors = rank.communicate(timeout=600)[1]
            self.assertEqual(rank.returncode, 0, errors)
        self.assertTrue(Path("runs/ranks/checkpoints/last").exists())
        gc.collect()  # runs of other tests
        self.assertEqual(list(Path(tempfile.gettempdir()).glob(f"levin-conversations-{os.getuid()}-*")), [])

    def test_forms(self):
        for form in ({"prompt": "a", "completion": "b"}, {"instruction": "a", "output": "b"},
                     {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}):
            run("form", [form] * 20, overwrite=True, trainer__max_steps=1).fit()

    def test_refused(self):
        wrong = {"row 1 of train is a str": [ROWS[0], "x"], "row 1 of train cannot be written as JSON": [ROWS[0], {"messages": {1}}],
                 "row 0 of val is a int": {"train": ROWS, "val": [3]}}
        for message, data in wrong.items():
            with self.assertRaisesRegex(levin.InputError, message):
                run("no", data)
        with self.assertRaisesRegex(levin.InputError, "data.path is given, but the data of this run are conversations"):
            run("no", ROWS, data__path="rows.jsonl")
        with self.assertRaisesRegex(levin.Error, r"train.jsonl:3: message 1 has no content"):
            run("no", [*ROWS[:2], {"messages": [{"role": "user"}]}]).fit()

    def test_chat(self):
        m = levin.load("runs/file")
        row = {"messages": [{"role": "user", "content": "say 7"}]}
        Path("one.jsonl").write_text(json.dumps(row) + "\n")
        for options in ({}, {"temperature": 0.7, "top_k": 9, "seed": 5}, {"temperature": 1, "repetition_penalty": 1.5, "seed": 5}):
            words = [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
            said = json.loads(scenes.program("generate", "runs/file", "--chat=one.jsonl", "--max-new-tokens=20", "--json", *words))
            text = m.chat(row["messages"], 20, **options)
            self.assertEqual(text, said["samples"][0]["text"], options)
            self.assertEqual("".join(m.chat(row["messages"], 20, stream=True, **options)), text)
        self.assertEqual(m.chat(row["messages"], 0), "")
        # generation_config.json is used, and replaced by what is given
        folder = Path("runs/file/checkpoints/last").resolve()
        shutil.copytree(folder, "sampled")
        Path("sampled/generation_config.json").write_text('{"do_sample": true, "temperature": 3.0, "top_k": 0}')
        sampled = levin.load("sampled")
        self.assertNotEqual(sampled.chat(row["messages"], 20, seed=1), sampled.chat(row["messages"], 20, seed=2))
        self.assertEqual(sampled.chat(row["messages"], 20, temperature=0), m.chat(row["messages"], 20))
        self.assertEqual(m.generate("say", 5, temperature=0), m.generate("say", 5, temperature=0))

    def test_chat_refused(self):
        m, user = levin.load("runs/file"), {"role": "user", "content": "x"}
        wrong = [("message 2, the last one, is an answer already", [user, {"role": "assistant", "content": "y"}], {}),
                 ("message 1 has no content", [{"role": "user"}], {}), ("must be a list of dicts", "x", {}),
                 ("the conversation cannot be written as JSON", [{"role": "user", "content": {1}}], {}),
                 ("temperature is -1", [user], {"temperature": -1}), ("max_new_tokens is -1", [user], {"max_new_tokens": -1}),
                 ("neither a file nor a built-in template", [user], {"template": "chatm"}),
                 ("context has 64: leave out its first messages", [{"role": "user", "content": "word " * 80}], {})]
        for message, messages, options in wrong:
            with self.assertRaisesRegex(levin.InputError, message):
                m.chat(messages, **options)
        self.assertIsInstance(m.chat([user], 3), str)


scenes.main()
