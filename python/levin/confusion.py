"""levin.ConfusionMatrix: counts of true and predicted classes, as a table for a terminal or a notebook."""
from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from .errors import InputError

_STYLE = """
.levin-confusion { border-collapse: collapse; font: 14px/1.4 system-ui, -apple-system, "Segoe UI", "Liberation Sans",
  sans-serif; color: inherit; font-variant-numeric: tabular-nums; }
.levin-confusion caption { text-align: left; padding: 0 0 6px; width: max-content; max-width: 90vw; color: inherit; }
.levin-confusion th, .levin-confusion td { padding: 5px 11px; text-align: right; border: 1px solid #8886; color: inherit; }
.levin-confusion th { font-weight: 600; }
.levin-confusion small { opacity: .75; padding-left: 6px; }
"""


class ConfusionMatrix:
    """Counts by class: `counts[i][j]` samples of class i (row) were predicted as class j (column).

    names: names of the classes, in order; default: their indices. `accuracy` is the fraction of samples on the diagonal. In a
    notebook, a cell is shaded by its fraction of the row.
    """

    def __init__(self, counts: Sequence[Sequence[float]], names: Sequence[str] | None = None) -> None:
        self.counts = [[int(n) for n in row] for row in counts]
        n = len(self.counts)
        if any(len(row) != n for row in self.counts):
            raise InputError(f"a confusion matrix must be square, but its rows have {[len(row) for row in self.counts]} counts")
        self.names = [str(k) for k in range(n)] if names is None else [str(k) for k in names]
        if len(self.names) != n:
            raise InputError(f"a confusion matrix of {n} classes needs {n} names, not {len(self.names)}")

    @property
    def total(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """0 to 1; nan without a sample."""
        return sum(row[i] for i, row in enumerate(self.counts)) / self.total if self.total else float("nan")

    def _share(self, i: int, j: int) -> float:
        return self.counts[i][j] / (sum(self.counts[i]) or 1)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy
        return numpy.array(self.counts, dtype=dtype)

    def _caption(self) -> str:
        return f"{self.total:,} samples, accuracy {self.accuracy:.4f}; rows: true class, columns: predicted class"

    def __repr__(self) -> str:
        cells = [["", *self.names]] + [[name, *map(str, row)] for name, row in zip(self.names, self.counts)]
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in cells]
        return "\n".join([self._caption(), *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th>" + "".join(self._cell(i, j) for j in range(len(self.names))) + "</tr>"
                       for i, name in enumerate(self.names))
        head = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        return (f'<div style="overflow-x:auto"><style>{_STYLE}</style><table class="levin-confusion">'
                f"<caption>{self._caption()}</caption><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>")

    def _cell(self, i: int, j: int) -> str:
        share = self._share(i, j)
        shown = f"<small>{100 * share:.0f}%</small>" if len(self.names) < 6 else ""
        return f'<td style="background:rgba(42,134,209,{0.55 * share:.3f})">{self.counts[i][j]:,}{shown}</td>'
