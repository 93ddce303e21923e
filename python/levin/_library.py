"""The library as ctypes sees it: where it lies, its functions, its structs, and exceptions in place of its statuses.

Nothing else of the package calls the library but through this module. ctypes releases the interpreter's lock during a
call and takes it again for a callback, so other Python threads run while levin computes. Left out: what the functions
mean, which include/levin.h says.
"""
from __future__ import annotations

import ctypes
import os
import sysconfig
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p)
from pathlib import Path
from typing import Any

from .errors import Error, FaultError, InputError, StoppedError

ABI = 1
PACKAGE = Path(__file__).resolve().parent
_OUTCOMES = {2: InputError, 75: StoppedError}


class Setting(Structure):
    _fields_ = [("key", c_char_p), ("type", c_char_p), ("default_value", c_char_p), ("help", c_char_p),
                ("choices", POINTER(c_char_p)), ("min", c_double), ("max", c_double), ("fixed", c_int64)]


class Scalar(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double), ("is_new", c_int64)]


class RunEvent(Structure):
    _fields_ = [
        ("size", c_int64), ("kind", c_int64), ("step", c_int64), ("max_steps", c_int64), ("epoch", c_int64),
        ("text", c_char_p), ("n_scalars", c_int64), ("scalar", POINTER(Scalar)), ("is_best", c_int64),
        ("elapsed_s", c_double), ("eta_s", c_double), ("epoch_s", c_double), ("best_val_loss", c_double),
        ("start_val_loss", c_double), ("memory_bytes", c_int64), ("peak_bytes", c_int64), ("name", c_char_p),
        ("run_dir", c_char_p), ("unit", c_char_p), ("isa", c_char_p), ("parameters", c_int64), ("trained", c_int64),
        ("batch_size", c_int64), ("micro_batch_size", c_int64), ("accumulation", c_int64), ("block_size", c_int64),
        ("steps_per_epoch", c_int64), ("train_tokens", c_int64), ("val_tokens", c_int64), ("train_samples", c_int64),
        ("val_samples", c_int64), ("rank", c_int64), ("ranks", c_int64), ("hosts", c_int64), ("threads", c_int64)]


ON_EVENT = CFUNCTYPE(c_int, c_void_p, POINTER(RunEvent))


ON_SAMPLE = CFUNCTYPE(c_int, c_void_p, c_int64, c_int64, POINTER(c_void_p), c_void_p)
ON_TOKEN = CFUNCTYPE(c_int, c_void_p, c_int32, c_char_p)


class RunField(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int64), ("rank", c_int64), ("dim", c_int64 * 3), ("below", c_int64)]


class RunData(Structure):
    _fields_ = [("size", c_int64), ("n_fields", c_int64), ("field", POINTER(RunField)), ("samples", c_int64 * 3),
                ("vocab_size", c_int64), ("is_stream", c_int64), ("sample", ON_SAMPLE), ("context", c_void_p)]


class RunOptions(Structure):
    _fields_ = [("size", c_int64), ("mode", c_int64), ("model", c_void_p), ("on_event", ON_EVENT),
                ("context", c_void_p), ("data", POINTER(RunData))]


class Generation(Structure):
    _fields_ = [("size", c_int64), ("prompt", c_void_p), ("n_prompt", c_int64), ("max_new_tokens", c_int64),
                ("temperature", c_double), ("top_k", c_int64), ("top_p", c_double), ("seed", c_int64),
                ("number", c_int64), ("ignore_eos", c_int64), ("on_token", ON_TOKEN), ("context", c_void_p),
                ("ids", c_void_p), ("n_ids", c_int64), ("text", c_void_p)]


class Parameter(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int64), ("rank", c_int64), ("shape", c_int64 * 4), ("data", c_void_p)]


class Classified(Structure):
    _fields_ = [("size", c_int64), ("n", c_int64), ("classes", c_int64), ("probability", c_void_p),
                ("names", c_void_p)]


class EvaluatedModel(Structure):
    _fields_ = [("size", c_int64), ("loss", c_double), ("labels", c_int64), ("samples", c_int64),
                ("skipped", c_int64), ("split", c_char_p), ("n_metrics", c_int64), ("metric", Scalar * 16),
                ("classes", c_int64), ("confusion", c_void_p)]


