"""CHAR columns by their definition: every value padded with spaces, then compared as texts.

Of two sides that Spark pads for a comparison the shorter one gets the length of the longer.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from belvedere.algebra.relations import Change, Scan
from belvedere.memory.plans import Memory
from belvedere.sql.binder.bind import bind
from belvedere.sql.binder.context import Relation

Text: TypeAlias = str | None
Row: TypeAlias = tuple[Text, Text, Text]
"""Values of CHAR(3), CHAR(5) and STRING."""

_COLUMNS = (("a", 3), ("b", 5), ("s", None))
_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Table:
    """A catalog of one table."""

    def resolve(self, name: str) -> Relation:
        columns = tuple((c, "string") for c, _ in _COLUMNS)
        return Relation(columns, name, declared={"a": "char(3)", "b": "char(5)"})


_TEXTS = st.text("aé ", max_size=4)
ROWS = st.lists(st.tuples(*(st.none() | st.text("aé ", max_size=n or 4) for _, n in _COLUMNS)))
"""Values as they are stored: padded, or not, or partly."""
CONDITIONS = st.tuples(
    st.sampled_from([c for c, _ in _COLUMNS]),
    st.sampled_from([*_OPERATORS, "<=>", "IN"]),
    st.sampled_from([c for c, _ in _COLUMNS]) | st.lists(_TEXTS, min_size=1, max_size=3),
)
"""A column, how it is compared, and a column or texts."""


def kept_as_spark_keeps(rows: list[Row], condition: tuple[str, str, str | list[str]]) -> None:
    """WHERE finds the rows that the definition of CHAR finds, padded or not where they are stored."""
    column, how, other = condition
    listed = [other] if isinstance(other, str) else [f"'{text}'" for text in other]
    written = f"IN ({', '.join(listed)})" if how == "IN" else f"{how} {listed[0]}"
    shown = ", ".join(c for c, _ in _COLUMNS)
    found = _asked(rows, f"SELECT {shown} FROM t WHERE {column} {written}")
    assert found == Counter(r for r in map(_read, rows) if _keeps(r, column, how, other))


def grouped_as_spark_groups(rows: list[Row], column: str) -> None:
    """GROUP BY has a group for each padded value."""
    found = _asked(rows, f"SELECT {column}, count(*) AS n FROM t GROUP BY {column}")
    place = [c for c, _ in _COLUMNS].index(column)
    counted = Counter(row[place] for row in map(_read, rows))
    assert found == Counter(counted.items())


def _asked(rows: list[Row], query: str) -> Counter[tuple[object, ...]]:
    stored = pa.table(
        {c: pa.array([r[i] for r in rows], pa.string()) for i, (c, _) in enumerate(_COLUMNS)}
    )

    def leaf(of: Scan | Change) -> pa.Table:
        return stored.select([f.source for f in of.fields])

    bound = bind(query, _Table())
    found = Memory(leaf, 10_000).rows(bound.plan).table
    return Counter(tuple(row.values()) for row in found.to_pylist())


def _read(row: Row) -> Row:
    a, b, s = (
        v if v is None or n is None else v.ljust(n) for v, (_, n) in zip(row, _COLUMNS, strict=True)
    )
    return a, b, s


def _keeps(row: Row, column: str, how: str, other: str | list[str]) -> bool:
    values = dict(zip((c for c, _ in _COLUMNS), row, strict=True))
    lengths = dict(_COLUMNS)
    one = values[column]
    others: list[Text]
    if isinstance(other, str):
        others = [values[other]]
        padded = lengths[column] is not None and lengths[other] is not None
        length = max(lengths[column] or 0, lengths[other] or 0) if padded else 0
    else:
        others = [*other] if how == "IN" else [other[0]]
        longest = max(len(text or "") for text in others)
        length = max(lengths[column] or 0, longest) if lengths[column] is not None else 0
    if how == "<=>":
        return _padded(one, length) == _padded(others[0], length)
    if one is None or None in others:
        return False
    test = operator.eq if how == "IN" else _OPERATORS[how]
    return any(test(_padded(one, length), _padded(text, length)) for text in others)


def _padded(text: Text, length: int) -> Text:
    return None if text is None else text.ljust(length)
