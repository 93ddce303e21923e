# test_run.py - covers python/levin/run.py: runs have the bits of the command line, also by hand, stopped and resumed.
# label: user
import decimal
import fractions
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from unittest import mock

import levin
import numpy as np
import scenes
from scenes import losses, run, weights


class Counts(levin.Callback):
    def __init__(self):
        self.kinds = []

    def on_start(self, run, event):
        self.kinds.append(event)

    on_step = on_validation = on_checkpoint = on_sample = on_epoch = on_note = on_end = on_start


class Bits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scenes.train_by_program("cli")

    def same(self, name):
        self.assertEqual(weights(name), weights("cli"))
        self.assertEqual(losses(name), losses("cli"))

    def test_fit(self):
        history = run("fit").fit()
        self.same("fit")
        self.assertEqual(history["step"], list(range(1, 21)))
        self.assertEqual(history["val_step"], [10, 20])
        self.assertEqual(len(history["loss"]), 20)
        self.assertEqual([f"{x:.9g}" for x in history["loss"]], [r[1] for r in losses("cli")[1:] if r[1]])

    def test_by_hand_and_with_callbacks(self):
        seen = Counts()
        with run("hand", callbacks=seen) as r:
            for event in r.steps():
                self.assertEqual(r.step, event.step)
                if event.step == 5:
                    r.validate()
                    self.assertIn("the owl", r.generate("the owl"))
                if event.step == 7:
                    break  # and continue
            self.assertEqual([e.step for e in r.steps()], list(range(8, 21)))
        self.same("hand")
        kinds = [e.kind for e in seen.kinds]
        self.assertEqual((kinds[0], kinds[-1], kinds.count("step"), kinds.count("validation")), ("start", "end", 20, 2))
        self.assertIn("checkpoint", kinds)
        self.assertEqual(seen.kinds[-1].text, "all steps are done")
        self.assertEqual(seen.kinds[0].facts["run_dir"], "runs/hand")
        self.assertGreater(seen.kinds[0].facts["parameters"], 0)

    def test_stopped_and_resumed(self):
        class Stops(levin.Callback):
            def on_step(self, run, event):
                if event.step == 6:
                    run.stop()

        first = run("cut", callbacks=Stops())
        self.assertEqual(first.fit()["step"][-1], 6)
        self.assertEqual(first.end_reason, "stopped on request after step 6, which is saved")
        history = levin.Run("cut", resume=True, progress=False).fit()
        self.assertEqual(history["step"], list(range(7, 21)))
        self.same("cut")

    def test_a_complete_run(self):
        """Nothing is left to do, as on the command line: a script that starts again does not fail."""
        run("complete", trainer__max_steps=2).fit()
        before, seen = Path("runs/complete/metrics.jsonl").read_bytes(), Counts()
        r = levin.Run("complete", resume=True, progress=False, callbacks=seen)
        self.assertEqual((r.fit(), r.end_reason, r.step), ({}, "all of its steps were done before", 2))
        self.assertEqual([e.text for e in seen.kinds], ["nothing to do after step 2: all of its steps were done before"])
        self.assertIn("val_loss", r.validate())
        r.save()
        with self.assertRaisesRegex(levin.InputError, "has not begun, or has ended"):
            r.log("mine", 1)
        r.close()
        self.assertEqual(Path("runs/complete/metrics.jsonl").read_bytes(), before)
        r = levin.Run("complete", resume=True, progress=False)
        r.open().end()
        self.assertEqual(r.end_reason, "all of its steps were done before")
        keys = {"early_stopping.monitor": "val_loss", "early_stopping.patience": 1, "early_stopping.min_delta": 10}
        run("early", trainer__val_check_interval=2, **keys).fit()
        r = levin.Run("early", resume=True, progress=False)
        self.assertEqual(r.fit(), {})
        self.assertTrue(r.end_reason.startswith("early stopping: val_loss did not improve"), r.end_reason)

    def test_requests(self):
        class Asks(levin.Callback):
            def on_step(self, run, event):
                return {3: ("save", "validate"), 8: "stop"}.get(event.step)

        r = run("asks", callbacks=Asks())
        history = r.fit()
        self.assertEqual(history["val_step"], [4])  # carried out with the next step
        self.assertEqual(history["step"][-1], 9)
        self.assertTrue(Path("runs/asks/checkpoints/step-4").is_dir())
        self.assertEqual(r.end_reason, "a callback of the program asked to stop")

    def test_log_before_the_start(self):
        """A note may come before the run has begun to write."""
        class Notes(levin.Callback):
            def on_note(self, run, event):
                run.log("mine", 1)

        run("noted", trainer__max_steps=2, trainer__val_check_interval=1, checkpoint__top_k=2).fit()
        Path("runs/noted/checkpoints/step-2/model.safetensors").write_text("damaged")
        with self.assertRaisesRegex(levin.InputError, "has not begun, or has ended"):
            levin.Run("noted", resume=True, callbacks=Notes(), progress=False).fit()

    def test_loggers(self):
        """Each scalar reaches the packages; a package that is missing is known before the run begins."""
        wandb, mlflow = mock.Mock(), mock.Mock()
        with mock.patch.dict(sys.modules, wandb=wandb, mlflow=mlflow):
            run("logs", callbacks=[levin.loggers.WandbLogger(project="mine"), levin.loggers.MLflowLogger("mine")]).fit()
        self.assertEqual(wandb.init.call_args.kwargs["name"], "logs")
        rows = wandb.init.return_value.log.call_args_list
        self.assertEqual(len([c for c in rows if "loss" in c.args[0]]), 20)
        self.assertEqual([c.kwargs["step"] for c in rows if "val_loss" in c.args[0]], [10, 20])
        self.assertEqual([c.args[0] for c in mlflow.log_metrics.call_args_list], [c.args[0] for c in rows])
        wandb.init.return_value.finish.assert_called_once()
        mlflow.end_run.assert_called_once()
        with mock.patch.dict(sys.modules, wandb=None, mlflow=None):
            for logger in levin.loggers.WandbLogger, levin.loggers.MLflowLogger:
                self.assertRaises(ImportError, logger)

    def test_a_validation_requested_at_an_epoch(self):
        class Asks(levin.Callback):
            epochs = []

            def on_epoch(self, run, event):
                self.epochs.append(event.step)
                return "validate"

        history = run("epochs", callbacks=Asks(), trainer__batch_size=64, trainer__val_check_interval=100,
                      trainer__max_steps=12).fit()
        self.assertGreater(len(Asks.epochs), 1)
        self.assertEqual(history["val_step"], sorted({*Asks.epochs, 12}))


