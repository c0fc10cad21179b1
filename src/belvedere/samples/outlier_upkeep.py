"""Bounds of an outlier index are set anew when the data has moved away from them.

After a cleaning, the records beyond the bounds are counted where they are kept. The definition of
the outliers is then written with other bounds and another id, and the refresh that follows finds
rows of another definition and computes all of them (REDEFINED); killed in between, the next one
does. Rows of outlier keys are all there at any time, whatever the bounds: only which keys are
outliers changes, and answers take that from the rows.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.execution.sources import reference
from belvedere.lake.offline import VIEW_PROPERTY
from belvedere.lake.spark_lake import SparkLake
from belvedere.samples.create import redefined
from belvedere.samples.outlier_bounds import beyond
from belvedere.sql.names import quote
from belvedere.sql.render import render
from belvedere.views.definition import View
from belvedere.views.sampling import Bounds, Sampling, indexed_column

MOVED = 0.1
"""Of the distance between bounds and their middle, what these may move before they are set anew."""


def rebound(door: SparkLake, view: View, outliers: View) -> bool:
    """Set the bounds of an index anew if they are due; whether the outliers are to be computed."""
    sampling = outliers.definition.sampling
    if sampling is None or sampling.index is None or not _due(door, view, outliers, sampling):
        return False
    found = beyond(door, view, sampling.index, replace(sampling, bounds=()))
    same = found.bounds == sampling.bounds or (
        sampling.index.rule != "TOP" and near(sampling.bounds, found.bounds)
    )
    new = redefined(door, view, replace(found, bounds=sampling.bounds) if same else found)
    if same:
        new = replace(new, definition=replace(new.definition, id=outliers.definition.id))
    door.set_properties(door.table(outliers.stored), {VIEW_PROPERTY: new.definition.to_json()})
    return not same


def _due(door: SparkLake, view: View, outliers: View, sampling: Sampling) -> bool:
    assert sampling.index is not None
    match sampling.index.rule:
        case "TOP":
            return not all(within(sampling, n) for n in _beyond_now(door, outliers, sampling))
        case "BEYOND" | "AUTO":
            return door.table(view.stored).version != sampling.set_at
        case _:
            return False


def within(sampling: Sampling, records: int) -> bool:
    """Whether so many records beyond a bound are the k largest at least, and not far too many."""
    assert sampling.index is not None
    return sampling.index.amount <= records <= sampling.most


def near(old: tuple[Bounds, ...], new: tuple[Bounds, ...]) -> bool:
    """Whether bounds are about where they were.

    >>> near((Bounds("v", 0.0, 100.0),), (Bounds("v", 2.0, 104.0),))
    True
    >>> near((Bounds("v", None, 100.0),), (Bounds("v", None, 111.0),))
    False
    """
    if [b.column for b in old] != [b.column for b in new]:
        return False
    for a, b in zip(old, new, strict=True):
        ends = [(x, y) for x, y in ((a.low, b.low), (a.high, b.high)) if x is not None]
        away = (a.high - a.low) / 2 if a.low is not None and a.high is not None else None
        for x, y in ends:
            if y is None or abs(y - x) > MOVED * (abs(x) if away is None else away):
                return False
    return True


def _beyond_now(door: SparkLake, outliers: View, sampling: Sampling) -> list[int]:
    """How many records are beyond each bound, from the part that keeps them."""
    part = next(p for p in outliers.every_part if indexed_column(p.plan, sampling))
    place = part.plan.columns.index(indexed_column(part.plan, sampling))
    value, (bound,) = quote(part.read.columns[place]), sampling.bounds
    stored = reference(door.table(part.stored), None)
    rows = render(part.read, lambda _: stored.copy()).sql(dialect="spark")
    sides = [f"count_if({value} >= {bound.high!r})"] if bound.high is not None else []
    sides += [f"count_if({value} <= {bound.low!r})"] if bound.low is not None else []
    return [int(n) for n in door.sql(f"SELECT {', '.join(sides)} FROM ({rows})").collect()[0]]
