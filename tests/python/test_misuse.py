# test_misuse.py - covers python/levin against use after close, copies, calls from callbacks, threads and forks, signals.
# label: user
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import levin
import numpy as np
import scenes
from scenes import VERSE, losses, run, weights


class OnStep(levin.Callback):
    """Calls a function at step 3."""

    def __init__(self, call):
        self.call = call

    def on_step(self, run, event):
        if event.step == 3:
            self.call(run)


def in_thread(call):
    """What a call in another thread raises; None: nothing."""
    raised = []

    def work():
        try:
            call()
        except BaseException as e:  # noqa: BLE001
            raised.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def script(text, **variables):
    """Run a script in another interpreter; returns its status and its output."""
    path = os.environ["PYTHONPATH"] + ":" + str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-X", "dev", "-c", "import levin, os, scenes, signal, sys, threading\n" + text],
                          env={**os.environ, "PYTHONPATH": path, **variables}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run("model").fit()

    def test_arrays_outlive_the_model(self):
        with levin.load("runs/model") as m:
            kept = m.parameters()
            before = {k: np.array(v) for k, v in kept.items()}
        with levin.load("runs/model") as other:  # whose memory could be where that of the closed one was
            other.generate("the owl", max_new_tokens=10)
        for name, array in kept.items():
            self.assertTrue(np.array_equal(array, before[name]), name)
            if array.flags.writeable:
                array[...] = 0
        with self.assertRaisesRegex(levin.InputError, "is closed"):
            m.parameters()

    def test_loaded_before_the_current_folder_changes(self):
        here, m, text = os.getcwd(), levin.load("model", data__path=os.path.abspath("verse.txt")), "the owl"
        expected = m.evaluate().loss, m.generate(text, 5)
        Path("changed").mkdir()
        try:
            os.chdir("changed")
            self.assertEqual((m.evaluate().loss, m.generate(text, 5)), expected)
        finally:
            os.chdir(here)

    def test_closed_while_it_generates(self):
        m = levin.load("runs/model")
        whole = m.generate("the owl", max_new_tokens=40, seed=3)
        pieces = []
        for piece in m.generate("the owl", max_new_tokens=40, seed=3, stream=True):
            pieces.append(piece)
            m.close()
        self.assertEqual("".join(pieces), whole)
        m = levin.load("runs/model")
        stream = m.generate("the owl", max_new_tokens=10**8, stream=True)  # of which the end is not waited for
        next(stream)
        self.assertIsNone(in_thread(m.close))
        stream.close()

    def test_not_copied(self):
        r = run("copied")
        for thing in (levin.load("runs/model"), r, r.settings):
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(levin.InputError, "cannot be copied or pickled"):
                    call(thing)
        seen = []
        run("events", trainer__max_steps=3, callbacks=OnStep(lambda r: seen.append(copy.deepcopy(r._event)))).fit()
        self.assertEqual(pickle.loads(pickle.dumps(seen[0])).step, 3)

    def test_bytes_that_are_no_text(self):
        s, path = levin.Settings(), os.fsdecode(b"caf\xe9.txt")
        s.put({"data.path": path})
        self.assertEqual(s["data.path"], path)
        self.assertIn(path, repr(s))

    def test_arguments(self):
        m = levin.load("runs/model")
        for text, keys in (("temperature is nan", {"temperature": float("nan")}), ("temperature is -1", {"temperature": -1}),
                           ("temperature is inf", {"temperature": float("inf")}), ("top_k is -1", {"top_k": -1}),
                           ("top_p is 1.5", {"top_p": 1.5}), ("top_p is nan", {"top_p": float("nan")}),
                           ("max_new_tokens is 9223372036854775808", {"max_new_tokens": 2**63}),
                           ("-1 new tokens", {"max_new_tokens": -1}), ("the number of the sample is -1", {"number": -1}),
                           ("max_new_tokens must be a whole number, not 1.5", {"max_new_tokens": 1.5}),
                           ("temperature must be a number, not 'hot'", {"temperature": "hot"}),
                           ("seed is 18446744073709551616", {"seed": 2**64})):
            with self.assertRaises(levin.InputError) as caught:
                m.generate("the owl", **keys)
            self.assertIn(text, str(caught.exception))
        for text, call in (("limit is -1", lambda: m.evaluate(limit=-1)), ("half of a surrogate pair", lambda: m.encode("\ud800")),
                           ("token 0 of row 0 is -1", lambda: m.logits([-1])), ("is not a token", lambda: m.decode([-1])),
                           ("is not a token", lambda: m.decode([10**6])), ("ids must have 1 dimension", lambda: m.decode([[1]]))):
            with self.assertRaises(levin.InputError) as caught:
                call()
            self.assertIn(text, str(caught.exception))
        ids = np.arange(16, dtype=np.int64)[::2]  # not contiguous
        self.assertTrue(np.array_equal(m.logits(ids), m.logits(np.array(ids))))

    def test_threads_take_turns(self):
        m = levin.load("runs/model")
        whole = [m.generate("the owl", max_new_tokens=20, seed=s) for s in range(4)]
        got = [None] * 4
        threads = [threading.Thread(target=lambda s=s: got.__setitem__(s, m.generate("the owl", max_new_tokens=20, seed=s)))
                   for s in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, whole)


