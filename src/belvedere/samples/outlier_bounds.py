"""Which values are outliers: from a threshold, the k largest, or standard deviations (SVC §6.1).

A bound makes the index a filter, which changes keep up to date like any other: records beyond it
join, records that go leave. A threshold that the user sets stays as it is. The others are set
from the data, and `rebounding.py` sets them anew as the data changes:

    TOP k     the value of the record at one and a half times k. After each cleaning at least k
              records are beyond it and at most twice k (more only where values are equal), so that
              the k largest are always in the index; else it is set anew
    BEYOND    so many standard deviations from the mean, and
    AUTO      of each number that the view shows, the rows farthest from the mean: as they were
              when the view was last refreshed
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
from belvedere.views.create import read_sql
from belvedere.views.definition import View
from belvedere.views.sampling import Bounds, Sampling
from belvedere.views.state import Bag


def beyond(door: SparkLake, view: View, index: Index, sampling: Sampling) -> Sampling:
    """The sampling of a view's outliers, with bounds from the data as it is now."""
    set_at = door.table(view.stored).version
    if index.rule == "AUTO":
        found = _of_the_view(door, view, int(index.amount), sampling.key)
        return replace(sampling, table=view.stored, bounds=found, index=index, set_at=set_at)
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
                f"OUTLIERS {index}", hint="the number is more than 0", reason="NO_OUTLIERS"
            )
        least, greatest = _extremes(door, table.reference, quote(column), index)
        bounds = (Bounds(column, least if index.two_sided else None, greatest, kind),)
        most = _most(door, table.reference, bounds[0], index) if index.rule == "TOP" else 0
    return replace(sampling, table=table.name, bounds=bounds, index=index, most=most, set_at=set_at)


def _most(door: SparkLake, source: str, bound: Bounds, index: Index) -> int:
    """Twice as many records as the index is to have, or as it has where values are equal."""
    value = quote(bound.column)
    sides = [f"coalesce(count_if({value} >= {bound.high!r}), 0)"]
    if bound.low is not None:
        sides.append(f"coalesce(count_if({value} <= {bound.low!r}), 0)")
    held = _row(door, f"SELECT {', '.join(sides)} FROM {source}", index)
    return int(max(2 * index.amount, *(2 * n for n in held)))


def _extremes(door: SparkLake, source: str, value: str, index: Index) -> tuple[float, float]:
    if index.rule == "BEYOND":
        mean, spread = _row(door, f"SELECT avg({value}), stddev_samp({value}) FROM {source}", index)
        return mean - index.amount * spread, mean + index.amount * spread
    count = ceil(1.5 * index.amount)
    ends = (
        f"SELECT {how}(v) FROM (SELECT CAST({value} AS double) AS v FROM {source}"
        f" WHERE {value} IS NOT NULL ORDER BY v {order} LIMIT {count})"
        for how, order in (("max", "ASC"), ("min", "DESC"))
    )
    low, high = (_row(door, text, index)[0] for text in ends)
    return low, high


def _of_the_view(
    door: SparkLake, view: View, most: int, hashed: tuple[str, ...]
) -> tuple[Bounds, ...]:
    """Of each number that a stored row shows, a bound that about `most` rows in all are beyond."""
    state, types = view.state, view.definition.types
    shown = state.columns if isinstance(state, Bag) else tuple(o.name for o in state.finish)
    numbers = [c for c in shown if c not in hashed and family(types.get(c, "")) == "number"]
    names = {plan: name for name, plan in view.bound.columns}
    numbers = [c for c in numbers if c in names]
    if not numbers:
        raise Invalid(
            f"{view.name!r} shows no number whose outliers could be kept",
            hint="OUTLIERS ON table.column names one of a table",
            reason="NO_OUTLIERS",
        )
    each = max(most // len(numbers), 1)
    found = []
    for column in numbers:
        value = quote(names[column])
        mean, distance = _row(
            door,
            f"SELECT any_value(mean), min(away) FROM (SELECT mean, abs({value} - mean) AS away FROM"
            f" ({read_sql(door, view)}) CROSS JOIN (SELECT avg({value}) AS mean FROM"
            f" ({read_sql(door, view)})) WHERE {value} IS NOT NULL ORDER BY away DESC LIMIT {each})",
            Index("AUTO", most),
        )
        found.append(Bounds(column, mean - distance, mean + distance))
    return tuple(found)


def _number(table: Table, index: Index) -> tuple[str, str]:
    """The column's exact name and type; Invalid if it is not there or not a number."""
    there = {name.lower(): (name, kind) for name, kind in table.columns}
    name, kind = there.get(index.column.lower(), ("", ""))
    if family(kind) != "number":
        raise Invalid(
            f"{index.table}.{index.column} is {f'a {kind}' if name else 'no column'}",
            hint="an outlier index is on a column of numbers",
            reason="NO_SUCH_COLUMN",
        )
    return name, kind


def _row(door: SparkLake, text: str, index: Index) -> list[float]:
    values = list(door.sql(text).collect()[0])
    if any(v is None for v in values):
        raise Invalid(
            f"OUTLIERS {index}: there is no value yet",
            hint="load the table first",
            reason="NO_OUTLIERS",
        )
    return [float(v) for v in values]
