"""Finds and opens the library, declares its functions and structs (_abi.py) to ctypes, and turns its statuses into exceptions.

The rest of the package calls the library through this module only. ctypes releases the interpreter's lock during a call and
acquires it again for a callback, so other Python threads run while levin computes. include/levin.h documents the functions.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sysconfig
import threading
from ctypes import Structure, byref, c_int, c_void_p  # noqa: F401 - byref is for the modules that call the library
from pathlib import Path
from typing import Any

from ._abi import (ABI, FUNCTIONS, ON_EVENT, ON_INTERRUPT, ON_SAMPLE, ON_TOKEN, Classified, EvaluatedModel,  # noqa: F401
                   Generation, Parameter, RunData, RunField, RunOptions, RunScalar, Setting, TaskScores)
from .errors import Error, FaultError, InputError, StoppedError

PACKAGE = Path(__file__).resolve().parent
_OUTCOMES = {2: InputError, 75: StoppedError}


def _candidates() -> list[Path]:
    """Possible paths of the library: next to the package in a wheel, or the build folder of a checkout."""
    return [PACKAGE / "lib/liblevin.so", PACKAGE / "bin/liblevin.so", PACKAGE / "liblevin.so",
            PACKAGE.parent.parent / "build/liblevin.so"]


def find_library() -> Path:
    """The path of liblevin.so: LEVIN_LIBRARY, else next to the package, else in the build folder of a checkout."""
    given = os.environ.get("LEVIN_LIBRARY")
    if given:
        if not Path(given).is_file():
            raise InputError(f"LEVIN_LIBRARY is '{given}', but this file does not exist: set it to the path of liblevin.so")
        return Path(given)
    for path in _candidates():
        if path.is_file():
            return path
    raise FaultError("liblevin.so was found neither next to the package nor in the build folder of a checkout "
                     f"({', '.join(map(str, _candidates()))}): build levin (make), or set LEVIN_LIBRARY to its path")


def find_program() -> Path:
    """The path of the program `levin` of this library."""
    library = find_library()
    places = [library.with_name("levin"), library.parent.parent / "bin/levin"]
    if library.parent == PACKAGE / "lib":  # a wheel: pip installs the program with the other scripts
        schemes = ("posix_prefix", "posix_user", "venv", "posix_local")
        places += [Path(sysconfig.get_path("scripts", s)) / "levin" for s in schemes if s in sysconfig.get_scheme_names()]
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise FaultError(f"the program levin was not found: searched {', '.join(map(str, places))}")


def _load() -> ctypes.CDLL:
    path = find_library()
    try:
        lib = ctypes.CDLL(str(path))
        lib.levin_abi_version.restype = c_int
        found = lib.levin_abi_version()
        if found != ABI:
            raise FaultError(f"'{path}' has ABI version {found}, but this package requires {ABI}: use the library of "
                             "this package")
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(lib, name)  # an older library of this version may lack it
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as e:
        raise FaultError(f"'{path}' cannot be used as levin's library: {e}") from e
    return lib


lib = _load()


def sized(kind: type, count: int = 0, **fields: Any) -> Any:
    """A struct of the library with its size set, or an array of `count` of them."""
    if not count:
        return kind(size=ctypes.sizeof(kind), **fields)
    return (kind * count)(*((ctypes.sizeof(kind),) for _ in range(count)))


def elements(first: Any, n: int) -> list[Any]:
    """The elements of an array of structs. Their distance is the `size` of the first one, because the library may have more
    fields than this package. first: a pointer."""
    if not n:
        return []
    kind, start, size = first._type_, ctypes.addressof(first.contents), first.contents.size
    return [kind.from_address(start + i * size) for i in range(n)]


def text(value: bytes | None) -> str | None:
    """A text of the library."""
    return None if value is None else value.decode("utf-8", "replace")


def _in_python(sentence: str) -> str:
    """A message of the command line with its options as Python arguments (resume=True, task__kind='classify'); commands
    in backquotes stay unchanged."""
    def argument(option: str, value: str | None) -> str:
        key = option.replace(".", "__")
        if value is None:
            return key if "." in option else f"{key}=True"
        if value in ("true", "false"):
            return f"{key}={value.title()}"
        return f"{key}={value if re.fullmatch(r'-?[0-9.]+(e-?[0-9]+)?', value) else repr(value)}"
    pattern = r"(`[^`]*`)|(?<![\w-])--(resume\b|overwrite\b|[a-z_]+\.[a-z_0-9]+)(?:=([^\s,;:)'`]+))?"
    return re.sub(pattern, lambda m: m[0] if m[1] else argument(m[2], m[3]), sentence)


def error(status: int) -> Error:
    """The exception for a failed call of this thread."""
    kind = _OUTCOMES.get(lib.levin_outcome(status), FaultError)
    return kind(_in_python(text(lib.levin_error_text()) or ""), _in_python(text(lib.levin_error_trace()) or ""))


def check(status: int) -> None:
    """Raise the exception of a failed call."""
    if status:
        raise error(status)


def encode(value: Any, what: str) -> bytes:
    """A text for the library; NUL bytes are refused because they end it."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"{what} must be a text, not {type(value).__name__}")
    try:
        out = os.fspath(value)
        out = out if isinstance(out, bytes) else out.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as e:
        raise InputError(f"{what} has the character {ascii(value[e.start])}, half of a surrogate pair, which is not a text") from None
    if b"\0" in out:
        raise InputError(f"{what} contains a NUL byte, which is not allowed")
    return out


