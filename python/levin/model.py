"""A trained model: evaluated, asked for text or classes, its numbers as arrays."""
from __future__ import annotations

import ctypes
import os
import queue
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_char_p, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from . import _library
from ._library import byref, lib
from .arrays import bfloat16, from_memory
from .errors import InputError
from .settings import Settings


class Evaluation(NamedTuple):
    """What `Model.evaluate()` returns."""

    loss: float  # mean over labels
    metrics: dict[str, float]  # accuracy, f1, perplexity ...
    split: str  # that was evaluated
    samples: int
    labels: int
    skipped: int  # rows of the data that cannot be used
    confusion: np.ndarray | None  # (classes, classes) int64: true class, predicted class


class Prediction(NamedTuple):
    """What `Model.predict()` returns, a row for each text."""

    label: np.ndarray | None  # (n) int64; None: the model predicts numbers
    name: list[str] | None  # (n) of these classes
    probabilities: np.ndarray | None  # (n, classes) float64
    number: np.ndarray | None = None  # (n) float64; None: the model predicts classes


def load(model: str | os.PathLike[str], **keys: Any) -> Model:
    """Open a MODEL: a run (its best checkpoint), a checkpoint, a folder of Hugging Face, a published name, a path of a
    store. keys: settings, as `trainer__accelerator="cpu"`. Raises FaultError if it is not there or not whole."""
    return Model(model, keys)