class Runs(unittest.TestCase):
    CALLS = ("close", "end", "fit", "open_again", "steps", "generate", "test", "save", "validate", "log")

    @staticmethod
    def call(r, name):
        if name == "steps":
            return next(r.steps())
        if name == "open_again":
            return run("another").open()
        return r.log("mine", 1.0) if name == "log" else getattr(r, name)()

    def test_from_a_callback(self):
        run("alone").fit()
        for name in self.CALLS[:7]:
            r = run("called-" + name, callbacks=OnStep(lambda r: self.call(r, name)))
            with self.assertRaises(levin.InputError) as caught:
                r.fit()
            self.assertRegex(str(caught.exception), "within a callback|is open in this process")
            self.assertTrue(Path(f"runs/called-{name}/checkpoints/step-3").is_dir(), name)
            with self.assertRaisesRegex(levin.InputError, "the run has ended: a callback raised InputError"):
                r.fit()
            r.close()
            self.assertEqual(levin.Run(f"called-{name}", resume=True, progress=False).fit()["step"][0], 4)
            self.assertEqual(weights("called-" + name), weights("alone"))

    def test_from_a_second_thread(self):
        run("undisturbed").fit()
        raised = {}

        def disturb(r):
            for name in self.CALLS:
                raised[name] = in_thread(lambda name=name: self.call(r, name))

        run("disturbed", callbacks=OnStep(disturb)).fit()
        for name in self.CALLS:
            self.assertIsInstance(raised[name], levin.InputError, name)
            self.assertRegex(str(raised[name]), "another thread is in fit|is open in this process", name)
        self.assertEqual(losses("disturbed"), losses("undisturbed"))

    def test_log_within_on_log(self):
        class Logs(levin.Callback):
            def on_log(self, run, event):
                run.log("more", 1.0)

        with self.assertRaisesRegex(levin.InputError, "cannot log more of them on the event LOG"):
            with run("logs", callbacks=Logs()) as r:
                r.log("mine", 1.0)

    def test_stopped_before_it_is_open(self):
        r = run("early")
        r.stop()
        self.assertEqual(r.fit(), {})
        self.assertIn("stopped on request after step 0", r.end_reason)

    def test_a_failed_open_is_no_end(self):
        run("there", trainer__max_steps=2).fit()
        r = run("there")
        for _ in range(2):
            with self.assertRaisesRegex(levin.InputError, "continue it with resume=True, replace it with overwrite=True"):
                r.fit()
        self.assertEqual(run("there", overwrite=True, trainer__max_steps=2).fit()["step"], [1, 2])

    def test_closed(self):
        r = run("closed", trainer__max_steps=2)
        r.fit()
        r.close()
        for name in ("fit", "steps", "save", "validate", "generate", "log"):
            if name in ("fit", "steps"):
                continue  # all steps are done
            with self.assertRaisesRegex(levin.InputError, "the run is closed"):
                self.call(r, name)
        r.close()
        r.end()
        r.stop()
        self.assertEqual(r.step, 2)

    def test_another_current_folder(self):
        """An open run stays in its folder: nothing is written to the new one, or read from it."""
        here, away = os.getcwd(), Path("away")
        away.mkdir()
        keys = {"logger__report": True, "logger__tensorboard": True, "sample__every_n_steps": 5, "checkpoint__every_n_steps": 4}
        run("alone-there", **keys).fit()
        r = run("stays", **keys)
        next(r.steps())
        try:
            os.chdir(away)
            self.assertEqual(r.fit()["step"][-1], 20)
            r.close()
            self.assertEqual(os.listdir("."), [])
        finally:
            os.chdir(here)
        self.assertEqual(weights("stays"), weights("alone-there"))
        files = [sorted(p.name for p in Path("runs", name).rglob("*") if "tfevents" not in p.name) for name in ("stays", "alone-there")]
        self.assertEqual(*files)

    def test_data_and_model_after_another_current_folder(self):
        """Evaluations read the files that the run was opened with, even if the new folder has some of the same names."""
        here, away = os.getcwd(), Path("elsewhere")
        (away / "runs/base").mkdir(parents=True)
        run("base", trainer__max_steps=2).fit()
        Path("val.txt").write_text(20 * VERSE[:70])
        for name, more in (("from-base", {"model.init": "runs/base"}), ("by-name", {"model.init": "base"}), ("plain", {})):
            with run(name, trainer__max_steps=2, data__val_path="val.txt", **more) as r:
                r.fit()
                expected = r.validate()
                try:
                    os.chdir(away)
                    for there in ("nothing", "other files"):
                        self.assertEqual(r.validate(), expected, (name, there))
                        for file in ("verse.txt", "val.txt"):
                            Path(file).write_text("the owl\n" * 200)
                finally:
                    os.chdir(here)
                for file in ("verse.txt", "val.txt"):
                    (away / file).unlink()

    def test_shards_after_another_current_folder(self):
        """Shards are opened when they are read."""
        here = os.getcwd()
        for folder in ("shards", "without-shards"):
            Path(folder).mkdir()
        for i in range(70):  # more than are open at a time
            (np.arange(400, dtype=np.uint16) % (3 + i % 40)).tofile(f"shards/train-{i:05d}.bin")
        (np.arange(400, dtype=np.uint16) % 7).tofile("shards/val-00000.bin")
        more = {"data.kind": "tokens", "data.path": "shards", "model.vocab_size": 50, "trainer__max_steps": 200}
        run("sharded-there", **more).fit()
        with run("sharded", **more) as r:
            next(r.steps())
            try:
                os.chdir("without-shards")
                self.assertEqual(r.fit()["step"][-1], 200)
            finally:
                os.chdir(here)
        self.assertEqual(weights("sharded"), weights("sharded-there"))

    def test_steps_after_an_early_end(self):
        """They are refused, so that a run that was cut does not look complete."""
        for name, reason in (("close", "it was closed"), ("end", "its program has ended it")):
            r = run("early-" + name)
            with self.assertRaisesRegex(levin.InputError, "the run is not open"):
                r.end()
            next(r.steps())
            self.call(r, name)
            with self.assertRaisesRegex(levin.InputError, f"the run has ended: {reason}; create a new levin.Run, with resume=True"):
                r.fit()
            r.close()

    def test_a_run_without_references(self):
        """It does not keep another run from opening, as when a notebook's cell runs twice."""
        r = run("forgotten")
        next(r.steps())
        r = run("second")
        self.assertEqual(next(r.steps()).step, 1)
        r.close()
        self.assertEqual(levin.Run("forgotten", resume=True, progress=False).fit()["step"][0], 2)

    def test_a_run_without_references_on_another_thread(self):
        """The garbage collector finds it in a thread of the library, which cannot close it: the next run or the end of the
        process does."""
        for name, last in (("next", "scenes.run('after', trainer__max_steps=2).fit()"), ("exit", "")):
            code, out = script(f"""
import gc
main, dropped, collected = threading.get_ident(), threading.Event(), threading.Event()
class Rows(list):
    n = 0
    def __getitem__(self, i):
        if threading.get_ident() != main:
            Rows.n += 1
            if Rows.n == 5:  # of the second batch
                dropped.wait(60)
                gc.collect()
                collected.set()
        return super().__getitem__(i)
def train():
    data = Rows({{"ids": [i % 7] * 8, "labels": [i % 5] * 8}} for i in range(40))
    r = levin.Run(None, data=data, name="dropped-{name}", progress=False, model__n_layer=1, model__n_head=2, model__n_embd=16,
                  trainer__batch_size=4, trainer__max_steps=9, logger__report=False)
    assert next(r.steps()).step == 1
gc.disable()
train()
dropped.set()
assert collected.wait(60)
{last}
""")
            self.assertEqual((code, out), (0, ""), name)
            r = levin.Run(f"dropped-{name}", resume=True, progress=False,
                          data=[{"ids": [i % 7] * 8, "labels": [i % 5] * 8} for i in range(40)])
            with r:
                self.assertEqual(r.open().step, 1)


