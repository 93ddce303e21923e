"""Samples from Python: a sequence of dicts of arrays, or an iterable with its fields."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _library
from .conversations import plain_rows, read_splits
from .errors import InputError

_SPLITS = ("train", "val", "test")
_KINDS = {"i": np.int32, "u": np.int32, "b": np.int32, "f": np.float32}
_WORDS = ("ids", "labels", "label", "length", "types")  # int32, whatever the type of the array
_COUNTED = ("ids", "labels", "label")  # they determine the vocabulary or the classes; the model knows the range of other fields
_CODES = {"int32": 0, "float32": 1, "uint8": 2}
_ENDLESS = 1 << 40  # samples of an iterable: trainer.max_steps ends the run


class _ReadOnce(InputError):
    """A sample of an iterable was requested again, to explain another failure."""


class Field:
    """A named array of every sample: shape of one sample; int32, float32 or uint8; integers are in [0, below), 0:
    unknown."""

    def __init__(self, shape: int | Sequence[int] = (), dtype: Any = np.int32, below: int = 0) -> None:
        kind = _KINDS.get(np.dtype(dtype).kind)
        shape = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        if kind is None or len(shape) > 3:
            raise InputError(f"a field must have at most 3 dimensions of whole numbers or floats, not {dtype} of {shape}")
        self.shape, self.dtype = tuple(_library.integer(n, "a size of a field", 1) for n in shape), np.dtype(kind)
        self.below = _library.integer(below, "below", 0)
        if np.dtype(dtype) == np.uint8:
            self.dtype = np.dtype(np.uint8)

    def __repr__(self) -> str:
        return f"Field({self.shape}, {self.dtype}, below={self.below})"


def _rows(split: Any) -> Iterator[Any]:
    """The samples of a sequence, read by index: iteration over an object without __iter__ ends only at an IndexError."""
    return (split[i] for i in range(len(split)))


def _field_of(name: str, value: Any, below: int) -> Field:
    array = np.asarray(value)
    if array.dtype.kind not in _KINDS:
        file = "; texts are read from a file: data={'path': 'rows.csv'}" if array.dtype.kind == "U" else ""
        raise InputError(f"the field '{name}' of a sample must have numbers, not {array.dtype}{file}")
    return Field(array.shape, np.int32 if name in _WORDS and array.dtype.kind in "iub" else array.dtype, below)


class Data(_library.NotCopied):
    """The data of `levin.Run(data=...)` for the library. train, val, test: sequences of dicts; train may also be an
    iterable (with `fields`), which is read once."""

    def __init__(self, data: Any, fields: Mapping[str, Any] | None = None, classes: Sequence[str] | None = None) -> None:
        given = read_splits(data)
        if "train" not in given or not set(given) <= set(_SPLITS):
            raise InputError(f"data given as a dict must have 'train', and may have 'val' (or 'validation') and 'test'; these have "
                             f"{', '.join(map(repr, data))}")
        self.splits = [given.get(s) for s in _SPLITS]
        train = self.splits[0]
        self.is_iterable = not (hasattr(train, "__getitem__") and hasattr(train, "__len__"))
        if self.is_iterable and not isinstance(train, Iterable):
            raise InputError(f"data must be a sequence of dicts or an iterable of them, not {type(train).__name__}")
        if self.is_iterable and not fields:
            raise InputError("data given as an iterable also need fields={name: levin.Field(shape, dtype, below)}: they are "
                             "not read before the run starts")
        for name, split in zip(_SPLITS[1:], self.splits[1:]):
            if split is not None and not (hasattr(split, "__getitem__") and hasattr(split, "__len__")):
                raise InputError(f"data['{name}'] must be a sequence of dicts, not {type(split).__name__}")
        self.splits = [plain_rows(s) for s in self.splits]
        self.classes = self._classes(classes)
        self._class_of = {name: k for k, name in enumerate(self.classes)}
        self.fields = self._fields(fields)
        for name in self.fields:
            if not isinstance(name, str):
                raise InputError(f"the name of a field must be a text, not {name!r}")
        self.exception: BaseException | None = None
        self._lock = threading.Lock()
        self._iterator: Iterator[Any] | None = None
        self._position = 0
        self._build()

    def _classes(self, given: Sequence[str] | None) -> list[str]:
        """The names of the classes: the given ones, or the strings of the training samples; []: labels are numbers."""
        if given is not None:
            names = list(given)
            if not names or isinstance(given, str) or not all(isinstance(k, str) for k in names):
                raise InputError("classes must be a list of names, one for each class")
        else:
            rows = [] if self.is_iterable else self.splits[0]
            if not len(rows) or not isinstance(rows[0], Mapping) or not isinstance(rows[0].get("label"), str):
                return []
            different = {self._label(r, f"sample {i} of train") for i, r in enumerate(_rows(rows))}
            names = sorted(different, key=lambda k: k.encode())
            if len(names) < 2:
                raise InputError(f"all samples of train have the label {names[0]!r}: a classifier needs at least two classes")
            for split, rows in zip(_SPLITS[1:], self.splits[1:]):
                for i, r in enumerate(() if rows is None else _rows(rows)):
                    if self._label(r, f"sample {i} of {split}") not in different:
                        raise InputError(f"sample {i} of {split} has the label {r['label']!r}, which no sample of train has; "
                                         f"their labels are {', '.join(map(repr, names[:8]))}")
        seen: set[str] = set()
        for name in names:
            if not name.strip() or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name) or name in seen:
                raise InputError(f"the class {name!r} is empty, contains a line end or a control character, or is listed twice")
            seen.add(name)
        return names

    @staticmethod
    def _label(sample: Any, where: str) -> str:
        label = sample.get("label") if isinstance(sample, Mapping) else None
        if not isinstance(label, str):
            raise InputError(f"{where} has the label {label!r}, but others have names: give a name to each")
        return label

    def _value(self, where: str, name: str, sample: Mapping[str, Any]) -> Any:
        """The value of a field; for a label given as a name, its index."""
        if not isinstance(sample, Mapping):
            raise InputError(f"{where} is a {type(sample).__name__}, but a sample must be a dict of arrays")
        if name not in sample:
            raise InputError(f"{where} has no field '{name}'; it has {', '.join(map(str, sample))}")
        value = sample[name]
        if name != "label" or not isinstance(value, str):
            return value
        if value not in self._class_of:
            raise InputError(f"{where}: the label is {value!r}, but the classes are "
                             f"{', '.join(map(repr, self.classes[:8])) or 'numbers'}")
        return self._class_of[value]

    def _fields(self, given: Mapping[str, Any] | None) -> dict[str, Field]:
        if given:
            if not isinstance(given, Mapping):
                raise InputError(f"fields must be a dict, as {{'ids': levin.Field((16,))}}, not {type(given).__name__}")
            return {k: f if isinstance(f, Field) else Field(*f) if isinstance(f, tuple) else Field(**f)
                    for k, f in given.items()}
        rows = self.splits[0]
        if not len(rows):
            raise InputError("data['train'] is empty: give at least one sample")
        if not isinstance(rows[0], Mapping):
            raise InputError(f"a sample must be a dict of arrays, but data[0] is a {type(rows[0]).__name__}")
        out = {}
        for name in rows[0]:
            below, value = 0, self._value("sample 0 of train", name, rows[0])
            if np.asarray(value).dtype.kind in "iub" and name in _COUNTED:  # the largest number of all samples
                values = (np.asarray(self._value(f"sample {i} of {split}", name, r))
                          for split, s in zip(_SPLITS, self.splits) if s is not None for i, r in enumerate(_rows(s)))
                below = max(0, 1 + max(int(v.max()) if v.size else -1 for v in values))
            out[name] = _field_of(name, value, below)
        return out

    def _build(self) -> None:
        if not 1 <= len(self.fields) <= 5:
            raise InputError(f"a sample must have 1 to 5 fields, but these have {', '.join(self.fields) or 'none'}")
        rows = _library.sized(_library.RunField, len(self.fields))
        for row, (name, f) in zip(rows, self.fields.items()):
            row.name, row.dtype, row.rank, row.below = _library.encode(name, "a field's name"), _CODES[f.dtype.name], len(f.shape), f.below
            for k, n in enumerate(f.shape):
                row.dim[k] = n
        vocab = [self.fields[k].below for k in ("ids", "labels") if k in self.fields and "ids" in self.fields]
        self._sample = _library.ON_SAMPLE(self._read)
        self.c = _library.sized(_library.RunData, n_fields=len(rows), field=rows,
                               vocab_size=max(vocab, default=0), is_stream=self.is_iterable, sample=self._sample,
                               n_classes=len(self.classes))
        self.c.classes = (ctypes.c_char_p * len(self.classes))(*(k.encode() for k in self.classes))
        for i, split in enumerate(self.splits):
            self.c.samples[i] = _ENDLESS if self.is_iterable and i == 0 else len(split) if split is not None else 0

    # --- called by the library's threads ---

    def _read(self, context: Any, split: int, i: int, out: Any, error: Any) -> int:
        try:
            sample = self._next(i) if self.is_iterable and split == 0 else self.splits[split][i]
            where = f"sample {i} of {_SPLITS[split]}"
            for k, (name, f) in enumerate(self.fields.items()):
                self._write(where, name, f, sample, out[k])
            return 0
        except BaseException as e:  # noqa: BLE001 - fit() raises it
            if self.exception is None and not isinstance(e, _ReadOnce):
                self.exception = e
            try:
                message = f"{type(e).__name__}: {e}"
            except Exception:  # noqa: BLE001 - its own __str__() has failed
                message = type(e).__name__
            text = message.encode("utf-8", "replace")[:398] + b"\0"
            ctypes.memmove(error, text, len(text))
            return 1

    def _write(self, where: str, name: str, f: Field, sample: Mapping[str, Any], to: int) -> None:
        array = np.asarray(self._value(where, name, sample))
        if array.shape != f.shape:
            raise InputError(f"{where}: the field '{name}' has the shape {array.shape}, expected {f.shape}")
        if _KINDS.get(array.dtype.kind) is None or (
                array.dtype != f.dtype if f.dtype == np.uint8 else f.dtype == np.int32 and array.dtype.kind == "f"):
            raise InputError(f"{where}: the field '{name}' has the type {array.dtype}, expected {f.dtype}")
        if f.dtype == np.int32 and array.size and not (-2**31 <= array.min() and array.max() < 2**31):
            raise InputError(f"{where}: the field '{name}' has values from {array.min()} to {array.max()}, expected int32")
        n = int(np.prod(f.shape, dtype=np.int64))
        target = np.frombuffer((ctypes.c_char * (n * f.dtype.itemsize)).from_address(to), f.dtype)
        target[:] = np.ascontiguousarray(array).reshape(-1)

    def _next(self, i: int) -> Any:
        """Sample i of the iterable. The samples before it are skipped: another rank reads them, or the run that this one
        continues has read them. The library reads a rank's samples in rising order."""
        with self._lock:
            if i < self._position:
                raise _ReadOnce(f"sample {i} of the iterable was already read: an iterable is read once and in order")
            if self._iterator is None:
                self._iterator = iter(self.splits[0])
            while True:
                try:
                    sample = next(self._iterator)
                except StopIteration:
                    raise InputError(f"the iterable ended after {self._position} samples, but the run needs more: give "
                                     "more data, or a smaller trainer.max_steps") from None
                self._position += 1
                if self._position == i + 1:
                    return sample