# name: (what it returns, its arguments)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "lvn_abi_version": (c_int, []),
    "lvn_version": (c_char_p, []),
    "lvn_outcome": (c_int, [c_int]),
    "lvn_error_text": (c_char_p, []),
    "lvn_error_trace": (c_char_p, []),
    "lvn_free": (None, [c_void_p]),
    "lvn_settings_new": (c_void_p, []),
    "lvn_settings_free": (None, [c_void_p]),
    "lvn_settings_put": (c_int, [c_void_p, c_char_p, c_char_p]),
    "lvn_settings_recipe": (c_int, [c_void_p, c_char_p]),
    "lvn_settings_variables": (c_int, [c_void_p]),
    "lvn_settings_check": (c_int, [c_void_p]),
    "lvn_settings_get": (c_char_p, [c_void_p, c_char_p]),
    "lvn_settings_source": (c_char_p, [c_void_p, c_char_p]),
    "lvn_settings_count": (c_int64, []),
    "lvn_settings_describe": (c_int, [c_int64, POINTER(Setting)]),
    "lvn_run_open_with": (c_int, [POINTER(c_void_p), c_void_p, POINTER(RunOptions)]),
    "lvn_run_step": (c_int, [c_void_p, POINTER(c_bool)]),
    "lvn_run_steps": (c_int64, [c_void_p]),
    "lvn_run_value": (c_double, [c_void_p, c_char_p]),
    "lvn_run_validate": (c_int, [c_void_p]),
    "lvn_run_evaluate": (c_int, [c_void_p, c_char_p]),
    "lvn_run_results": (c_int64, [c_void_p, POINTER(Scalar), c_int64]),
    "lvn_run_generate": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "lvn_run_log": (c_int, [c_void_p, c_int64, POINTER(c_char_p), POINTER(c_double)]),
    "lvn_run_save": (c_int, [c_void_p]),
    "lvn_run_stop": (None, [c_void_p]),
    "lvn_run_end": (c_int, [c_void_p]),
    "lvn_run_close": (c_int, [c_void_p]),
    "lvn_settings_model": (c_int, [c_void_p, c_char_p]),
    "lvn_inference_open": (c_int, [POINTER(c_void_p), c_void_p]),
    "lvn_inference_close": (None, [c_void_p]),
    "lvn_inference_vocab_size": (c_int64, [c_void_p]),
    "lvn_inference_block_size": (c_int64, [c_void_p]),
    "lvn_inference_encode": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_void_p), POINTER(c_int64)]),
    "lvn_inference_decode": (c_int, [c_void_p, c_void_p, c_int64, POINTER(c_void_p)]),
    "lvn_inference_generate": (c_int, [c_void_p, POINTER(Generation)]),
    "lvn_inference_logits": (c_int, [c_void_p, c_void_p, c_int64, c_int64, POINTER(c_void_p), POINTER(c_int64),
                                     POINTER(c_int64)]),
    "lvn_inference_parameters": (c_int, [c_void_p, POINTER(c_int64)]),
    "lvn_inference_parameter": (c_int, [c_void_p, c_int64, POINTER(Parameter)]),
    "lvn_inference_copy": (c_int, [c_void_p, c_int64, c_void_p, c_int64]),
    "lvn_classify": (c_int, [c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_int64, POINTER(Classified)]),
    "lvn_evaluate_model": (c_int, [c_void_p, c_int64, c_char_p, POINTER(EvaluatedModel)]),
}


def _candidates() -> list[Path]:
    """Where the library may lie: in a wheel beside the package, or in the build folder of a checkout."""
    return [PACKAGE / "lib/liblevin.so", PACKAGE / "bin/liblevin.so", PACKAGE / "liblevin.so",
            PACKAGE.parent.parent / "build/liblevin.so"]


def find_library() -> Path:
    """The path of liblevin.so: the variable LEVIN_LIBRARY, else beside the package, else a checkout's build folder."""
    given = os.environ.get("LEVIN_LIBRARY")
    if given:
        if not Path(given).is_file():
            raise InputError(f"LEVIN_LIBRARY is '{given}', and there is no such file: give the path of liblevin.so")
        return Path(given)
    for path in _candidates():
        if path.is_file():
            return path
    raise FaultError("liblevin.so was found neither beside the package nor in a checkout's build folder "
                     f"({', '.join(map(str, _candidates()))}): build levin (make), or set LEVIN_LIBRARY to its path")


def find_program() -> Path:
    """The path of the program `levin`, which belongs to the library."""
    library = find_library()
    places = [library.with_name("levin"), library.parent.parent / "bin/levin"]
    if library.parent == PACKAGE / "lib":  # a wheel: pip puts the program where it puts all scripts
        schemes = ("posix_prefix", "posix_user", "venv", "posix_local")
        places += [Path(sysconfig.get_path("scripts", s)) / "levin" for s in schemes if s in sysconfig.get_scheme_names()]
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise FaultError(f"the program levin was not found: neither {' nor '.join(map(str, places))} is one")


def _load() -> ctypes.CDLL:
    path = find_library()
    try:
        lib = ctypes.CDLL(str(path))
        lib.lvn_abi_version.restype = c_int
        found = lib.lvn_abi_version()
    except (OSError, AttributeError) as e:
        raise FaultError(f"'{path}' cannot be used as levin's library: {e}") from e
    if found != ABI:
        raise FaultError(f"'{path}' has ABI version {found}, and this package wants {ABI}: use the library that "
                         "belongs to the package")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


lib = _load()


def text(value: bytes | None) -> str | None:
    """A text of the library."""
    return None if value is None else value.decode("utf-8", "replace")


def error(status: int) -> Error:
    """The exception of a failed call, made by the thread that called."""
    kind = _OUTCOMES.get(lib.lvn_outcome(status), FaultError)
    return kind(text(lib.lvn_error_text()) or "", text(lib.lvn_error_trace()) or "")


def check(status: int) -> None:
    """Raise the exception of a failed call."""
    if status:
        raise error(status)


def encode(value: Any, what: str) -> bytes:
    """A text for the library, which ends it at its first zero byte."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"{what} wants a text, and got {type(value).__name__}")
    out = os.fspath(value).encode("utf-8", "surrogateescape")
    if b"\0" in out:
        raise InputError(f"{what} has a zero byte, which no text of levin may have")
    return out


def take_text(pointer: c_void_p) -> str:
    """A text that the caller owns, as a str; frees it."""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace") if pointer else ""
    finally:
        lib.lvn_free(pointer)

