"""A run: a training that Python opens, steps through, watches and ends."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import math
import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import _library
from ._library import byref, lib
from .callback import Callback, Event
from .data import Data
from .errors import Error, FaultError, InputError, StoppedError
from .live import display
from .settings import Settings

_NEW, _RESUME, _OVERWRITE = 0, 1, 2
_REQUESTS = {"stop": 1, "save": 2, "validate": 4}
_open: weakref.ref[Run] | None = None  # the run that this process has open


@atexit.register
def _close_at_exit() -> None:
    """A run that is open when the interpreter ends is saved, while Python can still run callbacks."""
    run = _open() if _open else None
    if run is not None:
        with contextlib.suppress(Error):
            run.close()


class History(dict):
    """The scalars of a run's steps, validations and epochs as lists: history["loss"] has a number for each entry of
    history["step"], history["val_loss"] one for each of history["val_step"], an epoch's scalars one for each of
    history["epoch_step"]; what `run.log("x", ...)` logs is history["x"], at the steps of history["x_step"]. It covers the steps that this process made; `levin.read_metrics()` reads all of a run."""

    _STEPS = {"step": "step", "validation": "val_step", "epoch": "epoch_step"}

    def add(self, event: Event) -> None:
        if event.kind == "log":
            for name, value in event.scalars.items():
                self.setdefault(name + "_step", []).append(event.step)
                self.setdefault(name, []).append(value)
            return
        column = self._STEPS[event.kind]
        n = len(self.setdefault(column, []))
        self[column].append(event.step)
        for name, value in event.scalars.items():
            values = self.setdefault(name, [])
            values.extend([math.nan] * (n - len(values)))
            values.append(value)


class Summary(dict):
    """The plan of a run: "parameters", "n_layer", "memory" (bytes by kind), "flops_per_step", "steps" ..."""

    def __str__(self) -> str:
        sizes = {k: v for k, v in self.items() if isinstance(v, (int, str)) and not isinstance(v, bool)}
        rows = [f"{k:20} {v:,}" if isinstance(v, int) else f"{k:20} {v}" for k, v in sizes.items()]
        rows += [f"{'memory.' + k:20} {v:,} bytes" for k, v in self["memory"].items()]
        return "\n".join(rows)


class Run:
    """A training run: `levin train` in Python, with the same bits.

    recipe: path of a YAML recipe, or a dict of its parts; with `resume`, also a run's folder or its name below runs/.
    resume: continue the run from its newest checkpoint; overwrite: replace the run that the folder holds.
    data: samples in place of the settings' data: a sequence of dicts of arrays, {"train": ..., "val": ..., "test": ...} of
    such, or an iterable, which wants `fields` ({name: levin.Field(shape, dtype, below)}) and trainer.max_steps.
    callbacks: a `levin.Callback` or several. progress: draw a curve in a notebook and a live line in a terminal.
    keys: settings, as `optimizer__lr=1e-3`, `optimizer={"lr": 1e-3}` or `**{"optimizer.lr": 1e-3}`; what the
    program writes, these and a dict, overrides the environment (LEVIN_OPTIMIZER_LR), which overrides a file. None: not given.

    Raises InputError for a key or a value that is wrong. The run's folder is touched only by what needs it: `open()`,
    `steps()`, `fit()`, `validate()`. One run is open in a process at a time; `with` closes it, `fit()` of the next run
    closes one that has ended.

        history = levin.Run("recipe.yaml", trainer__max_steps=200).fit()
    """

    def __init__(self, recipe: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, resume: bool = False,
                 overwrite: bool = False, callbacks: Callback | Iterable[Callback] = (), progress: bool = True,
                 data: Any = None, fields: Mapping[str, Any] | None = None, **keys: Any) -> None:
        if resume and overwrite:
            raise InputError("resume continues a run and overwrite replaces it; give one of them")
        self._mode = _RESUME if resume else _OVERWRITE if overwrite else _NEW
        self.callbacks = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
        for c in self.callbacks:
            if not isinstance(c, Callback):
                raise InputError(f"callbacks wants objects of levin.Callback, and got {type(c).__name__}")
        self.progress = progress
        self.settings = Settings()
        self.settings.read(recipe, resume)
        if isinstance(data, Mapping) and not set(data) & {"train", "val", "test"}:  # the part `data` of the settings
            keys["data"], data = data, None
        self._data = None if data is None else Data(data, fields)
        if fields is not None and data is None:
            raise InputError("fields describes the samples of data, and there are no data")
        self.settings.put(keys)
        if self._data is None:
            self.settings.check()
        self.history = History()
        self.end_reason: str | None = None  # why the run ended; None: it has not
        self._pointer = ctypes.c_void_p()
        self._event: Event | None = None  # the last STEP
        self._facts: dict[str, Any] | None = None
        self._exception: BaseException | None = None  # of a callback
        self._over = self._ended = self._in_callback = self._interrupted = False
        self._requests = 0
        self._display: Any = None
        self._on_event = _library.ON_EVENT(self._handle)  # the library keeps it as long as the run is open

    # --- life ---

    def open(self) -> Run:
        """Plan the run and load it, and create or continue its folder. Does nothing if it is open."""
        global _open
        if self._pointer:
            return self
        if self._ended:
            self._need()
        other = _open() if _open else None
        if other is not None and other._ended:
            with contextlib.suppress(Error):  # it has said why it failed
                other.close()
        options = _library.RunOptions(size=ctypes.sizeof(_library.RunOptions), mode=self._mode, on_event=self._on_event)
        if self._data:
            options.data = ctypes.pointer(self._data.c)
        status = lib.lvn_run_open_with(byref(self._pointer), self.settings._p, byref(options))
        if status:
            self._pointer = ctypes.c_void_p()
            self._raise_data(status)
        _open = weakref.ref(self)
        if self._exception:
            self._raise_callback()
        return self

    def close(self) -> None:
        """End the run, which saves steps that are not saved, and release it."""
        if not self._pointer:
            return
        pointer, self._pointer = self._pointer, ctypes.c_void_p()
        status = lib.lvn_run_close(pointer)
        self._over = self._ended = True
        if status and not isinstance(e := _library.error(status), StoppedError):
            raise e

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            self.close()
        except Error:
            if value is None:
                raise

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            with contextlib.suppress(Error):
                self.close()

    # --- steps ---

    def steps(self) -> Iterator[Event]:
        """Make the steps that are left; yields the event of each, after the validation and the checkpoint that are due.

        Breaking out of the loop leaves the run open: a further `steps()` goes on.
        """
        if not self._ended:
            self.open()
        over = ctypes.c_bool()
        while not self._over:
            status = lib.lvn_run_step(self._need(), byref(over))
            event, self._event = self._event, None
            self._over = bool(status) or over.value
            if self._exception:
                self._raise_callback()
            if status:
                self._raise_data(status)
            if event is not None:
                yield event
        self.end()

    def fit(self) -> History:
        """Train until the settings' limits; returns the history.

        Ctrl-C (SIGINT) and SIGTERM end the run after its step, save it and raise StoppedError. A second one raises
        KeyboardInterrupt as soon as the step returns; steps that are not saved are when the run is closed.
        """
        with self._watched():
            for _ in self.steps():
                pass
        return self.history

    def end(self) -> None:
        """Make the last checkpoint. The run can still be evaluated and generate; no step may follow."""
        if self._ended:
            return
        self._over = self._ended = True
        status = lib.lvn_run_end(self._need())
        if status:
            e = _library.error(status)
            if not isinstance(e, StoppedError):
                raise e
            self.end_reason = str(e)
            if self._interrupted:
                raise e
        if self._exception:
            raise self._take_exception()

    def _need(self) -> ctypes.c_void_p:
        if not self._pointer:
            raise InputError("the run is closed: make a new levin.Run, with resume=True to continue it")
        return self._pointer

    def _take_exception(self) -> BaseException:
        e, self._exception = self._exception, None
        assert e is not None
        return e

    def _raise_data(self, status: int) -> None:
        """A call failed: raise the data set's own exception if that was the cause."""
        failure = _library.error(status)
        self._over = self._ended = True  # the next run closes it
        if self._data and self._data.exception:
            e, self._data.exception = self._data.exception, None
            raise e from failure
        raise failure

    def _raise_callback(self) -> None:
        """A callback raised: save the step, then let its exception out."""
        e = self._take_exception()
        if self._pointer and not self._ended:
            self._over = self._ended = True
            lib.lvn_run_end(self._pointer)
        raise e

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """The signals and the display of fit()."""
        before = {}

        def stop(number: int, frame: Any) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
            lib.lvn_run_stop(self._pointer)

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, stop)
        self._display = display() if self.progress else None
        try:
            yield
        finally:
            if self._display:
                self._display.close()
            self._display = None
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    # --- events ---

    def _handle(self, context: Any, pointer: Any) -> int:
        """Called by the library, which knows no exceptions: they wait until its call returns."""
        try:
            event = Event(pointer.contents, self._facts)
            self._facts = event.facts if event.kind == "start" else self._facts
            return self._dispatch(event)
        except BaseException as e:  # noqa: BLE001 - KeyboardInterrupt, too, must not unwind through C
            if self._exception is None:
                self._exception = e
            lib.lvn_run_stop(self._pointer)
            return 0

    def _dispatch(self, event: Event) -> int:
        if event.kind == "step":
            self._event = event
        if event.kind in History._STEPS or event.kind == "log":
            self.history.add(event)
        if event.kind == "end":
            self.end_reason = event.text
        if self._display:
            self._display.show(event)
        requests, self._requests = self._requests, 0
        self._in_callback = True
        try:
            for c in self.callbacks:
                requests |= self._requested(c, event.kind, getattr(c, "on_" + event.kind)(self, event))
            return requests | self._requests
        finally:
            self._in_callback = False
            self._requests = 0

    @staticmethod
    def _requested(c: Callback, kind: str, answer: Any) -> int:
        words = () if answer is None else (answer,) if isinstance(answer, str) else answer
        if not isinstance(words, (tuple, list)) or any(w not in _REQUESTS for w in words):
            raise InputError(f"{type(c).__name__}.on_{kind}() returned {answer!r}: a callback returns None, \"stop\", "
                             "\"save\" or \"validate\", or a tuple of these words")
        return sum({_REQUESTS[w] for w in words})

    # --- between steps ---

    def stop(self) -> None:
        """The run ends after its step, and is saved. For callbacks, other threads and signal handlers."""
        lib.lvn_run_stop(self._pointer)

    def log(self, name: str | Mapping[str, float], value: float | None = None) -> None:
        """Log a scalar of one's own, or several as a dict, at the step that is finished: metrics.csv and the other loggers
        get a row with it. All ranks do so alike."""
        values = {name: value} if isinstance(name, str) else dict(name)
        for key, v in values.items():
            if not hasattr(v, "__float__"):
                raise InputError(f"log wants a number for '{key}', and got {type(v).__name__}")
        names = (ctypes.c_char_p * len(values))(*(_library.encode(k, "a name") for k in values))
        numbers = (ctypes.c_double * len(values))(*(float(v) for v in values.values()))  # type: ignore[arg-type]
        before, self._in_callback = self._in_callback, True
        try:
            status = lib.lvn_run_log(self._need() if before else self.open()._need(), len(values), names, numbers)
        finally:
            self._in_callback = before
        _library.check(status)

    def save(self) -> None:
        """Write a checkpoint; it is on the disk when the call returns. Within a callback: after the next step."""
        if self._in_callback:
            self._requests |= _REQUESTS["save"]
        else:
            _library.check(lib.lvn_run_save(self.open()._need()))

    def validate(self) -> dict[str, float]:
        """Loss and metrics of the validation data: {"val_loss": ..., "val_accuracy": ...}. Within a callback: after the
        next step, and the result is empty."""
        if self._in_callback:
            self._requests |= _REQUESTS["validate"]
            return {}
        return self._evaluate("val")

    def test(self) -> dict[str, float]:
        """Loss and metrics of the test data: {"test_loss": ..., "test_accuracy": ...}."""
        return self._evaluate("test")

    def _evaluate(self, split: str) -> dict[str, float]:
        if self._in_callback:
            raise InputError("a run cannot be tested within a callback: do it between steps, or after fit()")
        self.open()
        rows = (_library.Scalar * 64)()
        _library.check(lib.lvn_run_evaluate(self._need(), split.encode()))
        n = lib.lvn_run_results(self._pointer, rows, len(rows))
        return {rows[i].name.decode(): rows[i].value for i in range(n)}

    def generate(self, prompt: str | None = None) -> str:
        """Continue a prompt with the weights as they are now, as the keys of `sample` say; returns both."""
        out = ctypes.c_void_p()
        text = None if prompt is None else _library.encode(prompt, "prompt")
        _library.check(lib.lvn_run_generate(self.open()._need(), text, byref(out)))
        return _library.take_text(out)

    def summary(self) -> Summary:
        """What the run would take, before anything is trained: parameters, sizes, FLOPs, exact memory (`levin plan`)."""
        if self._data:
            raise InputError("summary plans from files, and this run has its data in Python")
        keys = [f"--{k}={v}" for k, v in self.settings.items()
                if self.settings.source(k) not in ("default", "") and not self.settings.source(k).startswith("from ")]
        done = subprocess.run([str(_library.find_program()), "plan", "--json", *keys], capture_output=True, text=True,
                              env={k: v for k, v in os.environ.items() if not k.startswith("LEVIN_")})
        if done.returncode:
            kind = InputError if done.returncode == 2 else FaultError
            raise kind(done.stderr.strip().removeprefix("error: "))
        return Summary(json.loads(done.stdout))

    @property
    def step(self) -> int:
        """Finished steps, those before a resumption included."""
        return lib.lvn_run_steps(self._pointer) if self._pointer else (self.history.get("step") or [0])[-1]

    @property
    def path(self) -> Path:
        """The run's folder."""
        return Path(self.settings["run_dir"])

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open" if self._pointer else "not opened"
        return f"<levin.Run {self.settings['run_dir']}, {state}, step {self.step}>"


__all__ = ["History", "Run", "Summary"]
