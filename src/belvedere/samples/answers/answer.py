"""Answers of estimates: values with intervals, where they come from, and when not to trust them."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from belvedere.errors import Unable
from belvedere.estimation.linearization import Array
from belvedere.listing import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class EstimatedColumn:
    """One estimated column: per group a value, an interval, a method, and the stale value."""

    name: str
    value: Array
    low: Array
    high: Array
    method: list[str]
    notes: list[str]
    stale: Array
    variances: Mapping[str, Array] = field(default_factory=dict, repr=False)
    keys: Mapping[str, Array] = field(default_factory=dict, repr=False)

    def take(self, order: np.ndarray) -> EstimatedColumn:
        """The groups at these positions."""
        return EstimatedColumn(
            self.name,
            self.value[order],
            self.low[order],
            self.high[order],
            [self.method[i] for i in order],
            [self.notes[i] for i in order],
            self.stale[order],
            {m: v[order] for m, v in self.variances.items()},
            {m: v[order] for m, v in self.keys.items()},
        )


@dataclass(frozen=True)
class EstimatedAnswer:
    """Groups with estimated columns; prints as a table."""

    question: str
    keys: pa.Table
    columns: tuple[EstimatedColumn, ...]
    notes: tuple[str, ...]
    """One note per group."""
    facts: tuple[tuple[str, str], ...]
    confidence: float
    shown: tuple[str, ...]
    """The query's columns, in order."""
    frame: Callable[[pa.Table], DataFrame] = field(repr=False)

    def arrow(self) -> pa.Table:
        """Each estimated column with its interval and its method; notes come last."""
        estimated = {c.name: c for c in self.columns}
        columns: dict[str, Any] = {}
        for name in self.shown:
            if name not in estimated:
                columns[name] = self.keys[name]
                continue
            column = estimated[name]
            columns[name] = _nullable(column.value)
            columns[f"{name}_low"] = _nullable(column.low)
            columns[f"{name}_high"] = _nullable(column.high)
            columns[f"{name}_method"] = pa.array(column.method, pa.string())
        columns["note"] = pa.array(self._every_note(), pa.string())
        return pa.table(columns)

    def df(self) -> DataFrame:
        """The answer as a DataFrame."""
        return self.frame(self.arrow())

    def explain(self) -> str:
        """Versions, rows used and how far η was pushed down; per group the stale answer, the correction
        and the error of each method.
        """
        parts = [f"{title}\n{_indented(text)}" for title, text in self.facts]
        parts += [f"{c.name}\n{_indented(self._why(c))}" for c in self.columns]
        return "\n\n".join(parts)

    def plot(self, path: str | None = None) -> Any:
        """Estimates with error bars beside the stale answers; saved if a path is given."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise Unable(
                "plots need matplotlib",
                hint="pip install 'belvedere[plots]'",
                reason="NO_MATPLOTLIB",
            ) from error
        figure = Figure(figsize=(7, 2.6 * max(len(self.columns), 1)), layout="constrained")
        labels = self._labels()
        for i, c in enumerate(self.columns):
            axes = figure.add_subplot(len(self.columns), 1, i + 1)
            at = np.arange(len(c.value))
            below, above = (np.nan_to_num(e) for e in (c.value - c.low, c.high - c.value))
            axes.errorbar(at, c.value, yerr=[below, above], fmt="o", capsize=3, label="estimate")
            axes.plot(at, c.stale, "x", color="0.5", label="stale")
            axes.set_xticks(at, labels, rotation=30 if len(labels) > 5 else 0)
            axes.set_ylabel(c.name)
            axes.legend(fontsize="small")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def __str__(self) -> str:
        data = self.arrow()
        names = [n for n in data.column_names if n != "note" or any(self._every_note())]
        rows = zip(*(_rounded(data[n].to_pylist()) for n in names), strict=True)
        return table(names, rows)

    def _repr_html_(self) -> str:
        data = self.arrow()
        head = "".join(f"<th>{html.escape(n)}</th>" for n in data.column_names)
        lines = zip(*(_rounded(data[n].to_pylist()) for n in data.column_names), strict=True)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape('' if v is None else str(v))}</td>" for v in row)
            + "</tr>"
            for row in lines
        )
        caption = f"estimates at {self.confidence:.0%}; " + "; ".join(t for _, t in self.facts[:1])
        return f"<table><caption>{html.escape(caption)}</caption><tr>{head}</tr>{body}</table>"

    def _labels(self) -> list[str]:
        rows = self.keys.to_pylist() if self.keys.num_columns else [{}] * self._count()
        return [", ".join(map(str, row.values())) or "all" for row in rows]

    def _count(self) -> int:
        return len(self.columns[0].value) if self.columns else self.keys.num_rows

    def _every_note(self) -> list[str]:
        notes = []
        for i in range(self._count()):
            own = [f"{c.name}: {c.notes[i]}" for c in self.columns if c.notes[i]]
            notes.append("; ".join(filter(None, [self.notes[i], *own])))
        return notes

    def _why(self, column: EstimatedColumn) -> str:
        methods = list(column.variances)
        headers = ["group", "stale", "correction", "answer", "method"]
        headers += [f"{what} {m}" for m in methods for what in ("error", "keys")]
        rows: list[Sequence[object]] = []
        for i, label in enumerate(self._labels()[:20]):
            row: list[object] = [label, column.stale[i], column.value[i] - column.stale[i]]
            row += [column.value[i], column.method[i]]
            for m in methods:
                row += [float(np.sqrt(column.variances[m][i])), int(column.keys[m][i])]
            rows.append(_rounded(row))
        more = self._count() - 20
        return table(headers, rows) + (f"\nand {more} more groups" if more > 0 else "")


def _nullable(values: Array) -> pa.Array:
    return pa.array(values, pa.float64(), from_pandas=True)


def _rounded(values: Sequence[Any]) -> list[Any]:
    def short(v: Any) -> Any:
        if not isinstance(v, float | np.floating):
            return v
        return None if np.isnan(v) else float(f"{v:.6g}")

    return [short(v) for v in values]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
