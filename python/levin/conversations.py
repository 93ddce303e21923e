"""Conversations from Python: rows of `levin.Run(data=...)`, as JSON in temporary files that data.kind=chat reads."""
from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .errors import InputError

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


class Conversations:
    """Files of the conversations of `levin.Run(data=...)`, which are removed with this object. `keys`: the settings that
    name them."""

    def __init__(self, splits: Mapping[str, Any]) -> None:
        folder = tempfile.mkdtemp(prefix="levin-conversations-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.keys = {"data.kind": "chat", **dict.fromkeys(_KEYS.values(), "")}
        for name, rows in splits.items():
            path = os.path.join(folder, f"{name}.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                for i, row in enumerate(rows):
                    if not isinstance(row, Mapping):
                        raise InputError(f"row {i} of {name} is a {type(row).__name__}, and a row of conversations must be a "
                                         "dict, as {'messages': [...]}")
                    f.write(json_row(dict(row), f"row {i} of {name}") + "\n")
            self.keys[_KEYS[name]] = path


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
