"""A trained model: evaluation, generation, prediction, and its parameters as arrays."""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import c_char_p, c_int64, c_void_p
from typing import Any, NamedTuple, overload

import numpy as np

from . import _library
from ._library import Interrupts, byref, lib
from .arrays import bfloat16, from_memory
from .conversations import json_row
from .errors import InputError
from .settings import Settings


def _positive(value: float, what: str) -> float:
    if not value >= 0:
        raise InputError(f"{what} is {value}: give a number of at least 0, or None for the value in the model's "
                         "generation_config.json")
    return value


def _texts(given: str | Sequence[str], what: str) -> Any:
    """Texts for the library: a text, or a sequence of them (a list, an array, a pandas.Series)."""
    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)) or hasattr(given, "columns"):  # a DataFrame
        raise InputError(f"predict() needs texts in a list or a column, not {type(given).__name__}")
    rows = [given] if isinstance(given, str) else list(given)
    return (c_char_p * len(rows))(*(_library.encode(t, f"{what} {i}") for i, t in enumerate(rows)))


class Evaluation(NamedTuple):
    """The result of `Model.evaluate()`."""

    loss: float  # mean over labels
    metrics: dict[str, float]  # loss, accuracy, f1, perplexity ...
    split: str  # the evaluated split
    samples: int
    labels: int
    skipped: int  # unusable rows of the data
    confusion: np.ndarray | None  # (classes, classes) int64: true class, predicted class


class TaskScores(NamedTuple):
    """The result of `Model.evaluate(tasks=...)`."""

    tasks: dict[str, dict[str, Any]]  # by name: "items", "num_fewshot", "truncated", and the metrics with their "..._stderr"
    core: float | None  # mean of the centered accuracies of CORE bundles; None: there is none
    items: list[dict[str, Any]] | None  # one for each item, the lines of `levin evaluate --items`; None: not requested


class Prediction(NamedTuple):
    """The result of `Model.predict()`, a row for each text."""

    label: np.ndarray | None  # (n) int64; None: the model predicts numbers
    name: list[str] | None  # (n) names of the classes in `label`; None: the model predicts numbers
    probabilities: np.ndarray | None  # (n, classes) float64
    number: np.ndarray | None = None  # (n) float64; None: the model predicts classes


def load(model: str | os.PathLike[str], **keys: Any) -> Model:
    """Open a model: a run (its best checkpoint), a checkpoint, a Hugging Face directory, the name of a published model, or a path
    in a store. keys: settings, for example `trainer__accelerator="cpu"`. Raises InputError if it is missing, FaultError if it
    is damaged."""
    return Model(model, keys)


class _Handle(_library.NotCopied):
    """An open model of the library, released with the last reference: calls in progress and arrays of `parameters()`
    outlive `Model.close()`."""

    def __init__(self, settings: Settings) -> None:
        self.pointer, self.settings = c_void_p(), settings  # the library reads the settings
        self.lock = threading.Lock()  # one call at a time
        _library.check(lib.levin_inference_open(byref(self.pointer), settings._p))

    def __del__(self, _close: Any = lib.levin_inference_close) -> None:
        if getattr(self, "pointer", None):
            _close(self.pointer)

    @contextlib.contextmanager
    def call(self) -> Iterator[c_void_p]:
        """Context of a call that computes."""
        with Interrupts(ends_early=True) as interrupts:
            interrupts.acquire(self.lock)
            try:
                yield self.pointer
            finally:
                self.lock.release()


