"""SELECT without an aggregate: the stale rows with every sampled key brought up to date (§12.1.2).

Sampled keys, and outliers, have their fresh rows; all others their stale ones. How many rows of
the true result are added, updated and removed is estimated from the sampled keys: three counts,
each with its interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import Output, Project
from belvedere.algebra.scalars import col
from belvedere.listing import table
from belvedere.samples.answers.answer import Answer
from belvedere.samples.answers.questions import UNIT, Question
from belvedere.samples.answers.reading import Collect, numbered, rows_of
from belvedere.samples.estimators.per_key_sums import Cells
from belvedere.samples.estimators.smooth import Estimates, Method, estimate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("added", "updated", "removed")


@dataclass(frozen=True)
class Selected:
    """Rows of a SELECT, and the three estimated counts."""

    rows: pa.Table
    counts: dict[str, Estimates]
    used: tuple[int, int]
    """How many sampled rows were used, fresh and stale."""
    counted: Answer | None = None
    """The three counts as an answer."""

    def arrow(self) -> pa.Table:
        """The rows."""
        return self.rows

    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        assert self.counted is not None
        return self.counted.frame(self.rows)

    def explain(self) -> str:
        """How many rows are added, updated and removed, and where that comes from."""
        assert self.counted is not None
        return f"{self.counted}\n\n{self.counted.explain()}"

    def plot(self, path: str | None = None) -> Any:
        """The three counts with their error bars."""
        assert self.counted is not None
        return self.counted.plot(path)

    def __str__(self) -> str:
        names = self.rows.column_names
        shown = zip(*(self.rows[n][:100].to_pylist() for n in names), strict=True)
        return f"{table(names, shown)}\n\n{self.counted}"

    def _repr_html_(self) -> str:
        return self.counted._repr_html_() if self.counted is not None else ""


def selected(question: Question, collect: Collect, confidence: float) -> Selected:
    """The corrected rows of a SELECT and how much of it is not yet right."""
    shown = [plan for _, plan in question.bound.columns]
    outputs = (*(Output(c, col(c)) for c in shown), Output(UNIT, col(UNIT)))

    def run(which: str) -> pa.Table:
        return collect(Project(question.rows(rows_of(question, which)), outputs))

    fresh, sampled, whole = run("sample"), run("stale sample"), run("stale")
    always = pa.table({UNIT: pa.array([], pa.string())})
    if question.outliers is not None:
        out, old = run("outliers"), run("stale outliers")
        always = pa.concat_tables([out.select([UNIT]), old.select([UNIT])])
        fresh, sampled = (
            pa.concat_tables([_without(t, always[UNIT]), more])
            for t, more in ((fresh, out), (sampled, old))
        )
    corrected = pa.concat_tables([_without(whole, sampled[UNIT]), fresh.cast(whole.schema)])
    names = [name for name, _ in question.bound.columns]
    found = _cells(fresh, sampled, always, question.sampling.ratio)
    counts = {
        kind: estimate(itemgetter(j), found, None, confidence, Method.AQP)
        for j, kind in enumerate(KINDS)
    }
    used = fresh.num_rows, sampled.num_rows
    return Selected(corrected.select(shown).rename_columns(names), counts, used)


def _without(rows: pa.Table, units: pa.ChunkedArray) -> pa.Table:
    values = units.combine_chunks() if units.num_chunks else pa.array([], pa.string())
    return rows.filter(pc.invert(pc.is_in(rows[UNIT], value_set=values)))


def _cells(fresh: pa.Table, stale: pa.Table, always: pa.Table, ratio: float) -> Cells:
    """Per hashed key how many rows were added, updated and removed."""
    rows = numbered([fresh, stale], fresh.column_names)
    units = numbered([fresh, stale, always], [UNIT])
    held = [np.bincount(of, minlength=rows.count) for of in rows.of]
    unit_of = np.zeros(rows.count, np.int64)
    for of, unit in zip(rows.of, units.of[:2], strict=True):
        unit_of[of] = unit
    same = np.bincount(unit_of, np.minimum(*held), units.count)
    new, old = (np.bincount(unit_of, h, units.count) - same for h in held)
    both = np.minimum(new, old)
    made = np.stack([new - both, both, old - both], axis=1)
    exact = np.isin(np.arange(units.count), units.of[2])
    return Cells(ratio, 1, np.zeros(units.count, np.int64), exact, made, np.zeros_like(made))
