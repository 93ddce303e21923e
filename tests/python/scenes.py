"""What the tests of the package share: a small text, a small model, and checks."""
import hashlib
import os
import subprocess
import sys
import unittest
from pathlib import Path

import levin
from levin.settings import flatten

PROGRAM = os.environ["LEVIN"]
VERSE = ("the owl and the pussycat went to sea in a beautiful pea-green boat\n"
         "they took some honey and plenty of money wrapped up in a five-pound note\n")


def keys(**more):
    """A run of 20 steps on 40 copies of the verse; more: further keys."""
    if not Path("verse.txt").exists():
        Path("verse.txt").write_text(40 * VERSE)
    return {"data.path": "verse.txt", "model.n_layer": 1, "model.n_head": 2, "model.n_embd": 16,
            "model.block_size": 16, "trainer.batch_size": 4, "trainer.max_steps": 20, "trainer.val_check_interval": 10,
            "checkpoint.every_n_steps": 0, "optimizer.lr": 1e-2, "logger.report": False,
            **{k.replace("__", "."): v for k, v in more.items()}}


def run(name, *, resume=False, overwrite=False, callbacks=(), **more):
    return levin.Run(None, resume=resume, overwrite=overwrite, callbacks=callbacks, progress=False, name=name,
                     **keys(**more))


def program(*words):
    """Run the program; returns what it printed."""
    return subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True).stdout


def train_by_program(name, **more):
    program("train", "--quiet", f"--name={name}", *(f"--{k}={v}" for k, v in flatten(keys(**more))))


def weights(name, checkpoint="last"):
    """A hash of the model file of a run's checkpoint, or of that of its adapters."""
    folder = Path(f"runs/{name}/checkpoints/{checkpoint}")
    adapters = folder / "adapter/adapter_model.safetensors"
    return hashlib.sha256((adapters if adapters.exists() else folder / "model.safetensors").read_bytes()).hexdigest()


def losses(name):
    """(step, loss, val_loss) of metrics.csv, as written: every digit counts."""
    rows = [r.split(",") for r in Path(f"runs/{name}/metrics.csv").read_text().splitlines()]
    columns = [rows[0].index(c) for c in ("step", "loss", "val_loss")]
    return [[r[c] for c in columns] for r in rows]


def main():
    """Run the tests of the calling module; 1 if any failed."""
    ended = unittest.main(module="__main__", exit=False, verbosity=2)
    sys.stdout.flush()
    sys.exit(0 if ended.result.wasSuccessful() and ended.result.testsRun else 1)
