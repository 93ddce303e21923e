"""A training run: opened, stepped, observed and ended from Python."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import math
import os
import signal
import subprocess
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _library
from ._library import Interrupts, byref, lib
from .callback import Callback, Event
from .conversations import conversations
from .data import Data
from .errors import Error, FaultError, InputError, StoppedError
from .live import display
from .settings import Settings

_NEW, _RESUME, _OVERWRITE = 0, 1, 2
_REQUESTS = {"stop": 1, "save": 2, "validate": 4}
_open: weakref.ref[Run] | None = None  # the open run of this process
_in_use: list[Any] = []  # settings and data of the open run: the library uses them until it is closed, even if the Run was collected
_unclosed: list[Run] = []  # garbage-collected runs that could not be closed yet
_EXIT_S = 60  # maximum wait for the step of another thread at exit


def _show_with(e: BaseException, failure: Error) -> None:
    """Add the failure of saving the run to the exception that ended it."""
    text = f"the run could not be saved: {failure}"
    if hasattr(e, "add_note"):
        if text not in getattr(e, "__notes__", ()):
            e.add_note(text)
    elif e.__cause__ is None and e is not failure:
        e.__cause__ = failure


@atexit.register
def _close_at_exit() -> None:
    """Save an open run when the interpreter ends, while callbacks can still run. A daemon thread that trains it is
    stopped first."""
    run = _unclosed[0] if _unclosed else _open() if _open else None
    if run is None or run._process != os.getpid():
        return
    run.stop()
    until = time.monotonic() + _EXIT_S
    while run._owner and run._owner[0] != threading.get_ident() and time.monotonic() < until:
        time.sleep(0.01)
    with contextlib.suppress(Error):
        run.close()


class History(dict):
    """The scalars of a run's steps, validations and epochs as lists: history["loss"] has a number for each entry of
    history["step"], history["val_loss"] one for each of history["val_step"], an epoch's scalars one for each of
    history["epoch_step"]; `run.log("x", ...)` adds to history["x"] and history["x_step"]. It covers
    the steps of this process; `levin.read_metrics()` reads those of the whole run."""

    _STEPS = {"step": "step", "validation": "val_step", "epoch": "epoch_step"}

    def check_logged(self, names: Iterable[str]) -> None:
        """Refuse names whose two columns would be mixed with others, as "val" with "val_step"."""
        columns = {*self, *self._STEPS.values()}
        for name in names:
            if (name in columns) != (name + "_step" in columns):
                raise InputError(f"'{name}' is reserved: the history has a column '{name}' or '{name}_step' of other values; "
                                 "choose another name")
            columns |= {name, name + "_step"}

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
        sizes = {k: v for k, v in self.items() if isinstance(v, (int, str, float)) and not isinstance(v, bool)}
        rows = [f"{k:20} {v}" if isinstance(v, str) else f"{k:20} {v:,.0f}" for k, v in sizes.items()]
        rows += [f"{'memory.' + k:20} {v:,} bytes" for k, v in self["memory"].items()]
        return "\n".join(rows)


class Run(_library.NotCopied):
    """A training run: `levin train` in Python, with identical results.

    recipe: path of a YAML recipe, or a dict of its parts; with `resume`, also a run's folder or its name in runs/.
    resume: continue the run from its newest checkpoint; overwrite: replace the run in the folder.
    data: a path, as data.path; or samples instead of the settings' data: a sequence of dicts of arrays,
    {"train": ..., "val": ..., "test": ...} of these, or an iterable, which needs `fields` ({name: levin.Field(shape, dtype, below)}) and trainer.max_steps; or
    conversations, as [{"messages": [...]}], which are written to temporary files and read with data.kind=chat.
    classes: names of the classes of the samples' `label`, which is then a name or its index; default: the distinct
    names of the training samples, sorted by their bytes in UTF-8, if their labels are strings.
    callbacks: a `levin.Callback` or several. progress: draw a curve in a notebook and a live line in a terminal.
    keys: settings, for example `optimizer__lr=1e-3`, `optimizer={"lr": 1e-3}` or `**{"optimizer.lr": 1e-3}`; keys and a dict
    override the environment (LEVIN_OPTIMIZER_LR), which overrides a file. None: not given.

    Raises InputError for a wrong key or value. Only `open()`, `steps()`, `fit()`, `validate()` etc. access the run's folder.
    A process can have one open run; `with` closes it, and `fit()` of the next run closes one that has ended. A run accepts
    one call at a time: others, from another thread or within a callback, raise InputError, except `stop()` and, in a
    callback, `log()`, `save()` and `validate()`.

        history = levin.Run("recipe.yaml", trainer__max_steps=200).fit()
    """

    def __init__(self, recipe: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, resume: bool = False,
                 overwrite: bool = False, callbacks: Callback | Iterable[Callback] | None = (), progress: bool = True,
                 data: Any = None, fields: Mapping[str, Any] | None = None, classes: Sequence[str] | None = None,
                 **keys: Any) -> None:
        if resume and overwrite:
            raise InputError("resume continues a run and overwrite replaces it; give only one of them")
        self._mode = _RESUME if resume else _OVERWRITE if overwrite else _NEW
        given = () if callbacks is None else callbacks
        self.callbacks = list(given) if isinstance(given, Iterable) and not isinstance(given, Callback) else [given]
        for c in self.callbacks:
            if not isinstance(c, Callback):
                raise InputError(f"callbacks must be objects of levin.Callback, not {c if isinstance(c, type) else type(c).__name__}")
        self.progress = progress
        self.settings = Settings()
        self.settings.read(recipe, resume)
        if isinstance(data, (str, os.PathLike)):
            data = {"path": os.fspath(data)}
        if isinstance(data, Mapping) and set(data) & {"ids", "input_ids", "pixels", "label", "labels", "messages"}:
            raise InputError("data must be a list of samples, each a dict as {'ids': ..., 'labels': ...}, not one dict")
        if isinstance(data, Mapping) and not set(data) & {"train", "val", "test"}:  # the part `data` of the settings
            keys["data"], data = data, None
        self._conversations = None
        if fields is None and classes is None:  # these describe samples of numbers
            self._conversations, data = conversations(data)
        self._data = None if data is None else Data(data, fields, classes)
        if classes is not None and data is None:
            raise InputError("classes are the names of the classes of samples in data, but no data were given")
        if fields is not None and data is None:
            raise InputError("fields describes the samples of data, but no data were given")
        self.settings.put(keys)
        if self._conversations:
            for key, value in self._conversations.keys.items():
                if self.settings.source(key) == "program" and self.settings[key] != value:
                    raise InputError(f"{key} is given, but the data of this run are conversations in Python: give one of them")
            self.settings.put(self._conversations.keys)
        if self._data is None:
            self.settings.check()
        elif self._data.is_iterable and int(self.settings["trainer.max_steps"]) <= 0 and self.settings["trainer.fast_dev_run"] == "false":
            raise InputError("data given as an iterable also need trainer.max_steps, because the number of their samples is not known")
        self.history = History()
        self.end_reason: str | None = None  # why the run ended; None: it has not ended
        self._pointer = ctypes.c_void_p()
        self._event: Event | None = None  # the last STEP
        self._facts: dict[str, Any] | None = None
        self._exception: BaseException | None = None  # of a callback
        self._over = self._ended = self._in_callback = self._interrupted = self._stopping = self._opening = False
        self._unfinished = ""  # why the run ended early
        self._reported = False  # a call has raised the failure that ended the run
        self._requests = 0
        self._lock = threading.Lock()  # protects _owner
        self._owner: tuple[int, str] | None = None  # the thread in a call, and the call
        self._process = 0  # id of the process that opened the run; 0: not opened yet
        self._display: Any = None
        self._on_event = _library.ON_EVENT(self._handle)  # must live as long as the run is open

    # --- open and close ---

    @contextlib.contextmanager
    def _calling(self, call: str, ends_early: bool = False, holds: bool = True) -> Iterator[None]:
        """Context of a call of the library, which refuses a second call. holds: signals are delayed until the call has returned;
        ends_early: a signal ends the call early (levin_on_interrupt())."""
        interrupts = Interrupts(ends_early, self._on_signal, lambda: self._in_callback) if holds else contextlib.nullcontext()
        me = threading.get_ident()
        with interrupts:
            with self._lock:
                owner = self._owner
                if owner and owner[0] != me:
                    raise InputError(f"{call}() is not possible now: another thread is in {owner[1]}() of this run, which "
                                     "accepts one call at a time; stop() is possible from any thread")
                if owner and self._in_callback:
                    raise InputError(f"{call}() is not possible within a callback of {owner[1]}(): a callback may call "
                                     'stop(), log(), save() and validate(), or return "stop", "save" or "validate"')
                self._owner = owner or (me, call)
            try:
                yield
            finally:
                self._owner = owner

    def _on_signal(self) -> None:
        """On a signal fit() ends after the current step."""
        if self._owner and self._owner[1] == "fit":
            lib.levin_run_stop(self._pointer)

    def _within_callback(self) -> bool:
        return self._in_callback and self._owner is not None and self._owner[0] == threading.get_ident()

    def open(self) -> Run:
        """Plan the run and load it, and create or continue its folder. Does nothing if it is open."""
        global _open
        if self._pointer:
            return self
        if self._ended:
            self._require_open()
        with self._calling("open", ends_early=True):
            other = _open() if _open else None
            if other is not None and other._ended:
                with contextlib.suppress(Error):  # its failure was already reported
                    other.close()
            elif other is not None:
                del other
                gc.collect()  # closes it if the program has no reference to it, as after a cell that ran twice
            for run in list(_unclosed):
                with contextlib.suppress(Error):
                    run.close()
            options = _library.sized(_library.RunOptions, mode=self._mode, on_event=self._on_event)
            if self._data:
                options.data = ctypes.pointer(self._data.c)
            self._opening, self._process = True, os.getpid()
            try:
                status = lib.levin_run_open_with(byref(self._pointer), self.settings._p, byref(options))
            finally:
                self._opening = False
            if status:  # the run may be opened again
                self._pointer = ctypes.c_void_p()
                self._raise_data(status, ends=False)
            _open = weakref.ref(self)
            _in_use[:] = [self.settings, self._data, self._conversations]
            if self._stopping:
                lib.levin_run_stop(self._pointer)
            self._raise_callback()
        return self

    def close(self) -> None:
        """End the run, save unsaved steps, and release it."""
        if not self._pointer:
            return
        with self._calling("close"):
            status = lib.levin_run_close(self._pointer)
            failure = _library.error(status) if status else None
            if failure and lib.levin_run_steps(self._pointer) >= 0:  # the call was refused
                raise failure
            self._pointer = ctypes.c_void_p()
            _in_use.clear()
            if self in _unclosed:
                _unclosed.remove(self)
            self._finished("it was closed")
            is_known = self._reported and self._process == os.getpid()  # in a fork the call was refused
            if failure and not is_known and not isinstance(failure, StoppedError):
                raise failure from self._take_exception()
            if self._exception:
                raise self._take_exception()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            self.close()
        except Error as e:
            if value is None:
                raise
            _show_with(value, e)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            with contextlib.suppress(Error):
                self.close()
            if self._pointer and self._process == os.getpid():  # the collector runs in one of the library's threads
                _unclosed.append(self)

    # --- steps ---

    def steps(self) -> Iterator[Event]:
        """Make the remaining steps; yields the event of each, after the validation and the checkpoint that are due.

        Leaving the loop keeps the run open: another `steps()` continues.
        """
        if not self._ended:
            self.open()
        elif self._unfinished:
            raise InputError(f"the run has ended: {self._unfinished}; create a new levin.Run, with resume=True to continue it")
        over = ctypes.c_bool()
        while not self._over:
            with self._calling("steps"):
                status = lib.levin_run_step(self._require_open(), byref(over))
                event, self._event = self._event, None
                self._over = bool(status) or over.value
                self._raise_callback()
                if status:
                    self._raise_data(status)
            if event is not None:
                yield event
        self.end()

    def fit(self) -> History:
        """Train until the settings' limits; returns the history.

        Ctrl-C (SIGINT) and SIGTERM end the run after its step, save it and raise StoppedError. A second signal raises
        KeyboardInterrupt as soon as the step returns; unsaved steps are saved when the run is closed.
        """
        with self._calling("fit", holds=False), self._watched():
            for _ in self.steps():
                pass
        return self.history

    def end(self) -> None:
        """Save the last checkpoint. Evaluation and generation are still possible, but no further steps."""
        if self._ended:
            return
        with self._calling("end"):
            status = lib.levin_run_end(self._require_open())
            self._finished("its program has ended it")
            if status:
                e = _library.error(status)
                self._unfinished = str(e)
                if not isinstance(e, StoppedError):
                    self._reported = True
                    raise e from self._take_exception()
                self.end_reason = str(e)
                if self._interrupted:
                    raise e
            if self.end_reason is None:  # the run was already complete, so no event has reported its end
                self.end_reason = _library.text(lib.levin_run_end_reason(self._pointer))
            if self._exception:
                raise self._take_exception()

    def _finished(self, reason: str) -> None:
        """No step follows. reason: of the end, if steps were left."""
        if not self._over:
            self._unfinished = reason
        self._over = self._ended = True

    def _require_open(self) -> ctypes.c_void_p:
        if not self._pointer:
            raise InputError("the run is closed: create a new levin.Run, with resume=True to continue it" if self._ended else
                             "the run is not open: call open() first")
        return self._pointer

    def _take_exception(self) -> BaseException | None:
        e, self._exception = self._exception, None
        return e

    def _raise_data(self, status: int, ends: bool = True) -> None:
        """A call failed: raise the exception of the data if that was the cause."""
        failure = _library.error(status)
        if ends:  # no step follows; open() of the next run closes this one
            self._over = self._ended = self._reported = True
            self._unfinished = str(failure)
        if self._data and self._data.exception:
            e, self._data.exception = self._data.exception, None
            raise e from failure
        raise failure

    def _raise_callback(self) -> None:
        """If a callback raised, save the step and raise its exception."""
        if not self._exception:
            return
        e = self._take_exception()
        assert e is not None
        if self._pointer and not self._ended:
            self._over = self._ended = True
            self._unfinished = f"a callback raised {type(e).__name__}"
            status = lib.levin_run_end(self._pointer)
            failure = _library.error(status) if status else None
            if failure and not isinstance(failure, StoppedError):
                self._reported = True
                _show_with(e, failure)
        raise e

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """The signals and the display of fit()."""
        before = {}
        self._interrupted = False

        def stop(number: int, frame: Any) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            if self._opening:
                raise StoppedError("stopped on request before the first step; there was nothing to save")
            self._interrupted = True
            lib.levin_run_stop(self._pointer)

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, stop)
        self._display = display() if self.progress else None
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            if self._display:
                self._draw(self._display.close)
            self._display = None

    def _draw(self, call: Callable[[], None]) -> None:
        """Call the display. If it fails, the run continues without it."""
        try:
            call()
        except Exception as e:  # noqa: BLE001 - a closed terminal, for example
            self._display = None
            warnings.warn(f"the display of the run has failed ({type(e).__name__}: {e}); the run continues without it", stacklevel=2)

    # --- events ---

    def _handle(self, context: Any, pointer: Any) -> int:
        """Called by the library; exceptions are raised after its call has returned."""
        try:
            event = Event(pointer.contents, self._facts)
            self._facts = event.facts if event.kind == "start" else self._facts
            try:
                return self._dispatch(event)
            finally:
                self._in_callback = False
        except BaseException as e:  # noqa: BLE001 - KeyboardInterrupt, too, must not unwind through C
            self._in_callback = False
            if self._exception is None:
                self._exception = e
            lib.levin_run_stop(self._pointer)
            return 0

    def _dispatch(self, event: Event) -> int:
        if event.kind == "step":
            self._event = event
        if event.kind in History._STEPS or event.kind == "log":
            self.history.add(event)
        if event.kind == "end":
            self.end_reason = event.text
        if self._display:
            self._draw(lambda: self._display.show(event))
        requests, self._requests = self._requests, 0
        self._in_callback = True
        try:
            for c in self.callbacks:
                requests |= self._requested(c, event.kind, getattr(c, "on_" + event.kind)(self, event))
            return requests | self._requests
        finally:
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
        """End the run after the current step and save it; before the run is opened: when it is opened. For callbacks, other
        threads and signal handlers."""
        self._stopping = True
        lib.levin_run_stop(self._pointer)

    def log(self, name: str | Mapping[str, float], value: float | None = None) -> None:
        """Log a scalar, or several as a dict, at the finished step: metrics.csv and the other loggers get a row with it. All
        ranks must call it."""
        values = {name: value} if isinstance(name, str) else dict(name)
        names = (ctypes.c_char_p * len(values))(*(_library.encode(k, "a name") for k in values))
        numbers = (ctypes.c_double * len(values))(*(_library.real(v, f"the value of '{k}'") for k, v in values.items()))
        self.history.check_logged(values)
        if self._within_callback():
            status = lib.levin_run_log(self._require_open(), len(values), names, numbers)
            self._in_callback = True  # levin_run_log() has called the callbacks, which reset it
            _library.check(status)
            return
        with self._calling("log"):
            _library.check(lib.levin_run_log(self.open()._require_open(), len(values), names, numbers))
            self._raise_callback()

    def save(self) -> None:
        """Write a checkpoint; it is on disk when the call returns. Within a callback: after the next step."""
        if self._within_callback():
            self._requests |= _REQUESTS["save"]
            return
        with self._calling("save"):
            _library.check(lib.levin_run_save(self.open()._require_open()))
            self._raise_callback()

    def validate(self) -> dict[str, float]:
        """Loss and metrics of the validation data: {"val_loss": ..., "val_accuracy": ...}. It calls no callback and saves no
        checkpoint. Within a callback it only requests a validation after the next step, which calls callbacks and may save a
        checkpoint; the result is then empty."""
        if self._within_callback():
            self._requests |= _REQUESTS["validate"]
            return {}
        return self._evaluate("val", "validate")

    def test(self) -> dict[str, float]:
        """Loss and metrics of the test data: {"test_loss": ..., "test_accuracy": ...}."""
        return self._evaluate("test", "test")

    def _evaluate(self, split: str, call: str) -> dict[str, float]:
        rows = _library.sized(_library.RunScalar, 64)
        with self._calling(call, ends_early=True):
            _library.check(lib.levin_run_evaluate(self.open()._require_open(), split.encode()))
            n = lib.levin_run_results(self._pointer, rows, len(rows))
            return {rows[i].name.decode(): rows[i].value for i in range(n)}

    def generate(self, prompt: str | None = None) -> str:
        """Continue a prompt with the current weights and the keys of `sample`; returns prompt and continuation."""
        out = ctypes.c_void_p()
        text = None if prompt is None else _library.encode(prompt, "prompt")
        with self._calling("generate", ends_early=True):
            _library.check(lib.levin_run_generate(self.open()._require_open(), text, byref(out)))
            return _library.read_text(out)

    def summary(self) -> Summary:
        """The plan of the run before training: parameters, sizes, FLOPs, exact memory (`levin plan`)."""
        if self._data:
            raise InputError("summary() needs data in files, but the data of this run are in Python")
        keys = [f"--{k}={v}" for k, v in self.settings.items()
                if self.settings.source(k) not in ("default", "") and not self.settings.source(k).startswith("from ")]
        given = {f"LEVIN_{k.upper().replace('.', '_')}" for k in self.settings}  # `keys` has them, unless overridden
        done = subprocess.run([str(_library.find_program()), "plan", "--json", *keys], capture_output=True, text=True,
                              env={k: v for k, v in os.environ.items() if k not in given})
        if done.returncode:
            kind = InputError if done.returncode == 2 else FaultError
            raise kind(done.stderr.strip().removeprefix("error: "))
        return Summary(json.loads(done.stdout))

    @property
    def step(self) -> int:
        """Finished steps, including those before a resumption."""
        steps = lib.levin_run_steps(self._pointer) if self._pointer else -1
        return steps if steps >= 0 else (self.history.get("step") or [0])[-1]

    @property
    def path(self) -> Path:
        """The run's folder."""
        return Path(self.settings["run_dir"])

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open" if self._pointer else "not opened"
        return f"<levin.Run {self.settings['run_dir']}, {state}, step {self.step}>"


__all__ = ["History", "Run", "Summary"]
