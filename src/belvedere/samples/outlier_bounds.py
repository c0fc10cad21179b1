"""The bounds of an outlier index: a threshold, the k largest, or standard deviations (SVC §6.1).

Bounds make the index a filter, which is maintained like any other: records beyond the bounds are in
it. A threshold of the user's never changes. The other bounds come from the data, and
`outlier_upkeep.py` updates them as the data changes:

    TOP k     the value of the record at rank 1.5 k. A cleaning sets the bound anew if fewer than k
              records, or more than 2 k, are beyond it, so that the k largest are always in the
              index (more than 2 k only where values are equal)
    BEYOND    a number of standard deviations from the mean
    AUTO      for each numeric column of the view, the rows farthest from the mean; like BEYOND as of
              the last refresh of the view
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from belvedere.algebra.hashing import family
from belvedere.errors import Invalid
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.table import Table
from belvedere.sql.names import quote
from belvedere.sql.statements.samples import Index
from belvedere.views.catalog import canonical_name
from belvedere.views.catalog_views import read_sql
from belvedere.views.definition import View
from belvedere.views.sampling import Bounds, Sampling
from belvedere.views.state import Bag


def with_bounds(door: SparkLake, view: View, index: Index, sampling: Sampling) -> Sampling:
    """The sampling of a view's outliers, with bounds from the present data."""
    set_at = door.table(view.stored).version
    if index.rule == "AUTO":
        view_bounds = _view_bounds(door, view, int(index.amount), sampling.key)
        return replace(sampling, table=view.stored, bounds=view_bounds, index=index, set_at=set_at)
    table = door.table(canonical_name(door, index.table))
    if table.name not in view.inputs:
        raise Invalid(
            f"{view.name!r} does not read {index.table!r}",
            hint=f"it reads {', '.join(view.inputs)}",
            reason="NOT_IN_QUERY",
        )
    column, kind = _number(table, index)
    if index.rule in ("ABOVE", "BELOW"):
        above = index.rule == "ABOVE"
        low, high = (None, index.amount) if above else (index.amount, None)
        bounds, most = (Bounds(column, low, high, kind),), 0
    else:
        if index.amount <= 0:
            raise Invalid(
                f"OUTLIERS {index}", hint="give a number that is more than 0", reason="NO_OUTLIERS"
            )
        least, greatest = _extremes(door, table.reference, quote(column), index)
        bounds = (Bounds(column, least if index.two_sided else None, greatest, kind),)
        most = _max_records(door, table.reference, bounds[0], index) if index.rule == "TOP" else 0
    return replace(sampling, table=table.name, bounds=bounds, index=index, most=most, set_at=set_at)


def _max_records(door: SparkLake, source: str, bound: Bounds, index: Index) -> int:
    """The most records that the index may have: twice k, or twice as many as have equal values."""
    value = quote(bound.column)
    sides = [f"coalesce(count_if({value} >= {bound.high!r}), 0)"]
    if bound.low is not None:
        sides.append(f"coalesce(count_if({value} <= {bound.low!r}), 0)")
    counts = _numbers(door, f"SELECT {', '.join(sides)} FROM {source}", index)
    return int(max(2 * index.amount, *(2 * n for n in counts)))


def _extremes(door: SparkLake, source: str, value: str, index: Index) -> tuple[float, float]:
    if index.rule == "BEYOND":
        mean, spread = _numbers(
            door, f"SELECT avg({value}), stddev_samp({value}) FROM {source}", index
        )
        return mean - index.amount * spread, mean + index.amount * spread
    count = ceil(1.5 * index.amount)
    ends = (
        f"SELECT {how}(v) FROM (SELECT CAST({value} AS double) AS v FROM {source}"
        f" WHERE {value} IS NOT NULL ORDER BY v {order} LIMIT {count})"
        for how, order in (("max", "ASC"), ("min", "DESC"))
    )
    low, high = (_numbers(door, text, index)[0] for text in ends)
    return low, high


def _view_bounds(
    door: SparkLake, view: View, records: int, hashed: tuple[str, ...]
) -> tuple[Bounds, ...]:
    """Bounds for each numeric column, so that about `records` rows of the view are beyond one."""
    state, types = view.state, view.definition.types
    stored = state.columns if isinstance(state, Bag) else tuple(o.name for o in state.finish)
    numbers = [c for c in stored if c not in hashed and family(types.get(c, "")) == "number"]
    names = {plan: name for name, plan in view.bound.columns}
    numbers = [c for c in numbers if c in names]
    if not numbers:
        raise Invalid(
            f"{view.name!r} has no numeric column for an outlier index",
            hint="name a numeric column of a table: OUTLIERS ON table.column",
            reason="NO_OUTLIERS",
        )
    per_column = max(records // len(numbers), 1)
    bounds = []
    for column in numbers:
        value = quote(names[column])
        mean, distance = _numbers(
            door,
            f"SELECT any_value(mean), min(away) FROM (SELECT mean, abs({value} - mean) AS away FROM"
            f" ({read_sql(door, view)}) CROSS JOIN (SELECT avg({value}) AS mean FROM"
            f" ({read_sql(door, view)})) WHERE {value} IS NOT NULL ORDER BY away DESC LIMIT {per_column})",
            Index("AUTO", records),
        )
        bounds.append(Bounds(column, mean - distance, mean + distance))
    return tuple(bounds)


def _number(table: Table, index: Index) -> tuple[str, str]:
    """The exact name and type of the index's column; Invalid unless it exists and is numeric."""
    columns = {name.lower(): (name, kind) for name, kind in table.columns}
    name, kind = columns.get(index.column.lower(), ("", ""))
    if family(kind) != "number":
        raise Invalid(
            f"{index.table}.{index.column} is {f'a {kind}' if name else 'no column'}",
            hint="name a numeric column",
            reason="NO_SUCH_COLUMN",
        )
    return name, kind


def _numbers(door: SparkLake, text: str, index: Index) -> list[float]:
    values = list(door.sql(text).collect()[0])
    if any(v is None for v in values):
        raise Invalid(
            f"OUTLIERS {index}: there is no value yet",
            hint="load the table first",
            reason="NO_OUTLIERS",
        )
    return [float(v) for v in values]
