"""The display of `fit()` in a terminal: a line. notebook.py is the display in a notebook."""
from __future__ import annotations

import math
import sys
import time
from typing import Any

from .callback import Event


_CONTROL = {k: f"\\x{k:02x}" for k in (*range(32), *range(127, 160)) if chr(k) not in "\n\t"}


def count(n: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return f"{n:.3g}"


def clock(seconds: float) -> str:
    s = int(seconds + 0.5)
    return f"{s // 60}:{s % 60:02d}" if s < 3600 else f"{s // 3600}:{s % 3600 // 60:02d}:{s % 60:02d}"


def line(event: Event) -> str:
    """step 20/100  loss 1.2345  val 1.3000  lr 3.00e-04  12.3k tokens/s  ETA 0:12"""
    last = event.last
    parts = [f"step {event.step}/{event.max_steps}" if event.max_steps else f"step {event.step}"]
    for name, form in (("loss", "loss {:.4f}"), ("val_loss", "val {:.4f}"), ("lr", "lr {:.2e}")):
        if not math.isnan(last.get(name, math.nan)):
            parts.append(form.format(last[name]))
    rate = last.get("tokens_per_s", math.nan)
    if not math.isnan(rate):
        parts.append(f"{count(rate)} {event.facts['unit']}/s")
    if not math.isnan(event.eta_s):
        parts.append(f"ETA {clock(event.eta_s)}")
    return "  ".join(parts)


class Terminal:
    """A line that is overwritten; in a pipe or a file a line every ten seconds. Only rank 0 shows it."""

    def __init__(self, out: Any = None) -> None:
        self.out = sys.stderr if out is None else out
        self.live = hasattr(self.out, "isatty") and self.out.isatty()
        self.drawn = -math.inf
        self.shown = False

    def _print(self, text: str) -> None:
        text = text.translate(_CONTROL)  # a model must not control the terminal
        self.out.write(("\r\033[K" if self.shown else "") + text + "\n")
        self.out.flush()
        self.shown = False

    def show(self, event: Event) -> None:
        if event.facts.get("rank"):
            return
        if event.kind == "step":
            now = time.monotonic()
            if self.live and now - self.drawn >= 0.1:
                self.out.write("\r" + line(event) + "\033[K")
                self.out.flush()
                self.shown, self.drawn = True, now
            elif not self.live and (now - self.drawn >= 10 or event.step == event.max_steps):
                self._print(line(event))
                self.drawn = now
        elif event.kind == "validation":
            numbers = ", ".join(f"{k} -" if math.isnan(v) else f"{k} {v:.4g}" for k, v in event.scalars.items())
            self._print(f"step {event.step}: {numbers}{', the best so far' if event.is_best else ''}")
        elif event.kind == "note":
            self._print(f"warning: {event.text}")
        elif event.kind == "sample":
            self._print(f"--- sample after step {event.step}\n{event.text}\n---")
        elif event.kind == "end":
            self._print(f"{event.text}; ended at step {event.step} after {clock(event.elapsed_s)}")

    def close(self) -> None:
        if self.shown:
            self.out.write("\n")
            self.out.flush()
        self.shown = False


def display() -> Any:
    """The display of this process; None: it has no output."""
    from .notebook import Notebook, in_notebook  # which needs line()
    if in_notebook():
        return Notebook()
    return None if sys.stderr is None or getattr(sys.stderr, "closed", False) else Terminal()
