"""Which values are outliers: from a threshold, the k largest, or standard deviations (SVC §6.1).

Bounds are set when a sample is created, from the table as it is then: a fixed bound makes the
index a filter, which changes keep up to date like any other. New records beyond it join, records
that go leave; CREATE OR REPLACE SAMPLE sets the bounds anew.

AUTO needs no choice: of each number that the view shows, the rows farthest from the mean.
"""

from __future__ import annotations

from belvedere.algebra.hashing import family
from belvedere.errors import Invalid
from belvedere.lake.door import Door
from belvedere.lake.names import quote
from belvedere.lake.tables import Table
from belvedere.sql.sample_statements import Index
from belvedere.views.catalog import canonical_name
from belvedere.views.create import read_sql
from belvedere.views.definition import View
from belvedere.views.sampling import Bounds
from belvedere.views.state import Bag


def bounds(
    door: Door, view: View, index: Index, hashed: tuple[str, ...]
) -> tuple[str, tuple[Bounds, ...]]:
    """The table that is indexed, and the bounds beyond which its values are outliers."""
    if index.rule == "AUTO":
        return view.stored, _of_the_view(door, view, int(index.amount), hashed)
    table = door.table(canonical_name(door, index.table))
    if table.name not in view.inputs:
        raise Invalid(
            f"{view.name!r} does not read {index.table!r}",
            hint=f"it reads {', '.join(view.inputs)}",
        )
    column, kind = _number(table, index)
    source = table.reference
    if index.rule in ("ABOVE", "BELOW"):
        above = index.rule == "ABOVE"
        low, high = (None, index.amount) if above else (index.amount, None)
        return table.name, (Bounds(column, low, high, kind),)
    if index.amount <= 0:
        raise Invalid(f"OUTLIERS {index}", hint="the number is more than 0")
    least, most = _extremes(door, source, quote(column), index)
    found = Bounds(column, least if index.two_sided else None, most, kind)
    return table.name, (found,)


def _extremes(door: Door, source: str, value: str, index: Index) -> tuple[float, float]:
    if index.rule == "BEYOND":
        mean, spread = _row(door, f"SELECT avg({value}), stddev_samp({value}) FROM {source}", index)
        return mean - index.amount * spread, mean + index.amount * spread
    most = int(index.amount)
    ends = (
        f"SELECT {how}(v) FROM (SELECT CAST({value} AS double) AS v FROM {source}"
        f" WHERE {value} IS NOT NULL ORDER BY v {order} LIMIT {most})"
        for how, order in (("max", "ASC"), ("min", "DESC"))
    )
    low, high = (_row(door, text, index)[0] for text in ends)
    return low, high


def _of_the_view(door: Door, view: View, most: int, hashed: tuple[str, ...]) -> tuple[Bounds, ...]:
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
        )
    return name, kind


def _row(door: Door, text: str, index: Index) -> list[float]:
    values = list(door.sql(text).collect()[0])
    if any(v is None for v in values):
        raise Invalid(f"OUTLIERS {index}: there is no value yet", hint="load the table first")
    return [float(v) for v in values]