class Model(_library.NotCopied):
    """A loaded model. Weights are read when first needed and kept; `close()` or `with` releases them.

    Several threads may call its methods: one computes at a time. Ctrl-C ends a call with KeyboardInterrupt, and the model
    can be used afterwards."""

    def __init__(self, model: str | os.PathLike[str], keys: Mapping[str, Any]) -> None:
        self._handle: _Handle | None = None
        _library.encode(model, "model")
        self.name, self._keys = os.fsdecode(model), dict(keys)
        self._found = ""  # its absolute path or URL; "": not known yet
        self.settings = self._settings({})
        with Interrupts(ends_early=True):
            self._handle = _Handle(self.settings)

    def _settings(self, keys: Mapping[str, Any]) -> Settings:
        s = Settings()
        with Interrupts(ends_early=True):
            _library.check(lib.levin_settings_model(s._p, _library.encode(self._found or self.name, "model")))
        if not self._found:
            found = s["model.init"]
            self._found = found if "://" in found else os.path.abspath(found)
        s.put(self._keys)
        s.put(keys)
        return s

    def close(self) -> None:
        """Release the memory, as soon as no call (in another thread, or an open stream) and no array of `parameters()`
        uses it."""
        self._handle = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _require_open(self) -> _Handle:
        handle = self._handle
        if not handle:
            raise InputError(f"the model '{self.name}' is closed: levin.load() opens it again")
        return handle

    @property
    def vocab_size(self) -> int:
        handle = self._require_open()
        return lib.levin_inference_vocab_size(handle.pointer)

    @property
    def block_size(self) -> int:
        """The longest window in tokens."""
        handle = self._require_open()
        return lib.levin_inference_block_size(handle.pointer)

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of `predict().probabilities` and of `evaluate().confusion`; []: the
        model is not a classifier."""
        handle, out = self._require_open(), c_void_p()
        _library.check(lib.levin_inference_classes(handle.pointer, byref(out)))
        return _library.read_text(out).split("\n")[:-1]

    # --- text ---

    def encode(self, text: str) -> np.ndarray:
        """Ids (n) int32 of a text, with the tokens that the tokenizer adds."""
        handle, raw, out, n = self._require_open(), _library.encode(text, "text"), c_void_p(), c_int64()
        _library.check(lib.levin_inference_encode(handle.pointer, raw, len(raw), byref(out), byref(n)))
        try:
            return np.array(from_memory(out.value, (n.value,), np.int32)) if n.value else np.zeros(0, np.int32)
        finally:
            lib.levin_free(out)

    def decode(self, ids: Any) -> str:
        """The text of ids (n)."""
        handle, row, out = self._require_open(), self._ids(ids, 1), c_void_p()
        _library.check(lib.levin_inference_decode(handle.pointer, row.ctypes.data, row.size, byref(out)))
        return _library.read_text(out)

    @staticmethod
    def _ids(ids: Any, rank: int) -> np.ndarray:
        array = np.asarray(ids)
        if array.size and array.dtype.kind not in "iu":
            raise InputError(f"ids must be whole numbers, not {array.dtype}")
        if array.ndim != rank:
            raise InputError(f"ids must have {rank} dimension{'s' if rank > 1 else ''}, not the shape {array.shape}")
        if array.size and not -2**31 <= int(array.min()) <= int(array.max()) < 2**31:
            raise InputError("ids must fit into 32 bits")
        return np.ascontiguousarray(array, np.int32)

    def generate(self, prompt: str | Sequence[int] | np.ndarray, max_new_tokens: int = 100, temperature: float = 1.0,
                 top_k: int = 0, top_p: float = 0.0, seed: int = 0, stream: bool = False,
                 number: int = 0) -> str | Iterator[str]:
        """The continuation of a prompt (a text, or ids), without the prompt; the same as from `levin generate`.

        temperature 0 chooses the most likely token. number: selects the random numbers of this sample. stream: yields the
        text piece by piece during generation; closing the iterator ends it.
        """
        handle, integer, real = self._require_open(), _library.integer, _library.real
        ids = self.encode(prompt) if isinstance(prompt, str) else self._ids(prompt, 1)
        if not ids.size:
            raise InputError("the prompt is empty: give at least one token")
        options = _library.sized(_library.Generation, prompt=ids.ctypes.data, n_prompt=ids.size,
                                      max_new_tokens=integer(max_new_tokens, "max_new_tokens"),
                                      temperature=real(temperature, "temperature"), top_k=integer(top_k, "top_k"),
                                      top_p=real(top_p, "top_p"), seed=integer(seed, "seed"),
                                      number=integer(number, "number"))
        return self._stream(handle, options, ids) if stream else self._generate(handle, options, ids)

    def chat(self, messages: Sequence[Mapping[str, Any]], max_new_tokens: int = 512, temperature: float | None = None,
             top_k: int | None = None, top_p: float | None = None, repetition_penalty: float | None = None,
             seed: int = 0, tools: Sequence[Mapping[str, Any]] | None = None, template: str | None = None,
             stream: bool = False, number: int = 0) -> str | Iterator[str]:
        """The model's answer to a conversation: a list of messages, as [{"role": "user", "content": "Hello"}], written with
        the model's chat template.

        Options that are not given have the values of the model's generation_config.json. Without this file, or
        without do_sample in it, the most probable token is chosen. The answer has at most `max_new_tokens` tokens, and fewer if
        the context is full. template: a built-in template or a file instead of the model's. seed, number and stream are those
        of `generate()`.
        """
        handle, integer, real = self._require_open(), _library.integer, _library.real
        if isinstance(messages, (str, bytes, Mapping)):
            raise InputError("messages must be a list of dicts with role and content, as "
                             f"[{{'role': 'user', 'content': '...'}}], not {type(messages).__name__}")
        row = {"messages": list(messages)} if tools is None else {"messages": list(messages), "tools": list(tools)}
        conversation = _library.encode(json_row(row, "the conversation"), "the conversation")
        options = _library.sized(
            _library.Generation, conversation=conversation, max_new_tokens=integer(max_new_tokens, "max_new_tokens", 0),
            chat_template=None if template is None else _library.encode(template, "template"),
            temperature=-1.0 if temperature is None else _positive(real(temperature, "temperature"), "temperature"),
            top_k=-1 if top_k is None else integer(top_k, "top_k", 0),
            top_p=-1.0 if top_p is None else _positive(real(top_p, "top_p"), "top_p"),
            repetition_penalty=-1.0 if repetition_penalty is None else
            _positive(real(repetition_penalty, "repetition_penalty"), "repetition_penalty"),
            seed=integer(seed, "seed"), number=integer(number, "number"))
        return self._stream(handle, options, conversation) if stream else self._generate(handle, options, conversation)

    @staticmethod
    def _generate(handle: _Handle, options: Any, prompt: Any) -> str:
        with handle.call() as pointer:
            status = lib.levin_inference_generate(pointer, byref(options))
            failure = _library.error(status) if status else None
            lib.levin_free(options.ids)
            text = _library.read_text(c_void_p(options.text))
            if failure:
                raise failure
            return text

    def _stream(self, handle: _Handle, options: Any, prompt: Any) -> Iterator[str]:
        pieces: queue.Queue[Any] = queue.Queue()
        over = threading.Event()

        @_library.ON_TOKEN
        def on_token(context: Any, token: int, text: bytes) -> int:
            if text:
                pieces.put(text.decode("utf-8", "replace"))
            return 0 if over.is_set() else 1

        def work() -> None:
            try:
                self._generate(handle, options, prompt)
                pieces.put(None)
            except BaseException as e:  # noqa: BLE001 - the iterator raises it
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

    # --- logits, parameters, gradients ---

    def logits(self, ids: Any) -> np.ndarray:
        """The prediction for ids (T) or (B,T), without dropout, as float32: (T,V) or (B,T,V) for language models,
        (classes) or (B,classes) for classifiers."""
        array = np.asarray(ids)
        rows = self._ids(array, array.ndim if array.ndim in (1, 2) else 2)
        B, T = rows.shape if rows.ndim == 2 else (1, rows.size)
        out, shape, rank = c_void_p(), (c_int64 * 4)(), c_int64()
        handle = self._require_open()
        with handle.call() as pointer:
            _library.check(lib.levin_inference_logits(pointer, rows.ctypes.data, B, T, byref(out), shape, byref(rank)))
            result = np.array(from_memory(out.value, tuple(shape[:rank.value]), np.float32))
        return result if rows.ndim == 2 else result[0]

    def parameters(self) -> dict[str, Any]:
        """The parameters by their Hugging Face names, in the files' layout: numpy arrays; `levin.BFloat16Array`
        for bf16, which `torch.from_dlpack()` accepts.

        Parameters with this layout in host memory are shared, also after `close()`: the next call computes with the values
        written there. The others (another layout, memory of a device) are read-only copies (`flags.writeable`).
        """
        handle, n, row, out = self._require_open(), c_int64(), _library.sized(_library.Parameter), {}
        with handle.call() as pointer:
            _library.check(lib.levin_inference_parameters(pointer, byref(n)))
            for i in range(n.value):
                _library.check(lib.levin_inference_parameter(pointer, i, byref(row)))
                shape, kind = tuple(row.shape[:row.rank]), np.uint16 if row.dtype else np.float32
                if row.data:
                    array = from_memory(row.data, shape, kind, owner=handle)
                else:
                    array = np.empty(shape, kind)
                    _library.check(lib.levin_inference_copy(pointer, i, array.ctypes.data, array.nbytes))
                    array.flags.writeable = False
                out[row.name.decode()] = bfloat16(array) if row.dtype else array
        return out

    def gradients(self, **keys: Any) -> dict[str, Any]:
        """The gradient of the mean loss on data (keys: `data__path=...`, as in `evaluate()`), by Hugging Face name. The run's
        own trainer.limit_test_batches does not count."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gradients.safetensors")
            self._evaluate(keys, 0, path)
            return read_safetensors(path)

    # --- data ---

    @overload
    def evaluate(self, *, limit: int = 0, **keys: Any) -> Evaluation: ...

    @overload
    def evaluate(self, *, tasks: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], limit: int = 0,
                 num_fewshot: int | None = None, items: bool = False, **keys: Any) -> TaskScores: ...

    def evaluate(self, *, tasks: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None, limit: int = 0,
                 num_fewshot: int | None = None, items: bool = False, **keys: Any) -> Evaluation | TaskScores:
        """Loss and metrics on data, like `levin evaluate`: by default the run's validation data; keys: `data__path=...`,
        `data__split="test"`. limit: number of batches, evenly spaced; 0: trainer.limit_test_batches of the keys or, as in
        the command, of the run: by default all.

        tasks: scores in benchmark tasks instead, like `levin evaluate --tasks`: .yaml files in the form of
        lm-evaluation-harness, or folders of CORE bundles. limit: the first items of each task; num_fewshot: examples before
        each item, instead of the task's; items: also return the items."""
        if tasks is not None:
            paths = [tasks] if isinstance(tasks, (str, os.PathLike)) else list(tasks)
            return self._score(keys, paths, limit, num_fewshot, items)
        if num_fewshot is not None or items:
            raise InputError(f"evaluate() has no {'items' if items else 'num_fewshot'} without tasks: add tasks=..., or leave it out")
        return self._evaluate(keys, limit, None)

    def _score(self, keys: Mapping[str, Any], tasks: Sequence[str | os.PathLike[str]], limit: int, num_fewshot: int | None,
               items: bool) -> TaskScores:
        for key in keys:
            if key.startswith(("data__", "task__", "data.", "task.")) or key in ("data", "task"):
                raise InputError(f"{key} has no effect with tasks, whose files name their data: leave one of them out")
        if not tasks:
            raise InputError("evaluate() needs at least one task")
        shots = -1 if num_fewshot is None else _library.integer(num_fewshot, "num_fewshot", 0)
        names = (c_char_p * len(tasks))(*(_library.encode(os.fspath(t), f"task {i}") for i, t in enumerate(tasks)))
        s = self._settings(keys)
        out = _library.sized(_library.TaskScores, n_tasks=len(names), task=names, limit=_library.integer(limit, "limit", 0),
                             num_fewshot=shots, items=int(bool(items)))
        with Interrupts(ends_early=True):
            _library.check(lib.levin_evaluate_tasks(s._p, byref(out)))
            result = json.loads(_library.read_text(c_void_p(out.result)))
        return TaskScores({t.pop("task"): t for t in result["tasks"]}, result.get("core"), result.get("items"))

    def _evaluate(self, keys: Mapping[str, Any], limit: int, gradients: str | None) -> Evaluation:
        limit = _library.integer(limit, "limit", 0)
        s, out = self._settings(keys), _library.sized(_library.EvaluatedModel)
        with Interrupts(ends_early=True):
            _library.check(lib.levin_evaluate_model(s._p, limit, gradients.encode() if gradients else None, byref(out)))
            confusion = None
            if out.classes:
                shape = (out.classes, out.classes)
                confusion = np.array(from_memory(out.confusion, shape, np.float64)).astype(np.int64)
                lib.levin_free(out.confusion)
            metrics = {"loss": out.loss, **{m.name.decode(): m.value for m in _library.elements(out.metric, out.n_metrics)}}
            lib.levin_free(out.metric)
        return Evaluation(out.loss, metrics, out.split.decode(), out.samples, out.labels, out.skipped, confusion)

    def predict(self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None, **keys: Any) -> Prediction:
        """The class or the number of each text, like `levin predict`. pairs: the second text of each, for a model trained on
        pairs."""
        first = _texts(texts, "text")
        second = None if pairs is None else _texts(pairs, "pair")
        if not len(first):
            raise InputError("predict() needs at least one text")
        if second is not None and len(second) != len(first):
            raise InputError(f"predict() needs a second text for each text, but got {len(second)} for {len(first)} texts")
        s, out = self._settings(keys), _library.sized(_library.Classified)
        with Interrupts(ends_early=True):
            _library.check(lib.levin_classify(s._p, first, second, len(first), byref(out)))
            p = np.array(from_memory(out.probability, (out.n, out.classes), np.float64))
            lib.levin_free(out.probability)
            names = _library.read_text(c_void_p(out.names)).split("\n")
        if names == [""]:
            return Prediction(None, None, None, p[:, 0])
        label = p.argmax(axis=1)
        return Prediction(label, [names[i] for i in label], p)

    def __repr__(self) -> str:
        return f"<levin.Model {self.name}>"


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tensors of a file as separate arrays."""
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