class Model:
    """A loaded model. Weights are read when they are first needed and stay; `close()`, or `with`, releases them."""

    def __init__(self, model: str | os.PathLike[str], keys: Mapping[str, Any]) -> None:
        self._pointer = c_void_p()
        self.name, self._keys = os.fspath(model), dict(keys)
        self.settings = self._settings({})
        _library.check(lib.lvn_inference_open(byref(self._pointer), self.settings._p))
        self._lock = threading.Lock()  # one call at a time

    def _settings(self, keys: Mapping[str, Any]) -> Settings:
        s = Settings()
        _library.check(lib.lvn_settings_model(s._p, _library.encode(self.name, "model")))
        s.put(self._keys)
        s.put(keys)
        return s

    def close(self) -> None:
        """Release the memory. Arrays of `parameters()` that share it must not be used afterwards."""
        pointer, self._pointer = self._pointer, c_void_p()
        lib.lvn_inference_close(pointer)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()

    def _need(self) -> c_void_p:
        if not self._pointer:
            raise InputError(f"the model '{self.name}' is closed: levin.load() opens it again")
        return self._pointer

    @property
    def vocab_size(self) -> int:
        return lib.lvn_inference_vocab_size(self._need())

    @property
    def block_size(self) -> int:
        """The longest window in tokens."""
        return lib.lvn_inference_block_size(self._need())

    # --- text ---

    def encode(self, text: str) -> np.ndarray:
        """Ids (n) int32 of a text, with the tokens that the tokenizer adds."""
        raw, out, n = _library.encode(text, "text"), c_void_p(), c_int64()
        _library.check(lib.lvn_inference_encode(self._need(), raw, len(raw), byref(out), byref(n)))
        try:
            return np.array(from_memory(out.value, (n.value,), np.int32)) if n.value else np.zeros(0, np.int32)
        finally:
            lib.lvn_free(out)

    def decode(self, ids: Any) -> str:
        """The text of ids (n)."""
        row, out = self._ids(ids, 1), c_void_p()
        _library.check(lib.lvn_inference_decode(self._need(), row.ctypes.data, row.size, byref(out)))
        return _library.take_text(out)

    @staticmethod
    def _ids(ids: Any, rank: int) -> np.ndarray:
        array = np.asarray(ids)
        if array.size and array.dtype.kind not in "iu":
            raise InputError(f"ids wants whole numbers, and got {array.dtype}")
        if array.ndim != rank:
            raise InputError(f"ids wants {rank} dimension{'s' if rank > 1 else ''}, and got the shape {array.shape}")
        if array.size and not -2**31 <= int(array.min()) <= int(array.max()) < 2**31:
            raise InputError("ids wants numbers of 32 bits")
        return np.ascontiguousarray(array, np.int32)

    def generate(self, prompt: str | Sequence[int] | np.ndarray, max_new_tokens: int = 100, temperature: float = 1.0,
                 top_k: int = 0, top_p: float = 0.0, seed: int = 0, stream: bool = False,
                 number: int = 0) -> str | Iterator[str]:
        """The continuation of a prompt (a text, or ids), without the prompt; the bits of `levin generate`.

        temperature 0 takes the likeliest token. number: of the sample, each has its own random numbers. stream: yields
        the text piece by piece, while it is made; closing the iterator ends it.
        """
        ids = self.encode(prompt) if isinstance(prompt, str) else self._ids(prompt, 1)
        if not ids.size:
            raise InputError("a prompt has at least one token, and this one is empty")
        options = _library.Generation(size=ctypes.sizeof(_library.Generation), prompt=ids.ctypes.data, n_prompt=ids.size,
                                   max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p,
                                   seed=seed, number=number)
        return self._stream(options, ids) if stream else self._generate(options, ids)

    def _generate(self, options: Any, ids: np.ndarray) -> str:
        with self._lock:
            status = lib.lvn_inference_generate(self._need(), byref(options))
            failure = _library.error(status) if status else None
        lib.lvn_free(options.ids)
        text = _library.take_text(c_void_p(options.text))
        if failure:
            raise failure
        return text

    def _stream(self, options: Any, ids: np.ndarray) -> Iterator[str]:
        pieces: queue.Queue[Any] = queue.Queue()
        over = threading.Event()

        @_library.ON_TOKEN
        def on_token(context: Any, token: int, text: bytes) -> int:
            if text:
                pieces.put(text.decode("utf-8", "replace"))
            return 0 if over.is_set() else 1

        def work() -> None:
            try:
                self._generate(options, ids)
                pieces.put(None)
            except BaseException as e:  # noqa: BLE001 - it comes out of the iterator
                pieces.put(e)

        options.on_token = on_token
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            over.set()
            thread.join()

    # --- numbers ---

    def logits(self, ids: Any) -> np.ndarray:
        """The prediction for ids (T) or (B,T), without dropout, as float32: of language models (T,V) or (B,T,V), of
        classifiers (classes) or (B,classes)."""
        array = np.asarray(ids)
        rows = self._ids(array, array.ndim if array.ndim in (1, 2) else 2)
        B, T = rows.shape if rows.ndim == 2 else (1, rows.size)
        out, shape, rank = c_void_p(), (c_int64 * 4)(), c_int64()
        with self._lock:
            _library.check(lib.lvn_inference_logits(self._need(), rows.ctypes.data, B, T, byref(out), shape, byref(rank)))
            result = np.array(from_memory(out.value, tuple(shape[:rank.value]), np.float32))
        return result if rows.ndim == 2 else result[0]

    def parameters(self) -> dict[str, Any]:
        """The parameters by their Hugging Face names, in the files' layout: numpy arrays, of bf16 `levin.BFloat16Array`,
        which `torch.from_dlpack()` takes.

        Those that lie so in host memory share it: what is written there is what the next call computes with. The others
        (another layout, a device's memory) are copies, and cannot be written (`flags.writeable`).
        """
        n, row, out = c_int64(), _library.Parameter(), {}
        with self._lock:
            _library.check(lib.lvn_inference_parameters(self._need(), byref(n)))
            for i in range(n.value):
                _library.check(lib.lvn_inference_parameter(self._pointer, i, byref(row)))
                shape, kind = tuple(row.shape[:row.rank]), np.uint16 if row.dtype else np.float32
                if row.data:
                    array = from_memory(row.data, shape, kind, owner=self)
                else:
                    array = np.empty(shape, kind)
                    _library.check(lib.lvn_inference_copy(self._pointer, i, array.ctypes.data, array.nbytes))
                    array.flags.writeable = False
                out[row.name.decode()] = bfloat16(array) if row.dtype else array
        return out

    def gradients(self, **keys: Any) -> dict[str, Any]:
        """The gradient of the mean loss on data (keys: `data__path=...`, as of `evaluate()`), by Hugging Face name."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gradients.safetensors")
            self._evaluate(keys, 0, path)
            return read_safetensors(path)

    # --- data ---

    def evaluate(self, *, limit: int = 0, **keys: Any) -> Evaluation:
        """Loss and metrics on data, as `levin evaluate`: by default the run's validation data; keys: `data__path=...`,
        `data__split="test"`. limit: so many batches, evenly spaced; 0: all."""
        return self._evaluate(keys, limit, None)

    def _evaluate(self, keys: Mapping[str, Any], limit: int, gradients: str | None) -> Evaluation:
        s, out = self._settings(keys), _library.EvaluatedModel()
        _library.check(lib.lvn_evaluate_model(s._p, limit, gradients.encode() if gradients else None, byref(out)))
        confusion = None
        if out.classes:
            shape = (out.classes, out.classes)
            confusion = np.array(from_memory(out.confusion, shape, np.float64)).astype(np.int64)
            lib.lvn_free(out.confusion)
        metrics = {out.metric[i].name.decode(): out.metric[i].value for i in range(out.n_metrics)}
        return Evaluation(out.loss, metrics, out.split.decode(), out.samples, out.labels, out.skipped, confusion)

    def predict(self, texts: str | Sequence[str], pairs: Sequence[str] | None = None, **keys: Any) -> Prediction:
        """The class, or the number, of each text, as `levin predict`. pairs: the second text of each, for a model that learnt from
        pairs."""
        rows = [texts] if isinstance(texts, str) else list(texts)
        if not rows:
            raise InputError("predict wants at least one text, and got none")
        if pairs is not None and len(pairs) != len(rows):
            raise InputError(f"predict wants a second text for each, and got {len(pairs)} for {len(rows)} texts")
        first = (c_char_p * len(rows))(*(_library.encode(t, f"text {i}") for i, t in enumerate(rows)))
        second = pairs and (c_char_p * len(rows))(*(_library.encode(t, f"pair {i}") for i, t in enumerate(pairs)))
        s, out = self._settings(keys), _library.Classified()
        _library.check(lib.lvn_classify(s._p, first, second, len(rows), byref(out)))
        p = np.array(from_memory(out.probability, (out.n, out.classes), np.float64))
        lib.lvn_free(out.probability)
        names = _library.take_text(c_void_p(out.names)).split("\n")
        if names == [""]:
            return Prediction(None, None, None, p[:, 0])
        label = p.argmax(axis=1)
        return Prediction(label, [names[i] for i in label], p)

    def __repr__(self) -> str:
        return f"<levin.Model {self.name}>"


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tensors of a file, as arrays of their own."""
    import json
    kinds = {"F32": np.float32, "F64": np.float64, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "I32": np.int32}
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        rest = f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        array = np.frombuffer(rest[begin:end], kinds[t["dtype"]]).reshape(t["shape"])
        out[name] = bfloat16(array) if t["dtype"] == "BF16" else array
    return out


__all__ = ["Evaluation", "Model", "Prediction", "load", "read_safetensors"]