class Processes(unittest.TestCase):
    def test_forked(self):
        code, out = script("""
scenes.run("forked", trainer__max_steps=2).fit()
m = levin.load("runs/forked")
m.generate("the", max_new_tokens=2)
r = scenes.run("open")
next(r.steps())
if (child := os.fork()) == 0:
    for call in (r.save, r.fit, r.close, lambda: m.generate("the", max_new_tokens=2), m.parameters):
        try:
            call()
            os._exit(1)
        except levin.InputError as e:
            assert "was forked from process" in str(e), e
    del m
    sys.exit(0)
status = os.waitpid(child, 0)[1]
assert status == 0, status
m.generate("the", max_new_tokens=2)
print(r.fit()["step"][-1])
""")
        self.assertEqual((code, out), (0, "20\n"))

    def test_open_at_exit(self):
        """A run is saved, in the main thread and in a thread that the interpreter does not wait for."""
        for name, text in (("main", "next(r.steps())\nnext(r.steps())\n"), ("daemon", """
begun = threading.Event()
class Says(levin.Callback):
    def on_step(self, run, event):
        begun.set()
r.callbacks.append(Says())
threading.Thread(target=r.fit, daemon=True).start()
begun.wait()
""")):
            code, out = script(f'r = scenes.run("exit-{name}", trainer__max_steps=1000000)\n{text}')
            self.assertEqual((code, out), (0, ""), name)
            step = levin.Run(f"exit-{name}", resume=True, progress=False).open()
            self.assertGreater(step.step, 0)
            step.close()

    def test_a_stream_at_exit(self):
        code, out = script("""
scenes.run("stream", trainer__max_steps=2).fit()
it = levin.load("runs/stream").generate("the", max_new_tokens=10**8, stream=True)
next(it)
kept = levin.load("runs/stream").parameters()
""")
        self.assertEqual((code, out), (0, ""))


