"""What `fit()` shows while a run trains: a line in a terminal, a curve and a bar in a notebook."""
from __future__ import annotations

import math
import sys
import time
from html import escape
from typing import Any

from .callback import Event


def _count(n: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return f"{n:.3g}"


def _clock(seconds: float) -> str:
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
        parts.append(f"{_count(rate)} {event.facts['unit']}/s")
    if not math.isnan(event.eta_s):
        parts.append(f"ETA {_clock(event.eta_s)}")
    return "  ".join(parts)


class Terminal:
    """A line that is overwritten; in a pipe or a file a line every ten seconds. Only rank 0 shows it."""

    def __init__(self, out: Any = None) -> None:
        self.out = sys.stderr if out is None else out
        self.live = self.out.isatty()
        self.drawn = -math.inf
        self.shown = False

    def _print(self, text: str) -> None:
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
            numbers = ", ".join(f"{k} {v:.4g}" for k, v in event.scalars.items())
            self._print(f"step {event.step}: {numbers}{', the best so far' if event.is_best else ''}")
        elif event.kind == "note":
            self._print(f"warning: {event.text}")
        elif event.kind == "sample":
            self._print(f"--- sample after step {event.step}\n{event.text}\n---")
        elif event.kind == "end":
            self._print(f"{event.text}; ended at step {event.step} after {_clock(event.elapsed_s)}")

    def close(self) -> None:
        if self.shown:
            self.out.write("\n")
            self.out.flush()
        self.shown = False


class Notebook:
    """A bar and the curves of loss and validation loss as SVG, drawn anew at most four times a second."""

    POINTS = 400  # of a curve: of longer ones every other point is left out

    def __init__(self) -> None:
        from IPython.display import HTML, display
        self.html = HTML
        self.handle = display(HTML(""), display_id=True)
        self.train: list[tuple[int, float]] = []
        self.val: list[tuple[int, float]] = []
        self.every = 1
        self.notes: list[str] = []
        self.last: Event | None = None
        self.drawn = -math.inf

    def show(self, event: Event) -> None:
        if event.facts.get("rank"):
            return
        loss, val = event.scalars.get("loss"), event.scalars.get("val_loss")
        if loss is not None and math.isfinite(loss) and event.step % self.every == 0:
            self.train.append((event.step, loss))
            if len(self.train) > self.POINTS:
                self.train, self.every = self.train[::2], 2 * self.every
        if val is not None and math.isfinite(val):
            self.val.append((event.step, val))
        if event.kind in ("note", "sample"):
            self.notes = [*self.notes[-4:], event.text or ""]
        if event.kind in ("step", "end"):
            self.last = event
        now = time.monotonic()
        if event.kind == "end" or now - self.drawn >= 0.25:
            self.drawn = now
            self.draw(event)

    def draw(self, event: Event) -> None:
        at = self.last or event
        if self.handle is not None:
            self.handle.update(self.html(page(at, self.train, self.val, self.notes, event.text if event.kind == "end" else None)))

    def close(self) -> None:
        if self.last is not None and self.last.kind != "end":
            self.draw(self.last)


def _path(points: list[tuple[int, float]], x: Any, y: Any) -> str:
    return " ".join(f"{'L' if i else 'M'}{x(a):.1f} {y(b):.1f}" for i, (a, b) in enumerate(points))


def page(event: Event, train: list[tuple[int, float]], val: list[tuple[int, float]], notes: list[str],
         ended: str | None) -> str:
    """The picture of a run as HTML that needs no script: colours follow the page's text colour."""
    W, H, LEFT, BOTTOM = 640, 220, 52, 22
    done = event.step / event.max_steps if event.max_steps else 0.0
    out = [f'<div style="font:13px sans-serif;max-width:{W}px">',
           f'<div style="height:6px;border-radius:3px;background:rgba(128,128,128,.25)"><div style="height:6px;'
           f'border-radius:3px;background:#2a78d6;width:{100 * min(done, 1):.1f}%"></div></div>',
           f'<div style="margin:4px 0;font-variant-numeric:tabular-nums">{escape(line(event))}</div>']
    both = train + val
    if len(both) > 1:
        low, high = min(v for _, v in both), max(v for _, v in both)
        high = high if high > low else low + 1
        last = max(event.max_steps, both[-1][0], 1)

        def x(step: float) -> float:
            return LEFT + (W - LEFT - 8) * step / last

        def y(value: float) -> float:
            return 8 + (H - BOTTOM - 8) * (high - value) / (high - low)

        out.append(f'<svg viewBox="0 0 {W} {H}" width="100%" role="img" aria-label="loss by step" fill="none" '
                   'font-family="sans-serif" font-size="11">')
        for k in range(4):
            v = low + (high - low) * k / 3
            out.append(f'<path d="M{LEFT} {y(v):.1f}H{W - 8}" stroke="currentColor" stroke-opacity=".15"/>'
                       f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end" fill="currentColor">{v:.3g}</text>')
        out.append(f'<text x="{W - 8}" y="{H - 6}" text-anchor="end" fill="currentColor">step {last}</text>'
                   f'<path d="{_path(train, x, y)}" stroke="#2a78d6" stroke-width="1.5"/>')
        if val:
            out.append(f'<path d="{_path(val, x, y)}" stroke="#d9622b" stroke-width="2"/>')
            out.extend(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.5" fill="#d9622b"/>' for a, b in val[-50:])
        out.append('</svg><div><span style="color:#2a78d6">&#9644;</span> loss'
                   + (' &nbsp; <span style="color:#d9622b">&#9644;</span> validation loss' if val else "") + "</div>")
    out.extend(f'<pre style="margin:4px 0;white-space:pre-wrap">{escape(n)}</pre>' for n in notes)
    if ended:
        out.append(f"<div>{escape(ended)}; ended at step {event.step} after {_clock(event.elapsed_s)}</div>")
    return "".join(out) + "</div>"


def in_notebook() -> bool:
    """Does this process serve a notebook (an IPython kernel)?"""
    try:
        shell = sys.modules["IPython"].get_ipython()
    except (KeyError, AttributeError):
        return False
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


def display() -> Any:
    """The display of this process."""
    return Notebook() if in_notebook() else Terminal()
