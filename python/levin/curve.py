"""A curve of one scalar over steps, thinned as it grows, drawn as HTML and SVG; used by notebook.py.

The SVG contains only lines and is stretched to the available width; labels are HTML at percentages of it, so that they are
readable at any width. Smoothing, logarithmic axes and other x axes are in the run's report.
"""
from __future__ import annotations

import math
from html import escape

KEPT = 240  # a curve has at most twice this number of buckets


class Bucket:
    """Neighboring values of a curve: the steps from `first` on, and the mean, minimum and maximum of their values."""

    __slots__ = ("first", "last", "n", "total", "low", "high")

    def __init__(self, step: int, value: float) -> None:
        self.first = self.last = step
        self.n, self.total, self.low, self.high = 1, value, value, value

    def join(self, other: Bucket) -> None:
        self.last = other.last
        self.n += other.n
        self.total += other.total
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    @property
    def step(self) -> float:
        return (self.first + self.last) / 2

    @property
    def mean(self) -> float:
        return self.total / self.n


class Curve:
    """The values of one scalar. Non-finite numbers are skipped."""

    def __init__(self, name: str, dots: bool = False) -> None:
        self.name, self.dots = name, dots  # dots: mark each value
        self.width = 1  # of a bucket, in values
        self.buckets: list[Bucket] = []

    def add(self, step: int, value: float) -> None:
        if not math.isfinite(value):
            return
        new, b = Bucket(step, value), self.buckets
        if b and b[-1].n < self.width:
            b[-1].join(new)
            return
        b.append(new)
        if len(b) > 2 * KEPT:
            for i in range(0, len(b) - 1, 2):
                b[i].join(b[i + 1])
            self.buckets = b[::2]
            self.width *= 2


def ticks(low: float, high: float, smallest: float = 0.0, count: int = 4) -> list[tuple[float, str]]:
    """Round numbers within [low, high], at least `smallest` apart, about `count` of them, with their labels."""
    size = 10.0 ** math.floor(math.log10((high - low) / count))
    size = max(smallest, size * next((m for m in (1, 2, 5) if (high - low) / (m * size) <= count), 10))
    decimals = max(0, -math.floor(math.log10(size)))
    numbers = [i * size for i in range(math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9) + 1)]
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if size >= unit / 2:
            return [(v, f"{v / unit:g}{letter}" if v else "0") for v in numbers]
    return [(v, f"{v:.{decimals}f}") for v in numbers]


class _Frame:
    """Map steps and values to the SVG's 1000 by 1000 units; y points down."""

    def __init__(self, curves: list[Curve]) -> None:
        means = [b.mean for c in curves for b in c.buckets]
        self.left = min(b.first for c in curves for b in c.buckets)
        self.right = max(max(b.last for c in curves for b in c.buckets), self.left + 1)
        low, high = min(means), max(means)
        room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        self.low, self.high = low - room, high + room

    def x(self, step: float) -> float:
        return 1000 * (step - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        return 1000 * (self.high - min(max(value, self.low), self.high)) / (self.high - self.low)

    def at(self, step: float, value: float) -> str:
        return f"{self.x(step):.4g} {self.y(value):.4g}"


def _line(c: Curve, frame: _Frame) -> str:
    points = [frame.at(b.step, b.mean) for b in c.buckets]
    out = ""
    if c.width > 1:  # minimum to maximum of each bucket
        edge = [frame.at(b.step, b.high) for b in c.buckets] + [frame.at(b.step, b.low) for b in reversed(c.buckets)]
        out += f'<path class="{c.name} band" d="M{"L".join(edge)}Z"/>'
    out += f'<path class="{c.name}" d="M{"L".join(points)}"/>'
    if c.dots and len(points) <= 60 or len(points) == 1:  # a line of no length, with a round cap
        out += f'<path class="{c.name} dots" d="{"".join(f"M{p}h0" for p in points)}"/>'
    return out


def draw(curves: list[Curve]) -> str:
    """The curves as HTML; "" before the first value."""
    curves = [c for c in curves if c.buckets]
    if not curves:
        return ""
    frame = _Frame(curves)
    values, steps = ticks(frame.low, frame.high), ticks(frame.left, frame.right, smallest=1)
    grid = "".join(f"M0 {frame.y(v):.4g}h1000" for v, _ in values)
    label = "; ".join(f"{c.name} from {c.buckets[0].mean:.4g} to {c.buckets[-1].mean:.4g}" for c in curves)
    return (f'<div class="plot" role="img" aria-label="{escape(label)}, steps {frame.left} to {frame.right}">'
            '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">'
            f'<path class="grid" d="{grid}"/>{"".join(_line(c, frame) for c in curves)}</svg>'
            + "".join(f'<span class="y" style="top:{frame.y(v) / 10:.3g}%">{text}</span>' for v, text in values)
            + "".join(f'<span class="x" style="left:{frame.x(s) / 10:.3g}%">{text}</span>' for s, text in steps)
            + "</div>")
