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

_REQUIRED_KEYS = ({"messages"}, {"conversations"}, {"prompt", "completion"}, {"instruction", "output"})
_KEYS = {"train": "data.path", "val": "data.val_path", "test": "data.test_path"}
_SPLIT_ALIASES = {"validation": "val"}  # as in a datasets.DatasetDict


def json_row(row: Any, what: str) -> str:
    """A row as JSON on one line."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        return text
    except (TypeError, ValueError, RecursionError) as e:
        raise InputError(f"{what} cannot be written as JSON: {e}") from None


def plain_rows(data: Any) -> Any:
    """The rows of a pandas DataFrame as dicts, the elements of a Series as a list; other data unchanged."""
    if not hasattr(data, "iloc"):
        return data
    return data.to_dict("records") if hasattr(data, "columns") else list(data)


def read_splits(data: Any) -> dict[Any, Any]:
    """The splits of the data by their names here; data that are not a dict are those of train."""
    if not isinstance(data, Mapping):
        return {"train": data}
    out: dict[Any, Any] = {}
    for name, rows in data.items():
        split = _SPLIT_ALIASES.get(name, name)
        if split in out:
            raise InputError(f"data has both '{split}' and its other name, '{name}': give one of them")
        out[split] = rows
    return out


def _peek(data: Any) -> tuple[Any, Any]:
    """The first row (None: no rows), and the data. An iterator is replaced by one that still yields its first row."""
    if isinstance(data, Iterator):
        rows = list(itertools.islice(data, 1))
        return (rows[0] if rows else None), itertools.chain(rows, data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return next(iter(data), None), data
    return None, data


def _acquire(folder: str) -> int:
    """Create the folder, and return a file descriptor with a shared lock, held while this process uses the folder."""
    while True:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise FaultError(f"'{folder}' belongs to another user or is not a folder; set TMPDIR to a folder that you own")
        try:
            lock = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.path.exists(os.path.join(folder, ".lock")):
            return lock
        os.close(lock)  # the last user has removed the folder meanwhile


def _release(folder: str, lock: int, process: int) -> None:
    """Release the lock, and remove the folder if no other process holds one."""
    if os.getpid() == process:  # not in a fork
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


class Conversations:
    """Temporary files with the conversations of `levin.Run(data=...)`, removed when the last object that uses them is deleted.
    `keys`: the settings that refer to them. Their folder is named by the contents, so that all ranks have the same paths."""

    def __init__(self, splits: Mapping[str, Any]) -> None:
        checksum = hashlib.sha256()
        with tempfile.TemporaryDirectory(prefix="levin-conversations-") as temporary:
            for name, rows in splits.items():
                checksum.update(name.encode())
                with open(os.path.join(temporary, f"{name}.jsonl"), "wb") as f:
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
                os.replace(os.path.join(temporary, f"{name}.jsonl"), self.keys[_KEYS[name]])


def conversations(data: Any) -> tuple[Conversations | None, Any]:
    """If the rows of `data` are conversations (_REQUIRED_KEYS): their files, and None. Otherwise: None, and the data
    unchanged."""
    splits = {k: plain_rows(v) for k, v in read_splits(data).items()}
    if "train" not in splits or not set(splits) <= set(_KEYS):
        return None, data
    first, splits["train"] = _peek(splits["train"])
    if not isinstance(first, Mapping) or not any(keys <= set(first) for keys in _REQUIRED_KEYS):
        return None, splits if isinstance(data, Mapping) else splits["train"]
    return Conversations({k: v for k, v in splits.items() if v is not None}), None


__all__ = ["Conversations", "conversations", "json_row", "plain_rows", "read_splits"]
