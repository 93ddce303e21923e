# test_watch.py - covers python/levin/remote.py, live.py, notebook.py: scalars of one's own, metrics, runs elsewhere, what is drawn.
# label: user
import io
import json
import os
import socket
import subprocess
import time
import unittest
import warnings
import xml.dom.minidom
from pathlib import Path
from unittest import mock

import levin
import numpy as np
import scenes
from levin import curve, live, notebook, remote
from scenes import keys, losses, run, weights


class Logs(levin.Callback):
    def __init__(self):
        self.seen = []

    def on_step(self, run, event):
        if event.step % 5 == 0:
            run.log({"own/x": event.step / 10, "own/y": 1})
        if event.step == 7:
            run.log("late", np.float32(3.5))

    def on_log(self, run, event):
        self.seen.append((event.step, dict(event.scalars)))


class OwnScalars(unittest.TestCase):
    def test_log(self):
        logs = Logs()
        history = run("logged", callbacks=logs, logger__tensorboard=True).fit()
        run("plain").fit()
        self.assertEqual(weights("logged"), weights("plain"))
        own = [r for r in losses("logged") if r[1] or r[2]]  # without the rows of the own scalars
        self.assertEqual(own, losses("plain"))
        self.assertEqual((history["own/x_step"], history["own/x"]), ([5, 10, 15, 20], [0.5, 1, 1.5, 2]))
        self.assertEqual(logs.seen[1], (7, {"late": 3.5}))
        m = levin.read_metrics("logged")
        self.assertEqual(m["step"].dtype, np.int64)
        rows = ~np.isnan(m["own/x"])
        self.assertEqual(m["own/x"][rows].tolist(), [0.5, 1, 1.5, 2])
        self.assertEqual(m["step"][rows].tolist(), [5, 10, 15, 20])
        self.assertEqual(m["step"][~np.isnan(m["late"])].tolist(), [7])
        self.assertEqual(m["step"].tolist(), list(range(1, 21)))  # a row for each step, with all of its numbers
        self.assertEqual(np.count_nonzero(~np.isnan(m["loss"])), 20)
        self.assertEqual(m["step"][~np.isnan(m["val_loss"])].tolist(), [10, 20])
        for name in ("loss", "val_loss"):
            self.assertAlmostEqual(m[name][-1], history[name][-1], 6)
        self.assertNotIn(None, [v for row in levin.attach("logged").rows() for v in row.values()])
        self.assertIn('{"step": 5, "own/x": 0.5, "own/y": 1}', Path("runs/logged/metrics.jsonl").read_text())

    def test_resumed(self):
        class Cut(Logs):
            def on_step(self, run, event):
                super().on_step(run, event)
                if event.step == 12:
                    run.stop()

        run("log_cut", callbacks=Cut()).fit()
        levin.Run("log_cut", resume=True, callbacks=Logs(), progress=False).fit()
        m = levin.read_metrics("runs/log_cut")
        self.assertEqual(m["step"][~np.isnan(m["own/x"])].tolist(), [5, 10, 15, 20])

    def test_wrong(self):
        with run("names") as r:
            next(r.steps())
            for name, text in (*((k, f"'{k}' is reserved") for k in ("loss", "step", "val", "val_step")),
                               ({"x": 1, "x_step": 2}, "'x_step' is reserved"), ("a b", "is not a valid name of a scalar"),
                               ("", "is not a valid name of a scalar"), ("x" * 48, "is not a valid name of a scalar")):
                with self.assertRaises(levin.InputError) as caught:
                    r.log(name, None if isinstance(name, dict) else 1)
                self.assertIn(text, str(caught.exception))
            with self.assertRaisesRegex(levin.InputError, "the value of 'x' must be a number, not 'y'"):
                r.log("x", "y")
            with self.assertRaisesRegex(levin.InputError, "is one scalar too many"):
                for i in range(100):
                    r.log(f"n{i}", i)


