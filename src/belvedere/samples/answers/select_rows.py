"""SELECT without an aggregate: the stale rows, with fresh rows for every sampled key (§12.1.2).

Sampled keys and outlier keys show their fresh rows, all others their stale rows. The numbers of
rows that the true result adds, updates and removes are estimated from the sampled keys, each with
its interval.
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
from belvedere.samples.answers.answer import EstimatedAnswer
from belvedere.samples.answers.plans import rows_of
from belvedere.samples.answers.questions import UNIT, Question
from belvedere.samples.answers.reading import Collect, number_groups
from belvedere.samples.estimators.per_key_sums import KeySums
from belvedere.samples.estimators.smooth import Method, SmoothEstimates, estimate_smooth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_CHANGES = ("added", "updated", "removed")


@dataclass(frozen=True)
class CorrectedRows:
    """Rows of a SELECT, and the three estimated counts."""

    rows: pa.Table
    counts: dict[str, SmoothEstimates]
    used: tuple[int, int]
    """The numbers of sampled rows, fresh and stale."""
    counted: EstimatedAnswer | None = None
    """The three counts as an answer."""

    def arrow(self) -> pa.Table:
        """The rows."""
        return self.rows

    def df(self) -> DataFrame:
        """The rows as a DataFrame."""
        assert self.counted is not None
        return self.counted.frame(self.rows)

    def explain(self) -> str:
        """The estimated numbers of added, updated and removed rows, and where they come from."""
        assert self.counted is not None
        return f"{self.counted}\n\n{self.counted.explain()}"

    def plot(self, path: str | None = None) -> Any:
        """A plot of the three counts with their intervals."""
        assert self.counted is not None
        return self.counted.plot(path)

    def __str__(self) -> str:
        names = self.rows.column_names
        shown = zip(*(self.rows[n][:100].to_pylist() for n in names), strict=True)
        return f"{table(names, shown)}\n\n{self.counted}"

    def _repr_html_(self) -> str:
        return self.counted._repr_html_() if self.counted is not None else ""


def correct_rows(question: Question, collect: Collect, confidence: float) -> CorrectedRows:
    """The corrected rows of a SELECT, and how many rows still differ from the fresh result."""
    shown = [plan for _, plan in question.bound.columns]
    outputs = (*(Output(c, col(c)) for c in shown), Output(UNIT, col(UNIT)))

    def run(which: str) -> pa.Table:
        return collect(Project(question.rows(rows_of(question, which)), outputs))

    fresh, sampled, whole = run("sample"), run("stale sample"), run("stale")
    always = pa.table({UNIT: pa.array([], pa.string())})
    if question.outliers is not None:
        fresh_outliers, stale_outliers = run("outliers"), run("stale outliers")
        always = pa.concat_tables([fresh_outliers.select([UNIT]), stale_outliers.select([UNIT])])
        fresh, sampled = (
            pa.concat_tables([_without_keys(t, always[UNIT]), outlier_rows])
            for t, outlier_rows in ((fresh, fresh_outliers), (sampled, stale_outliers))
        )
    corrected = pa.concat_tables([_without_keys(whole, sampled[UNIT]), fresh.cast(whole.schema)])
    names = [name for name, _ in question.bound.columns]
    sums = _change_counts(fresh, sampled, always, question.sampling.ratio)
    counts = {
        kind: estimate_smooth(itemgetter(j), sums, None, confidence, Method.AQP)
        for j, kind in enumerate(ROW_CHANGES)
    }
    used = fresh.num_rows, sampled.num_rows
    return CorrectedRows(corrected.select(shown).rename_columns(names), counts, used)


def _without_keys(rows: pa.Table, units: pa.ChunkedArray) -> pa.Table:
    values = units.combine_chunks() if units.num_chunks else pa.array([], pa.string())
    return rows.filter(pc.invert(pc.is_in(rows[UNIT], value_set=values)))


def _change_counts(fresh: pa.Table, stale: pa.Table, always: pa.Table, ratio: float) -> KeySums:
    """Per hashed key the numbers of rows that were added, updated and removed."""
    rows = number_groups([fresh, stale], fresh.column_names)
    units = number_groups([fresh, stale, always], [UNIT])
    counts = [np.bincount(of, minlength=rows.count) for of in rows.numbers]
    unit_of = np.zeros(rows.count, np.int64)
    for of, unit in zip(rows.numbers, units.numbers[:2], strict=True):
        unit_of[of] = unit
    unchanged = np.bincount(unit_of, np.minimum(*counts), units.count)
    fresh_rest, stale_rest = (
        np.bincount(unit_of, count, units.count) - unchanged for count in counts
    )
    both = np.minimum(fresh_rest, stale_rest)
    changes = np.stack([fresh_rest - both, both, stale_rest - both], axis=1)
    exact = np.isin(np.arange(units.count), units.numbers[2])
    return KeySums(
        ratio, 1, np.zeros(units.count, np.int64), exact, changes, np.zeros_like(changes)
    )