class Failures(unittest.TestCase):
    def fails(self, kind, text, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_sentences_of_python(self):
        """Options of the command line are arguments here; what levin was doing, and what else helps, are notes."""
        run("again", trainer__max_steps=1).fit()
        self.fails(levin.InputError, "continue it with resume=True, replace it with overwrite=True", lambda: run("again").open())
        with self.assertRaises(levin.FaultError) as caught:
            run("fetched", data__path="absent.txt", data__url="http://127.0.0.1:9/absent.txt").open()
        notes = caught.exception.__notes__ if hasattr(caught.exception, "add_note") else [str(caught.exception)]
        self.assertIn("you can also copy the file to 'absent.txt' yourself", "".join(notes))
        self.assertIn("fetching data__path", "".join(notes).replace("data.path", "data__path"))

    def test_a_callback_raises_and_the_disk_is_full(self):
        class Raises(levin.Callback):
            def on_step(self, run, event):
                Path("runs/full/checkpoints").write_text("")  # no folder can be made here
                raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine") as caught:
            run("full", callbacks=Raises()).fit()
        e = caught.exception
        self.assertIn("checkpoints", "".join(e.__notes__) if hasattr(e, "add_note") else str(e.__cause__))

    def test_a_run_to_continue(self):
        run("settled", trainer__max_steps=1).fit()
        self.fails(levin.InputError, "'settled' is the run to continue, and run_dir names another folder",
                   lambda: levin.Run("settled", resume=True, run_dir="runs/other"))
        self.fails(levin.InputError, "the run 's3://bucket/run' is in a store: `levin train s3://bucket/run --resume`",
                   lambda: levin.Run("s3://bucket/run", resume=True))
        with mock.patch.dict(os.environ, LEVIN_OPTIMIZER_LR="0.5"), self.assertWarnsRegex(UserWarning, "LEVIN_OPTIMIZER_LR is ignored"):
            levin.Run("settled", resume=True)

    def test_a_path_as_data(self):
        for path in ("some.txt", pathlib.Path("some.txt")):
            self.assertEqual(levin.Run(data=path).settings["data.path"], "some.txt")

    def test_values(self):
        for value, text in ((decimal.Decimal("0.5"), "0.5"), (fractions.Fraction(1, 4), "0.25"), (np.float32(0.5), "0.5")):
            self.assertEqual(float(run("x", optimizer__lr=value).settings["optimizer.lr"]), float(text))
        self.assertEqual(run("x", trainer__deterministic=np.bool_(True)).settings["trainer.deterministic"], "true")
        self.assertEqual(run("x", model__freeze=["h.0", "h.*.mlp"]).settings["model.freeze"], "h.0, h.*.mlp")
        for name in ("a b", "a,b", "a\nb", "it's", ""):
            self.fails(levin.InputError, "must be names separated by commas", lambda: run("x", model__freeze=["h.0", name]))

    def test_wrong_keys(self):
        self.fails(levin.InputError, "did you mean 'optimizer.lr'?", lambda: run("x", optimizer__lrr=1))
        self.fails(ValueError, "optimizer.lr", lambda: run("x", optimizer__lr="ten"))
        self.fails(levin.InputError, "optimizer.lr must be a number, a string, a bool or a list of these, not object",
                   lambda: run("x", optimizer__lr=object()))
        self.fails(levin.InputError, "a list of these, not ndarray", lambda: run("x", optimizer__lr=np.zeros(2)))
        self.fails(levin.InputError, "optimizer.groups, entry 2 (ln_f): give lr, weight_decay, betas or kind",
                   lambda: run("x", optimizer={"groups": [{"match": ["wte", "wpe"], "lr": 0.0}, {"match": "ln_f"}]}))
        self.fails(levin.InputError, "there is no recipe 'none.yaml'", lambda: levin.Run("none.yaml"))
        self.fails(levin.InputError, "give only one of them", lambda: run("x", resume=True, overwrite=True))
        self.fails(levin.InputError, "callbacks must be objects of levin.Callback, not int",
                   lambda: run("x", callbacks=[1]))
        self.fails(levin.InputError, "must be objects of levin.Callback, not <class", lambda: run("x", callbacks=Counts))
        self.assertEqual(run("x", callbacks=None).callbacks, [])
        self.fails(levin.InputError, "there is no run or recipe 'gone'", lambda: levin.Run("gone", resume=True))
        with self.assertRaises(levin.InputError) as both:
            run("x", optimizer__lr="ten", trainer__max_steps="many")
        self.assertEqual(len(str(both.exception).splitlines()), 2)
        self.fails(levin.FaultError, "cannot open 'none.txt'", run("x", data__path="none.txt").fit)

    def test_one_run_at_a_time(self):
        with run("first") as first:
            first.open()
            self.fails(levin.InputError, "the run 'runs/first' is open in this process", run("second").open)
            self.assertEqual(next(first.steps()).step, 1)
        ended = run("ended")
        ended.fit()
        self.assertIn("val_loss", ended.validate())
        run("after").fit()  # a run that has ended is closed for the next one
        self.fails(levin.InputError, "the run is closed", ended.validate)
        self.fails(levin.InputError, "already contains a run", run("ended").fit)
        run("ended", overwrite=True).fit()

    def test_fork(self):
        script = ("import os, scenes, levin\n"
                  "r = scenes.run('forked').open()\n"
                  "pid = os.fork()\n"
                  "if pid == 0:\n"
                  "    for call in (lambda: next(r.steps()), r.save, scenes.run('child').open):\n"
                  "        try: call()\n"
                  "        except levin.InputError as e: assert 'was forked from process' in str(e), e\n"
                  "        else: os._exit(1)\n"
                  "    os._exit(0)\n"
                  "assert os.waitpid(pid, 0)[1] == 0\n"
                  "assert len(list(r.steps())) == 20\n")
        self.python(script)

    def python(self, script, **more):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"] + ":" + str(Path(__file__).parent),
                                   **more})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_interpreter_ends_with_an_open_run(self):
        self.python("import scenes\nr = scenes.run('left').open()\nfor e in r.steps():\n    if e.step == 3: break\n")
        self.assertTrue(Path("runs/left/checkpoints/step-3").is_dir())

    def test_run_of_another_process(self):
        script = ("import scenes, sys\n"
                  "r = scenes.run('busy').open()\n"
                  "print('open', flush=True); sys.stdin.readline(); r.close()\n")
        path = os.environ["PYTHONPATH"] + ":" + str(Path(__file__).parent)
        with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": path}) as other:
            self.assertEqual(other.stdout.readline(), "open\n")
            with self.assertRaises(levin.Error) as busy:
                run("busy", resume=True).open()
            self.assertIn("runs/busy", str(busy.exception))
            self.assertIn(str(other.pid), str(busy.exception))
            other.communicate("\n")

    def test_callback_that_raises(self):
        class Raises(levin.Callback):
            def on_step(self, run, event):
                if event.step == 7:
                    raise ZeroDivisionError("seven")

        with self.assertRaisesRegex(ZeroDivisionError, "seven"):
            run("raises", callbacks=Raises()).fit()
        self.assertTrue(Path("runs/raises/checkpoints/step-7").is_dir())

    def test_callback_that_returns_nonsense(self):
        class Nonsense(levin.Callback):
            def on_step(self, run, event):
                return 17

        self.fails(levin.InputError, "Nonsense.on_step() returned 17: a callback returns None",
                   run("nonsense", callbacks=Nonsense()).fit)

    def test_interrupt(self):
        class Interrupts(levin.Callback):
            def on_step(self, run, event):
                if event.step == 4:
                    os.kill(os.getpid(), signal.SIGINT)

            def on_checkpoint(self, run, event):
                kinds.append(event.kind)

            on_validation = on_checkpoint

        kinds = []  # a validation may last longer than the time until a stopped process is killed
        with self.assertRaises(levin.StoppedError) as stopped:
            run("interrupted", callbacks=Interrupts(), trainer__val_check_interval=4).fit()
        self.assertEqual(kinds, ["checkpoint", "validation", "checkpoint"])
        self.assertEqual(str(stopped.exception), "stopped on request after step 4, which is saved")
        self.assertTrue(Path("runs/interrupted/checkpoints/step-4").is_dir())
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_other_threads_run(self):
        turns, over = [0], threading.Event()

        def count():
            while not over.is_set():
                turns[0] += 1
                over.wait(0.001)

        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        with run("threads", trainer__max_steps=10**5) as r:
            before = turns[0]
            for _ in r.steps():
                if turns[0] > before:
                    break
            else:
                self.fail("no other thread has run")
        over.set()
        thread.join()