class Elsewhere(unittest.TestCase):
    def test_attach(self):
        job = levin.launch(keys(), nproc_per_node=2, name="launched", trainer__threads=1)
        self.assertEqual(job.wait(600), "done", job.log.read_text())
        attached = job.attach()
        self.assertEqual([r["step"] for r in attached.rows() if "loss" in r], list(range(1, 21)))
        self.assertEqual((attached.state, attached.wait()), ("done", "done"))
        self.assertEqual(attached.status["step"], 20)
        self.assertEqual(len(attached.status["ranks"]), 2)
        self.assertEqual(levin.attach("nothing").state, "waiting")
        with self.assertRaises(TimeoutError):
            levin.attach("nothing").wait(0.01, 0.05)

    def test_a_launch_in_the_folder_of_a_former_run(self):
        with run("again") as r:
            r.fit()
        job = levin.launch("runs/again", resume=True, trainer__max_steps=30)
        steps = [r["step"] for r in job.attach().rows(0.05, 600) if "loss" in r]
        self.assertEqual(steps, list(range(1, 31)), job.log.read_text())
        job = levin.launch(keys(), overwrite=True, name="again", trainer__max_steps=5)
        steps = [r["step"] for r in job.attach().rows(0.05, 600) if "loss" in r]
        self.assertEqual(steps, list(range(1, 6)), job.log.read_text())
        self.assertEqual(job.attach().wait(), "done")
        job = levin.launch("runs/again", resume=True)  # all steps are done, so it writes no status
        steps = [r["step"] for r in job.attach().rows(0.05, 600) if "loss" in r]
        self.assertEqual(steps, list(range(1, 6)), job.log.read_text())
        self.assertEqual((job.attach().state, job.attach().status["step"]), ("done", 5))

    def test_jobs_of_a_complete_run(self):
        with run("whole") as r:
            r.fit()
        launcher = mock.Mock(poll=lambda: None)
        self.assertEqual(levin.Job([], "runs/whole", launcher, None, Path("log")).attach().state, "running")
        before = json.loads(Path("runs/whole/status.json").read_text())
        with mock.patch("levin.remote._slurm_state", lambda number: ""), mock.patch("levin.remote._SILENT", 0):
            for resume, state, n in ((True, "done", 20), (False, "failed", 0)):
                job = levin.Job([], "runs/whole", None, "7", Path("log"), before, resume)
                self.assertEqual(job.wait(600), state)
                self.assertEqual(len([r for r in job.attach().rows(0.05, 600) if "loss" in r]), n)

    def test_a_run_that_has_ended_and_is_open(self):
        """Others see its end, although its program keeps it open."""
        r = run("kept-open")
        r.fit()
        self.assertEqual((levin.attach("kept-open").state, levin.attach("kept-open").wait(timeout=600)), ("done", "done"))
        self.assertIn("val_loss", r.validate())
        r.close()
        self.assertEqual(levin.attach("kept-open").state, "done")

    def test_states(self):
        """What status.json says is no end while a launcher or Slurm may continue the run."""
        launcher = mock.Mock(poll=lambda: None)
        here, now = {"host": socket.gethostname(), "pid": 2**30}, time.time()  # no process has this number
        Path("runs/states").mkdir(parents=True)
        for state, age, ranks, process, slurm, expected in (
                ("stopped", 0, [], None, "PENDING", "waiting"), ("stopped", 0, [], None, "COMPLETING", "running"),
                ("stopped", 0, [], None, None, "running"), ("stopped", 0, [], None, "", "stopped"),
                ("failed", 0, [], None, "RUNNING", "running"), ("done", 0, [], None, "PENDING", "done"),
                ("running", 999, [], None, "PENDING", "waiting"), ("running", 999, [], None, "RUNNING", "silent"),
                ("fault", 0, [], None, "RUNNING", "running"), ("fault", 999, [here], None, "RUNNING", "silent"),
                ("fault", 0, [], launcher, "", "running"), ("fault", 999, [here], launcher, "", "silent"),
                ("stopped", 0, [], None, "by folder", "stopped"), ("fault", 0, [here], None, "by folder", "fault"),
                ("fault", 999, [], None, "by folder", "failed"), ("running", 999, [], None, "by folder", "silent"),
                ("running", 999, [here], None, "by folder", "failed"), ("running", 0, [here], None, "by folder", "running"),
                ("running", 999, [{**here, "pid": os.getpid()}], None, "by folder", "silent"),
                ("running", 999, [{**here, "host": "another"}], None, "by folder", "silent")):
            Path("runs/states/status.json").write_text(json.dumps({"state": state, "time": now - age, "ranks": ranks}))
            number = None if process or slurm == "by folder" else "7"
            with mock.patch("levin.remote._slurm_state", lambda number, slurm=slurm: slurm):
                job = levin.Job([], "runs/states", process, number, Path("log"))
                self.assertEqual(job.attach().state, expected, (state, age, ranks, slurm))
        # a squeue that has not answered for a minute
        for state, age, ranks, expected in (("stopped", 999, [], "stopped"), ("failed", 999, [], "failed"), ("fault", 999, [], "failed"),
                                            ("stopped", -999, [], "running"), ("running", 999, [], "silent"),
                                            ("running", 999, [here], "failed")):
            Path("runs/states/status.json").write_text(json.dumps({"state": state, "time": now - age, "ranks": ranks}))
            with mock.patch("levin.remote._slurm_state", lambda number: None), mock.patch("levin.remote._SILENT", 60):
                attached = levin.Job([], "runs/states", None, "7", Path("log")).attach()
                self.assertIn(attached.state, ("running", "silent"))  # the first question
                attached._unanswered_since -= 999
                self.assertEqual(attached.state, expected, (state, age, ranks))
        Path("runs/states/status.json").write_text(json.dumps({"state": "running", "time": now - 999, "ranks": []}))
        for call in (lambda: levin.attach("runs/states").wait(0.01, 0.05), lambda: list(levin.attach("runs/states").rows(0.01, 0.05))):
            with self.assertRaisesRegex(TimeoutError, "its state: silent"):
                call()

    def test_rows_of_a_restarted_run(self):
        def write(rows):
            Path("restarts/metrics.jsonl").write_text("".join(json.dumps({"step": s, "loss": x}) + "\n" for s, x in rows))

        Path("restarts").mkdir()
        write([(s, s) for s in range(1, 6)])
        rows = levin.attach(Path("restarts").absolute()).rows(0, 600)
        self.assertEqual([next(rows)["step"] for _ in range(5)], [1, 2, 3, 4, 5])
        write([(1, 1), (2, 2), (3, 3)] + [(s, s + 0.25) for s in range(4, 10)])  # it grew past its former size
        self.assertEqual([next(rows)["step"] for _ in range(4)], [6, 7, 8, 9])
        write([(1, 1.5), (2, 2.5)])  # another run
        self.assertEqual([next(rows)["loss"] for _ in range(2)], [1.5, 2.5])

    def test_a_slurm_job_that_never_starts(self):
        Path("bin").mkdir()
        for name, text in (("squeue", "cat state"), ("scancel", 'echo "$@" >>cancelled')):
            Path("bin", name).write_text(f"#!/bin/sh\n{text}\n")
            Path("bin", name).chmod(0o755)
        job = levin.Job([], "runs/pending", None, "7", Path("log"))
        with mock.patch.dict(os.environ, PATH=f"{Path('bin').absolute()}:{os.environ['PATH']}"):
            for state in ("PENDING", "RUNNING"):
                Path("state").write_text(state + "\n")
                job.stop()
            self.assertEqual(Path("cancelled").read_text(), "7\n--signal=TERM --full 7\n")
            Path("state").write_text("")
            with mock.patch("levin.remote._SILENT", 0):
                self.assertEqual(job.wait(600), "failed")
            Path("state").write_text("TIMEOUT\n")
            self.assertEqual(remote._slurm_state("7"), "")

    def test_submit(self):
        Path("submit").mkdir()
        Path("submit/sbatch").write_text("#!/bin/sh\necho Submitted batch job 12\n")
        Path("submit/sbatch").chmod(0o755)
        with mock.patch.dict(os.environ, PATH=f"{Path('submit').absolute()}:{os.environ['PATH']}"):
            job = levin.launch(keys(), nodes=2, slurm=True, name="far", sbatch={"time": "01:00:00", "cpus_per_task": None})
            self.assertEqual((job.number, job.log), ("12", Path("far-12.out").absolute()))
            self.assertIn("#SBATCH --time=01:00:00", Path(job.command[1]).read_text())
            for name in "array", "out":
                with self.assertRaisesRegex(levin.InputError, f"sbatch has no '{name}'"):
                    levin.launch(keys(), slurm=True, sbatch={name: "1-4"})

    def test_stop(self):
        job = levin.launch(keys(), name="endless", trainer__max_steps=10**6, trainer__threads=1)
        for row in job.attach().rows(0.05, 600):
            if row["step"] >= 3:
                break
        with self.assertRaisesRegex(TimeoutError, "has not ended within 0.01 s"):
            job.wait(0.01)
        job.stop()
        self.assertEqual(job.wait(600), "stopped", job.log.read_text())
        self.assertEqual(job.attach().state, "stopped")

    def test_failed(self):
        job = levin.launch(keys(data__path="nothing.txt"), name="wrong")
        self.assertEqual(job.wait(600), "failed")
        self.assertIn("nothing.txt", job.log.read_text())
        self.assertEqual(list(job.attach().rows(timeout=600)), [])

    def test_wrong(self):
        for text, call in (("needs slurm=True for 2 nodes", lambda: levin.launch(keys(), nodes=2)),
                           ("at least 1 node", lambda: levin.launch(keys(), nodes=0)),
                           ("optimizer.lr must be a number, got 'ten'", lambda: levin.launch(keys(optimizer__lr="ten"))),
                           ("is in a store", lambda: levin.attach("s3://bucket/run")),
                           ("also give slurm=True", lambda: levin.launch(keys(), sbatch={"time": "1"}))):
            with self.assertRaisesRegex(levin.InputError, text):
                call()
        for path in "nothing", __file__:
            with self.assertRaisesRegex(levin.FaultError, "does not exist"):
                levin.read_metrics(path)
        Path("odd").mkdir()
        Path("odd/metrics.csv").write_text("step,loss\n1,2.5\n2,abc\n3,")
        with self.assertRaisesRegex(levin.FaultError, "line 3: 'abc' is not a number"):
            levin.read_metrics("odd")
        Path("odd/metrics.csv").write_text("step,loss\n1,2.5\n2,1")  # the last one is being written
        self.assertEqual(levin.read_metrics("odd")["loss"].tolist(), [2.5])
        for text in b"[]", b'{"state": "running", "time": "x"}', b"\xff":
            Path("odd/status.json").write_bytes(text)
            self.assertEqual((levin.attach("odd").status, levin.attach("odd").state), ({}, "waiting"), text)
        for text in b"[]\n", b"\xff\n", b"{}\n":
            Path("odd/metrics.jsonl").write_bytes(text)
            with self.assertRaisesRegex(levin.FaultError, "metrics.jsonl' is damaged: it has the line"):
                next(levin.attach("odd").rows(0.01, 1))