def read_text(pointer: c_void_p) -> str:
    """A text that the caller owns, as a str; frees it."""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace") if pointer else ""
    finally:
        lib.levin_free(pointer)


def integer(value: Any, what: str, least: int = -2**63, most: int = 2**63 - 1) -> int:
    """A whole number for the library; ctypes would discard the bits that do not fit."""
    try:
        out = value.__index__()
    except AttributeError:
        raise InputError(f"{what} must be a whole number, not {value!r:.60}") from None
    if not least <= out <= most:
        raise InputError(f"{what} is {out}: give a whole number from {least} to {most}")
    return out


def real(value: Any, what: str) -> float:
    """A number for the library, which checks its range."""
    if not isinstance(value, str):
        with contextlib.suppress(TypeError, ValueError):
            return float(value)
    raise InputError(f"{what} must be a number, not {value!r:.60}")


class NotCopied:
    """An object that owns memory of the library; a copy would release it twice."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise InputError(f"a {type(self).__name__} cannot be copied or pickled because it owns memory of the library: "
                         "create another one instead, also in another process")


class Interrupts:
    """Delays SIGINT and SIGTERM until a call of the library by the main thread has returned.

    Python runs signal handlers between bytecodes, so during a call it runs them in the callbacks of the library, where an
    exception (KeyboardInterrupt) would be lost. Handlers outside Python (SIG_DFL, SIG_IGN) stay unchanged, and so do
    other threads, which receive no signals.

    ends_early: the library checks for signals during the call (levin_on_interrupt()), so a signal ends it early. on_signal:
    called when a signal arrives. may_raise: returns true if a handler may raise now, as within a callback.
    """

    _asking: list[Interrupts] = []

    def __init__(self, ends_early: bool = False, on_signal: Any = None, may_raise: Any = None) -> None:
        self._ends_early, self._on_signal, self._may_raise = ends_early, on_signal, may_raise
        self._handlers: dict[int, Any] = {}
        self.received: list[Any] = []  # signals whose handlers have not run yet
        self.raised: BaseException | None = None  # by a handler

    def _note(self, number: int, frame: Any) -> None:
        if self._on_signal:
            self._on_signal()
        if self._may_raise and self._may_raise():
            self._handlers[number](number, frame)
        else:
            self.received.append((number, frame))

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
            if self._ends_early and self._handlers:
                self._asking.append(self)
                lib.levin_on_interrupt(_ask, None)
        return self

    def deliver(self) -> bool:
        """Run the handlers of the received signals; true: one has raised."""
        while self.received and self.raised is None:
            number, frame = self.received.pop(0)
            try:
                self._handlers[number](number, frame)
            except BaseException as e:  # noqa: BLE001 - raised when the call has returned
                self.raised = e
        return self.raised is not None

    def __exit__(self, *_: Any) -> None:
        if self in self._asking:
            self._asking.remove(self)
            lib.levin_on_interrupt(_ask if self._asking else ON_INTERRUPT(), None)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.deliver():
            e, self.raised = self.raised, None
            raise e from None  # replaces the exception of the interrupted call

    def acquire(self, lock: Any) -> None:
        """Wait for a lock; a signal ends the wait."""
        while not lock.acquire(timeout=0.1):
            if self.deliver():
                raise InputError("interrupted")  # __exit__() raises the handler's exception


@ON_INTERRUPT
def _ask(context: Any) -> int:
    return any([i.deliver() for i in Interrupts._asking])
