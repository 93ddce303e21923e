"""Conversations from Python: rows of `levin.Run(data=...)`, as JSON in temporary files that data.kind=chat reads."""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .errors import FaultError, InputError

_FORMS = ({"messages"}, {"conversations"}, {"prompt", "completion"}, {"instruction", "output"})
_KEYS = {"train": "data.path", "val": "data.val_path", "test": "data.test_path"}
_NAMES = {"validation": "val"}  # as in a datasets.DatasetDict


def json_row(row: Any, what: str) -> str:
    """A row as JSON on one line."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        return text
    except (TypeError, ValueError, RecursionError) as e:
        raise InputError(f"{what} cannot be written as JSON: {e}") from None


def _rows(data: Any) -> Any:
    """pandas: its rows, by position."""
    return data.to_dict("records") if hasattr(data, "to_dict") and hasattr(data, "iloc") else data


def _peek(data: Any) -> tuple[Any, Any]:
    """The first row (None: there is none), and the same data; an iterator continues after a look at its first row."""
    if isinstance(data, Iterator):
        rows = list(itertools.islice(data, 1))
        return (rows[0] if rows else None), itertools.chain(rows, data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return next(iter(data), None), data
    return None, data


def _acquire(folder: str) -> int:
    """Makes the folder, and returns a file that is locked while this process uses it."""
    while True:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise FaultError(f"'{folder}' belongs to another user, or is no folder: set TMPDIR to a folder of your own")
        try:
            lock = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.path.exists(os.path.join(folder, ".lock")):
            return lock
        os.close(lock)  # the last user has removed the folder meanwhile


def _release(folder: str, lock: int, process: int) -> None:
    """Removes the folder with its last user."""
    if os.getpid() == process:  # not in a fork
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


class Conversations:
    """Files of the conversations of `levin.Run(data=...)`, which are removed with the last object that uses them. `keys`: the
    settings that name them. Their folder is named by the contents, so that all ranks have the same paths."""

    def __init__(self, splits: Mapping[str, Any]) -> None:
        checksum = hashlib.sha256()
        with tempfile.TemporaryDirectory(prefix="levin-conversations-") as mine:
            for name, rows in splits.items():
                checksum.update(name.encode())
                with open(os.path.join(mine, f"{name}.jsonl"), "wb") as f:
                    for i, row in enumerate(rows):
                        if not isinstance(row, Mapping):
                            raise InputError(f"row {i} of {name} is a {type(row).__name__}, and a row of conversations must be a "
                                             "dict, as {'messages': [...]}")
                        line = json_row(dict(row), f"row {i} of {name}").encode() + b"\n"
                        checksum.update(line)
                        f.write(line)
            folder = os.path.join(tempfile.gettempdir(), f"levin-conversations-{os.getuid()}-{checksum.hexdigest()[:32]}")
            weakref.finalize(self, _release, folder, _acquire(folder), os.getpid())
            self.keys = {"data.kind": "chat", **dict.fromkeys(_KEYS.values(), "")}
            for name in splits:
                self.keys[_KEYS[name]] = os.path.join(folder, f"{name}.jsonl")
                os.replace(os.path.join(mine, f"{name}.jsonl"), self.keys[_KEYS[name]])


def conversations(data: Any) -> tuple[Conversations | None, Any]:
    """The conversations of the argument `data` of a run, if its rows have their members; and the data, which remain as
    they are otherwise."""
    splits = {_NAMES.get(k, k): _rows(v) for k, v in data.items()} if isinstance(data, Mapping) else {"train": _rows(data)}
    if "train" not in splits or not set(splits) <= set(_KEYS):
        return None, data
    first, splits["train"] = _peek(splits["train"])
    if not isinstance(first, Mapping) or not any(form <= set(first) for form in _FORMS):
        return None, splits if isinstance(data, Mapping) else splits["train"]
    return Conversations({k: v for k, v in splits.items() if v is not None}), None


__all__ = ["Conversations", "conversations", "json_row"]