class Settings(unittest.TestCase):
    def test_describe(self):
        rows = levin.describe()
        self.assertEqual(rows["optimizer.lr"].type, "float")
        self.assertEqual(rows["optimizer.lr"].default, "3e-4")
        self.assertIn("cosine", rows["schedule.kind"].choices)
        self.assertTrue(rows["data.kind"].fixed)
        self.assertTrue(all(r.help and r.type for r in rows.values()))

    def test_sources(self):
        Path("recipe.yaml").write_text("optimizer: {lr: 0.5, eps: 1e-7}\ndata: {path: verse.txt}\n")
        os.environ["LEVIN_OPTIMIZER_EPS"] = "1e-6"
        try:
            s = levin.Run("recipe.yaml", optimizer={"lr": 0.25}, **{"trainer.seed": 7}).settings
            d = levin.Run({"optimizer": {"lr": 0.5, "eps": 1e-7}, "data": {"path": "verse.txt"}}).settings
        finally:
            del os.environ["LEVIN_OPTIMIZER_EPS"]
        self.assertEqual((s["optimizer.lr"], s["optimizer.eps"], s["trainer.seed"]), ("0.25", "1e-06", "7"))
        self.assertEqual(s.source("optimizer.eps"), "LEVIN_OPTIMIZER_EPS")
        self.assertEqual((d["optimizer.lr"], d["optimizer.eps"]), ("0.5", "1e-07"))
        self.assertEqual(s.source("data.path"), "recipe.yaml:2")
        self.assertEqual(s["name"], "recipe")
        self.assertIn("optimizer.lr: 0.25", repr(s))
        with self.assertRaisesRegex(KeyError, "did you mean 'optimizer.lr'"):
            s["optimizer.lrr"]


scenes.main()
