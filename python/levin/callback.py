"""Events of a run, and callbacks that receive them."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _library

if TYPE_CHECKING:
    from .run import Run

KINDS = ("start", "step", "validation", "checkpoint", "sample", "epoch", "note", "end", "log")
_FACTS = ("name", "run_dir", "unit", "isa", "parameters", "trained", "batch_size", "micro_batch_size", "accumulation",
          "block_size", "steps_per_epoch", "train_tokens", "val_tokens", "train_samples", "val_samples", "rank", "ranks",
          "hosts", "threads")


class Event:
    """An event: `kind`, `step`, and its scalars by name.

    `event["loss"]`, or `event.loss`, is a scalar of this kind of event (a step: loss, lr, grad_norm, tokens_per_s ...; a
    validation: val_loss, val_accuracy ...); `scalars` has them all. `text` is the note, the sample, a checkpoint's folder
    or the reason of the end. `last` has the last value of every scalar of the run.
    """

    __slots__ = ("kind", "step", "max_steps", "epoch", "text", "scalars", "last", "is_best", "elapsed_s", "eta_s",
                 "epoch_s", "best_val_loss", "start_val_loss", "memory_bytes", "peak_bytes", "facts")

    def __init__(self, c: Any, facts: dict[str, Any] | None = None) -> None:
        self.kind = KINDS[c.kind]
        self.step, self.max_steps, self.epoch = c.step, c.max_steps, c.epoch
        self.text = None if c.text is None else c.text.decode("utf-8", "replace")
        self.scalars: dict[str, float] = {}
        self.last: dict[str, float] = {}
        for s in _library.elements(c.scalar, c.n_scalars):
            name = s.name.decode()
            self.last[name] = s.value
            if s.is_new:
                self.scalars[name] = s.value
        self.is_best = bool(c.is_best)
        self.elapsed_s, self.eta_s, self.epoch_s = c.elapsed_s, c.eta_s, c.epoch_s
        self.best_val_loss, self.start_val_loss = c.best_val_loss, c.start_val_loss
        self.memory_bytes, self.peak_bytes = c.memory_bytes, c.peak_bytes
        if facts is None:
            facts = {}
            for f in _FACTS:
                value = getattr(c, f)
                facts[f] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        self.facts = facts

    def __getitem__(self, name: str) -> float:
        return self.scalars[name]

    def __getattr__(self, name: str) -> float:
        if name in Event.__slots__ or name.startswith("__"):  # for example while it is copied
            raise AttributeError(name)
        try:
            return self.scalars[name]
        except KeyError:
            known = ", ".join(self.scalars) or "none"
            raise AttributeError(f"a {self.kind} event has no '{name}'; its scalars: {known}") from None

    def __repr__(self) -> str:
        numbers = "".join(f", {k}={v:.6g}" for k, v in self.scalars.items())
        text = f", {self.text!r}" if self.text else ""
        return f"<{self.kind} {self.step}{numbers}{text}>"


class Callback:
    """Receives the events of a run, on every rank. Override what you need.

    A method may return None, "stop", "save" or "validate", or a tuple of these words: the run then ends, saves or
    validates as soon as all ranks know it (immediately after a validation or an epoch, otherwise with the next step). If
    a method raises, the run ends after the step, saves, and `fit()` raises the exception.
    """

    def on_start(self, run: Run, event: Event) -> Any:
        """The run is planned and loaded; `event.facts` describes it."""

    def on_step(self, run: Run, event: Event) -> Any:
        """A step has ended."""

    def on_validation(self, run: Run, event: Event) -> Any:
        """A validation has ended."""

    def on_checkpoint(self, run: Run, event: Event) -> Any:
        """A checkpoint was saved in the folder `event.text`."""

    def on_sample(self, run: Run, event: Event) -> Any:
        """Text was generated: `event.text` (rank 0)."""

    def on_epoch(self, run: Run, event: Event) -> Any:
        """An epoch has ended, after `event.epoch_s` seconds."""

    def on_note(self, run: Run, event: Event) -> Any:
        """A note for the user: `event.text` (rank 0)."""

    def on_log(self, run: Run, event: Event) -> Any:
        """`run.log()` was called: `event.scalars`."""

    def on_end(self, run: Run, event: Event) -> Any:
        """The run has ended; `event.text` is the reason."""
