"""The display of `fit()` in a notebook: a progress bar, the newest values, a curve of the loss, and the run's notes.

live.py chooses it in an IPython kernel. It is one output, which is replaced during the run, at most twice a second; the
notebook saves its last state. It needs only the browser and uses the colors of the surrounding text, so that it fits light
and dark pages.
"""
from __future__ import annotations

import math
import sys
import time
from html import escape
from typing import Any

from .callback import Event
from .curve import Curve, draw
from .live import clock, count, line

INTERVAL = 0.5  # seconds between updates
_NOTES = 12     # number of notes shown

# Both colors have a contrast of at least 3 on white and on black.
_STYLE = """
.levin-fit { max-width: 760px; font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif;
  color: inherit; --train: #2a86d1; --val: #d9660f; padding: 4px 2px; }
.levin-fit p { margin: 0 0 6px; display: flex; flex-wrap: wrap; gap: 0 12px; align-items: baseline; }
.levin-fit .faint { opacity: .72; font-size: 13px; overflow-wrap: anywhere; }
.levin-fit .bar { height: 6px; border-radius: 3px; background: #8884; overflow: hidden; margin: 0 0 8px; }
.levin-fit .bar i { display: block; height: 100%; background: var(--train); }
.levin-fit .bar.over i { background: #2e9e5b; }
.levin-fit .numbers { gap: 4px 20px; }
.levin-fit .numbers span { display: inline-block; }
.levin-fit .numbers small { display: block; font-size: 12px; opacity: .72; }
.levin-fit .numbers b { font-weight: 600; font-variant-numeric: tabular-nums; }
.levin-fit small::before { content: ""; display: inline-block; }
.levin-fit .loss small::before, .levin-fit .val_loss small::before { width: 14px; border-top: 3px solid var(--train);
  margin-right: 5px; vertical-align: middle; }
.levin-fit .val_loss small::before { border-color: var(--val); }
.levin-fit .plot { position: relative; height: 210px; margin: 14px 14px 26px 46px; }
.levin-fit .plot svg { display: block; width: 100%; height: 100%; overflow: visible; }
.levin-fit path { fill: none; stroke-width: 1.8; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.levin-fit path.loss { stroke: var(--train); }
.levin-fit path.val_loss { stroke: var(--val); }
.levin-fit path.band { fill: var(--train); fill-opacity: .22; stroke: none; }
.levin-fit path.dots { stroke-width: 7; stroke-linecap: round; }
.levin-fit path.grid { stroke: currentColor; stroke-opacity: .16; stroke-width: 1; }
.levin-fit .plot span { position: absolute; font-size: 12px; line-height: 1; opacity: .72;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.levin-fit .plot .y { right: 100%; padding-right: 8px; transform: translateY(-50%); }
.levin-fit .plot .x { top: 100%; padding-top: 8px; transform: translateX(-50%); }
.levin-fit pre { margin: 0 0 8px; padding: 8px 10px; border-left: 3px solid #8886; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: 13px; line-height: 1.4; background: none; color: inherit; }
"""


def _key(name: str) -> str:
    """The CSS class of a value whose curve is drawn, for the curve's color."""
    return f' class="{name}"' if name in ("loss", "val_loss") else ""


def in_notebook() -> bool:
    """True in an IPython kernel, whose outputs a notebook shows."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


class Notebook:
    """The display of a run in a notebook. Only rank 0 shows it."""

    def __init__(self) -> None:
        self.loss, self.val_loss = Curve("loss"), Curve("val_loss", dots=True)
        self.event: Event | None = None  # the newest
        self.notes: list[str] = []
        self.sample = self.ended = ""
        self.drawn = -math.inf
        self.steps_drawn = 0
        self.handle: Any = None

    def show(self, event: Event) -> None:
        if event.facts.get("rank"):
            return
        self.event = event
        if event.kind == "step":
            self.loss.add(event.step, event.scalars.get("loss", math.nan))
        elif event.kind == "validation":
            self.val_loss.add(event.step, event.scalars.get("val_loss", math.nan))
        elif event.kind == "note":
            self.notes = [*self.notes, f"warning: {event.text}"][-_NOTES:]
        elif event.kind == "sample":
            self.sample = f"sample after step {event.step}\n{event.text}"
        elif event.kind == "end":
            self.ended = f"{event.text}; ended at step {event.step} after {clock(event.elapsed_s)}"
        if event.kind != "step" or self.steps_drawn < 2 or time.monotonic() - self.drawn >= INTERVAL:
            self.steps_drawn += event.kind == "step"
            self.draw()

    def close(self) -> None:
        if self.event is not None and not self.ended:
            self.draw()

    def draw(self) -> None:
        data = {"text/html": self.html(), "text/plain": self.ended or line(self.event)}
        if self.handle is None:
            from IPython.display import display
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)
        self.drawn = time.monotonic()

    def html(self) -> str:
        """The complete display."""
        return (f'<div class="levin-fit"><style>{_STYLE}</style>{self._head()}{self._numbers()}'
                f'{draw([self.loss, self.val_loss])}'
                + "".join(f'<p class="faint">{escape(n)}</p>' for n in self.notes)
                + (f"<pre>{escape(self.sample)}</pre>" if self.sample else "") + "</div>")

    def _head(self) -> str:
        e = self.event
        facts = e.facts
        where = f"step {e.step:,} of {e.max_steps:,}" if e.max_steps else f"step {e.step:,}"
        if not self.ended and not math.isnan(e.eta_s):
            where += f", {clock(e.eta_s)} left"
        data = (f"{facts['train_tokens']:,} tokens" if facts["train_tokens"] else f"{facts['train_samples']:,} samples")
        done = min(1.0, e.step / e.max_steps) if e.max_steps else 0.0
        return (f'<p><b>{escape(facts["name"] or "")}</b> <span>{self.ended and escape(self.ended) or where}</span></p>'
                f'<div class="bar{" over" if self.ended else ""}" role="progressbar" aria-valuenow="{100 * done:.0f}">'
                f'<i style="width:{100 * done:.4g}%"></i></div>'
                f'<p class="faint">{facts["parameters"]:,} parameters, {data} to train on; {escape(facts["run_dir"] or "nothing is saved")}</p>')

    def _numbers(self) -> str:
        e = self.event
        shown = {k: f"{v:.4f}" for k, v in e.last.items()
                 if not math.isnan(v) and (k == "loss" or k.startswith("val_"))}
        if shown and not math.isnan(e.best_val_loss):
            shown["best val_loss"] = f"{e.best_val_loss:.4f}"
        if not math.isnan(e.last.get("lr", math.nan)):
            shown["lr"] = f"{e.last['lr']:.2e}"
        if not math.isnan(e.last.get("tokens_per_s", math.nan)):
            shown[f"{e.facts['unit']}/s"] = count(e.last["tokens_per_s"])
        return '<p class="numbers">' + "".join(
            f'<span{_key(k)}><small>{escape(k)}</small><b>{v}</b></span>' for k, v in shown.items()) + "</p>"
