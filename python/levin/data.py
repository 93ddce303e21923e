"""Samples that Python gives: a sequence of dicts of arrays, or an iterable with its fields."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _library
from .errors import InputError

_SPLITS = ("train", "val", "test")
_NAMES = {"validation": "val"}  # as in a datasets.DatasetDict
_KINDS = {"i": np.int32, "u": np.int32, "b": np.int32, "f": np.float32}
_WORDS = ("ids", "labels", "label", "length", "types")  # int32, whatever the array has
_CODES = {"int32": 0, "float32": 1, "uint8": 2}
_STREAM = 1 << 40  # samples of an iterable: trainer.max_steps ends the run


class Field:
    """A named array of every sample: shape of one sample; int32, float32 or uint8; integers lie in [0, below), 0: not
    known."""

    def __init__(self, shape: Sequence[int] = (), dtype: Any = np.int32, below: int = 0) -> None:
        kind = _KINDS.get(np.dtype(dtype).kind)
        if kind is None or len(tuple(shape)) > 3:
            raise InputError(f"a field wants at most 3 dimensions of whole numbers or floats, and got {dtype} of {shape}")
        self.shape, self.dtype, self.below = tuple(int(n) for n in shape), np.dtype(kind), int(below)
        if np.dtype(dtype) == np.uint8:
            self.dtype = np.dtype(np.uint8)

    def __repr__(self) -> str:
        return f"Field({self.shape}, {self.dtype}, below={self.below})"


def _field_of(name: str, value: Any, below: int) -> Field:
    array = np.asarray(value)
    if array.dtype.kind not in _KINDS:
        raise InputError(f"the field '{name}' of a sample wants numbers, and got {array.dtype}")
    return Field(array.shape, np.int32 if name in _WORDS and array.dtype.kind in "iub" else array.dtype, below)


class Data:
    """What `levin.Run(data=...)` takes, ready for the library. train, val, test: sequences of dicts, or train alone an
    iterable (with `fields`), whose samples come once."""

    def __init__(self, data: Any, fields: Mapping[str, Any] | None = None) -> None:
        given = {_NAMES.get(k, k): v for k, v in data.items()} if isinstance(data, Mapping) else {"train": data}
        if "train" not in given or not set(given) <= set(_SPLITS):
            raise InputError(f"data that are a dict have 'train', and perhaps 'val' (or 'validation') and 'test'; these have "
                             f"{', '.join(map(repr, data))}")
        self.splits = [given.get(s) for s in _SPLITS]
        train = self.splits[0]
        self.is_stream = not (hasattr(train, "__getitem__") and hasattr(train, "__len__"))
        if self.is_stream and not isinstance(train, Iterable):
            raise InputError(f"data wants a sequence of dicts or an iterable of them, and got {type(train).__name__}")
        if self.is_stream and not fields:
            raise InputError("data that are an iterable want fields={name: levin.Field(shape, dtype, below)} too: they are "
                             "not read before the run begins")
        for name, split in zip(_SPLITS[1:], self.splits[1:]):
            if split is not None and not (hasattr(split, "__getitem__") and hasattr(split, "__len__")):
                raise InputError(f"data['{name}'] wants a sequence of dicts, and got {type(split).__name__}")
        self.splits = [self._rows(s) for s in self.splits]
        self.fields = self._fields(fields)
        self.exception: BaseException | None = None
        self._lock = threading.Lock()
        self._iterator: Iterator[Any] | None = None
        self._position = 0
        self._ahead: dict[int, Any] = {}
        self._build()

    @staticmethod
    def _rows(split: Any) -> Any:
        """pandas: its rows, by position."""
        return split.to_dict("records") if hasattr(split, "to_dict") and hasattr(split, "iloc") else split

    def _fields(self, given: Mapping[str, Any] | None) -> dict[str, Field]:
        if given:
            return {k: f if isinstance(f, Field) else Field(*f) if isinstance(f, tuple) else Field(**f)
                    for k, f in given.items()}
        rows = self.splits[0]
        if not len(rows):
            raise InputError("data['train'] is empty: give at least one sample")
        if not isinstance(rows[0], Mapping):
            raise InputError(f"a sample wants to be a dict of arrays, and data[0] is a {type(rows[0]).__name__}")
        out = {}
        for name, value in rows[0].items():
            below = 0
            if np.asarray(value).dtype.kind in "iub" and (name in _WORDS or np.asarray(value).dtype != np.uint8):  # the largest number of all samples
                below = 1 + max((int(np.asarray(r[name]).max()) for s in self.splits if s is not None for r in s), default=0)
            out[name] = _field_of(name, value, below)
        return out

    def _build(self) -> None:
        if len(self.fields) > 4:
            raise InputError(f"a sample has at most 4 fields, and these have {len(self.fields)}: {', '.join(self.fields)}")
        rows = (_library.RunField * len(self.fields))()
        for row, (name, f) in zip(rows, self.fields.items()):
            row.name, row.dtype, row.rank, row.below = name.encode(), _CODES[f.dtype.name], len(f.shape), f.below
            for k, n in enumerate(f.shape):
                row.dim[k] = n
        ids = self.fields.get("ids")
        self._sample = _library.ON_SAMPLE(self._read)
        self.c = _library.RunData(size=ctypes.sizeof(_library.RunData), n_fields=len(rows), field=rows,
                               vocab_size=ids.below if ids else 0, is_stream=self.is_stream, sample=self._sample)
        for i, split in enumerate(self.splits):
            self.c.samples[i] = _STREAM if self.is_stream and i == 0 else len(split) if split is not None else 0

    # --- called by the library's threads ---

    def _read(self, context: Any, split: int, i: int, out: Any, error: Any) -> int:
        try:
            sample = self._next(i) if self.is_stream and split == 0 else self.splits[split][i]
            where = f"sample {i} of {_SPLITS[split]}"
            if not isinstance(sample, Mapping):
                raise InputError(f"{where} is a {type(sample).__name__}: a sample is a dict of arrays")
            for k, (name, f) in enumerate(self.fields.items()):
                self._write(where, name, f, sample, out[k])
            return 0
        except BaseException as e:  # noqa: BLE001 - it comes out of fit()
            if self.exception is None:
                self.exception = e
            ctypes.memmove(error, f"{type(e).__name__}: {e}".encode()[:398] + b"\0", min(399, 1 + len(
                f"{type(e).__name__}: {e}".encode()[:398])))
            return 1

    @staticmethod
    def _write(where: str, name: str, f: Field, sample: Mapping[str, Any], to: int) -> None:
        if name not in sample:
            raise InputError(f"{where} has no field '{name}'; it has {', '.join(map(str, sample))}")
        array = np.asarray(sample[name])
        if array.shape != f.shape:
            raise InputError(f"{where}: the field '{name}' wants the shape {f.shape}, and has {array.shape}")
        if _KINDS.get(array.dtype.kind) is None or (
                array.dtype != f.dtype if f.dtype == np.uint8 else f.dtype == np.int32 and array.dtype.kind == "f"):
            raise InputError(f"{where}: the field '{name}' wants {f.dtype}, and is {array.dtype}")
        if f.dtype == np.int32 and array.size and not (-2**31 <= array.min() and array.max() < 2**31):
            raise InputError(f"{where}: the field '{name}' wants int32, and has {array.min()} to {array.max()}")
        n = int(np.prod(f.shape, dtype=np.int64))
        target = np.frombuffer((ctypes.c_char * (n * f.dtype.itemsize)).from_address(to), f.dtype)
        target[:] = np.ascontiguousarray(array).reshape(-1)

    def _next(self, i: int) -> Any:
        """Sample i of the iterable; those before it, which a run that continues had, are skipped."""
        with self._lock:
            if i in self._ahead:
                return self._ahead.pop(i)
            if i < self._position:
                raise InputError(f"sample {i} of the iterable was read already: an iterable is read once, in its order")
            if self._iterator is None:
                self._iterator = iter(self.splits[0])
            while True:
                try:
                    sample = next(self._iterator)
                except StopIteration:
                    raise InputError(f"the iterable ended after {self._position} samples, and the run wants more: give "
                                     "more data, or a smaller trainer.max_steps") from None
                self._position += 1
                if self._position == i + 1:
                    return sample
                if self._position > i - 4096:  # another thread may want it
                    self._ahead[self._position - 1] = sample