class Signals(unittest.TestCase):
    def setUp(self):
        if not Path("runs/signals").exists():
            run("signals", trainer__max_steps=2).fit()
        # Python itself discards what a signal raises in a finalizer, so those of the tests before must not run in here.
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    @staticmethod
    def later(seconds):
        """SIGINT in so many seconds, whatever the main thread does then."""
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        return timer

    @staticmethod
    def wait():
        while True:
            time.sleep(0.01)

    def test_steps(self):
        """Each of 40 signals is raised, and none of them costs a step."""
        keys = {"trainer__max_steps": 600, "trainer__val_check_interval": 0}
        run("uninterrupted", **keys).fit()
        caught = 0
        with run("interrupted", **keys) as r:
            for i in range(40):
                try:
                    self.later(0.0002 * i)
                    for _ in r.steps():
                        pass
                    self.wait()  # all steps are done before the signal
                except KeyboardInterrupt:
                    caught += 1
            for _ in r.steps():
                pass
        self.assertEqual(caught, 40)
        self.assertEqual(weights("interrupted"), weights("uninterrupted"))

    def test_open(self):
        """A signal while a run opens: the run is not open, and can be opened; or it is open, and can be used."""
        for i in range(10):
            r = run(f"opens-{i}", trainer__max_steps=2)
            with self.assertRaises(KeyboardInterrupt):
                self.later(0.002 * i)
                r.open()
                self.wait()
            self.assertEqual(r.fit()["step"], [1, 2])
            r.close()

    def test_models(self):
        Path("long.txt").write_text(1000 * VERSE)
        with levin.load("runs/signals") as m:
            for call in (lambda: m.generate("the owl", max_new_tokens=10**8),
                         lambda: [*m.generate("the owl", max_new_tokens=10**8, stream=True)],
                         lambda: (m.evaluate(data__path="long.txt", data__split="all"), self.wait()),
                         lambda: [m.logits([0] * 16) for _ in iter(int, 1)]):
                with self.assertRaises(KeyboardInterrupt):
                    self.later(0.05)
                    call()
                self.assertEqual(len(m.generate("the owl", max_new_tokens=5)), 5)
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_a_run_that_is_asked(self):
        with run("asked", sample__max_new_tokens=10**8) as r:
            next(r.steps())
            with self.assertRaises(KeyboardInterrupt):
                self.later(0.05)
                r.generate("the owl")
            self.assertEqual([e.step for e in r.steps()], list(range(2, 21)))

    def test_fit(self):
        class Later(levin.Callback):
            def on_start(self, run, event):
                Signals.later(0.05)

        r = run("fits", trainer__max_steps=10**6, callbacks=Later())
        with self.assertRaisesRegex(levin.StoppedError, "stopped on request"):
            r.fit()
        with self.assertRaisesRegex(levin.InputError, "the run has ended: stopped on request"):
            r.fit()

    def test_a_handler_that_does_not_raise(self):
        """A signal handler of the program runs during a long call, which then continues."""
        seen = []

        def handler(*_):
            seen.append(1)
            if len(seen) == 3:
                raise KeyboardInterrupt  # to end the call
            self.later(0.01)

        before = signal.signal(signal.SIGINT, handler)
        try:
            with levin.load("runs/signals") as m:
                whole = m.generate("the owl", max_new_tokens=200, seed=1)
                with self.assertRaises(KeyboardInterrupt):
                    self.later(0.05)
                    m.generate("the owl", max_new_tokens=10**8)
                self.assertEqual(len(seen), 3)
                signal.signal(signal.SIGINT, lambda *_: seen.append(1))
                os.kill(os.getpid(), signal.SIGINT)
                timer = self.later(0.01)
                self.assertEqual(m.generate("the owl", max_new_tokens=200, seed=1), whole)
                timer.join()
        finally:
            signal.signal(signal.SIGINT, before)


scenes.main()