class Shown(unittest.TestCase):
    def test_summary(self):
        s = run("sum").summary()
        self.assertGreater(s["flops_per_step"], 0)
        self.assertRegex(str(s), r"flops_per_step +[\d,]+\n")
        r = run("sum")
        facts = {}

        class Start(levin.Callback):
            def on_start(self, run, event):
                facts.update(event.facts)

        r.callbacks.append(Start())
        r.fit()
        self.assertEqual(s["parameters"], facts["parameters"])
        self.assertGreater(s["memory"]["total"], 0)
        self.assertIn("memory.parameters", str(s))

    def test_terminal(self):
        class Tty(io.StringIO):
            def isatty(self):
                return True

        for out in (Tty(), io.StringIO()):
            shown = live.Terminal(out)
            r = run("shown", overwrite=Path("runs/shown").exists())
            r._display = shown
            list(r.steps())
            r.close()
            text = out.getvalue()
            self.assertIn("step 20: val_loss", text)
            self.assertIn("all steps are done; ended at step 20", text)
            self.assertEqual("\r" in text, out.isatty())

    def test_control_characters(self):
        out = io.StringIO()
        live.Terminal(out)._print("a\x1b[31m\n\tb\x85")
        self.assertEqual(out.getvalue(), "a\\x1b[31m\n\tb\\x85\n")

    def test_other_outputs(self):
        """A program without stderr, and one that writes it to several places."""
        class Tee:
            written = ""

            def write(self, text):
                Tee.written += text

            def flush(self):
                pass

        closed = io.StringIO()
        closed.close()
        for i, out in enumerate((None, closed, Tee())):
            with mock.patch("sys.stderr", out):
                r = levin.Run(keys(), name=f"out-{i}", trainer__max_steps=2)
                self.assertEqual(len(r.fit()["loss"]), 2)
                r.close()
        self.assertIn("all steps are done", Tee.written)

    def test_notebook(self):
        shown = notebook.Notebook()
        shown.draw = lambda: None  # no kernel is here
        r = run("page")
        r._display = shown
        list(r.steps())
        shown.notes, shown.sample = ["a <note>"], "<sample> & more"
        html = shown.html()
        tree = xml.dom.minidom.parseString(html)  # whole, and escaped
        self.assertEqual(len(tree.getElementsByTagName("svg")), 1)
        self.assertIn("all steps are done; ended at step 20", html)
        self.assertIn(f"<small>val_loss</small><b>{r.history['val_loss'][-1]:.4f}</b>", html)
        self.assertIn("loss from", html)
        self.assertNotIn("<note>", html)
        self.assertNotIn("//", html)  # nothing is fetched
        r.close()

    def test_notebook_without_a_folder(self):
        """Without a run's folder, and with notes that come before its name is known."""
        run("noted", trainer__max_steps=2, checkpoint__top_k=2, trainer__val_check_interval=1).fit()
        Path("runs/noted/checkpoints/step-2/model.safetensors").write_text("damaged")
        for r in run("dev", trainer__fast_dev_run=True), levin.Run("noted", resume=True, trainer__max_steps=4):
            shown = notebook.Notebook()
            shown.draw = shown.html
            r._display = shown
            with r, warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertTrue(list(r.steps()))
            self.assertIn("nothing is saved" if r.settings["trainer.fast_dev_run"] != "false" else "runs/noted", shown.html())

    def test_a_display_that_fails(self):
        shown = live.Terminal(io.StringIO())
        shown.out.close()
        r = run("closed_display")
        r._display = shown
        with self.assertWarnsRegex(UserWarning, "the display of the run has failed .*; the run continues without it"):
            self.assertEqual(len(list(r.steps())), 20)
        r.close()

    def test_curve(self):
        c = curve.Curve("loss")
        values = [2 + (i * 7919 % 1000) / 1000 for i in range(100000)]
        for i, v in enumerate(values):
            c.add(i + 1, float("nan") if i == 50 else v)
        self.assertLessEqual(len(c.buckets), 2 * curve.KEPT)
        self.assertEqual((min(b.low for b in c.buckets), max(b.high for b in c.buckets)), (min(values), max(values)))
        self.assertEqual((c.buckets[0].first, c.buckets[-1].last, sum(b.n for b in c.buckets)), (1, 100000, 99999))
        self.assertEqual(curve.draw([curve.Curve("loss")]), "")
        flat = curve.Curve("loss")
        for step in (1, 2):
            flat.add(step, 2.0)
        xml.dom.minidom.parseString(curve.draw([flat, c]))
        self.assertEqual([text for _, text in curve.ticks(0.69, 0.694)], ["0.690", "0.692", "0.694"])
        self.assertEqual([text for _, text in curve.ticks(1, 2.4e6, 1)], ["1M", "2M"])

    def test_confusion_matrix(self):
        m = levin.ConfusionMatrix(np.array([[3, 1], [0, 4]]), ["<no>", "yes"])
        self.assertEqual((m.total, m.accuracy), (8, 0.875))
        self.assertEqual(repr(m).splitlines()[1:], ["      <no>  yes", "<no>     3    1", " yes     0    4"])
        xml.dom.minidom.parseString(m._repr_html_())
        self.assertEqual(np.asarray(m).tolist(), [[3, 1], [0, 4]])
        for counts, names, text in (([[1, 2]], None, "must be square"), ([[1]], ["a", "b"], "needs 1 names, not 2")):
            with self.assertRaisesRegex(levin.InputError, text):
                levin.ConfusionMatrix(counts, names)


scenes.main()
