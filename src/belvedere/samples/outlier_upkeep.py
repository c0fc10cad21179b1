"""Update the bounds of outlier indexes as the data changes.

After a cleaning, the records beyond the bounds are counted in the part that stores them. If they are
too few or too many, the definition of the outliers is written with new bounds and a new id. The next
refresh then finds rows of another definition and computes all of them (REDEFINED), also after a kill
in between. All rows of outlier keys are stored at any time; new bounds change only which keys are
outliers, and answers read that from the stored rows.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.execution.sources import reference
from belvedere.lake.offline import VIEW_PROPERTY
from belvedere.lake.spark_lake import SparkLake
from belvedere.samples.create import plan_outliers
from belvedere.samples.outlier_bounds import with_bounds
from belvedere.sql.names import quote
from belvedere.sql.render import render
from belvedere.views.definition import View
from belvedere.views.sampling import Bounds, Sampling, indexed_column

MAX_MOVE = 0.1
"""The largest move of a bound, as a share of its distance from the middle, that changes nothing."""


def update_bounds(door: SparkLake, view: View, outliers: View) -> bool:
    """Update the bounds of an index where needed; whether the outliers must be computed again."""
    sampling = outliers.definition.sampling
    if sampling is None or sampling.index is None or not _is_due(door, view, outliers, sampling):
        return False
    current = with_bounds(door, view, sampling.index, replace(sampling, bounds=()))
    keeps_rows = current.bounds == sampling.bounds or (
        sampling.index.rule != "TOP" and barely_moved(sampling.bounds, current.bounds)
    )
    new = plan_outliers(
        door, view, replace(current, bounds=sampling.bounds) if keeps_rows else current
    )
    if keeps_rows:
        new = replace(new, definition=replace(new.definition, id=outliers.definition.id))
    door.set_properties(door.table(outliers.stored), {VIEW_PROPERTY: new.definition.to_json()})
    return not keeps_rows


def _is_due(door: SparkLake, view: View, outliers: View, sampling: Sampling) -> bool:
    assert sampling.index is not None
    match sampling.index.rule:
        case "TOP":
            return not all(
                is_within_size(sampling, n) for n in _records_beyond(door, outliers, sampling)
            )
        case "BEYOND" | "AUTO":
            return door.table(view.stored).version != sampling.set_at
        case _:
            return False


def is_within_size(sampling: Sampling, records: int) -> bool:
    """Whether a number of records beyond a bound is at least k and not too large."""
    assert sampling.index is not None
    return sampling.index.amount <= records <= sampling.most


def barely_moved(old: tuple[Bounds, ...], new: tuple[Bounds, ...]) -> bool:
    """Whether no bound moved by more than MAX_MOVE.

    >>> barely_moved((Bounds("v", 0.0, 100.0),), (Bounds("v", 2.0, 104.0),))
    True
    >>> barely_moved((Bounds("v", None, 100.0),), (Bounds("v", None, 111.0),))
    False
    """
    if [b.column for b in old] != [b.column for b in new]:
        return False
    for a, b in zip(old, new, strict=True):
        ends = [(x, y) for x, y in ((a.low, b.low), (a.high, b.high)) if x is not None]
        half_width = (a.high - a.low) / 2 if a.low is not None and a.high is not None else None
        for x, y in ends:
            if y is None or abs(y - x) > MAX_MOVE * (abs(x) if half_width is None else half_width):
                return False
    return True


def _records_beyond(door: SparkLake, outliers: View, sampling: Sampling) -> list[int]:
    """The numbers of records beyond each bound, from the part that stores them."""
    part = next(p for p in outliers.every_part if indexed_column(p.plan, sampling))
    position = part.plan.columns.index(indexed_column(part.plan, sampling))
    value, (bound,) = quote(part.read.columns[position]), sampling.bounds
    stored = reference(door.table(part.stored), None)
    rows = render(part.read, lambda _: stored.copy()).sql(dialect="spark")
    sides = [f"count_if({value} >= {bound.high!r})"] if bound.high is not None else []
    sides += [f"count_if({value} <= {bound.low!r})"] if bound.low is not None else []
    return [int(n) for n in door.sql(f"SELECT {', '.join(sides)} FROM ({rows})").collect()[0]]
