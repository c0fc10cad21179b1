"""A view against its defining query: the same bag both ways, the same names and types."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import belvedere as bv


def assert_fresh(lake: bv.Lake, name: str, query: str) -> None:
    """The view equals recomputation now, with its schema."""
    assert_same(lake.sql(f"SELECT * FROM `{name}`"), lake.sql(query), name)


def assert_all_fresh(lake: bv.Lake, views: Mapping[str, str]) -> None:
    """Every view equals recomputation now, with its schema; all rows come in one query."""
    for name, query in views.items():
        assert _schema(lake.sql(f"SELECT * FROM `{name}`")) == _schema(lake.sql(query)), name
    shown = _bags(lake, {name: f"SELECT * FROM `{name}`" for name in views})
    expected = _bags(lake, views)
    for name in views:
        have, want = shown[name], expected[name]
        assert have == want, f"{name}: extra {have - want}, missing {want - have}"


def _bags(lake: bv.Lake, queries: Mapping[str, str]) -> dict[str, Counter[str]]:
    parts = [
        f"SELECT '{name}' AS name, to_json(struct(*), map('ignoreNullFields', 'false')) AS row FROM ({query})"
        for name, query in queries.items()
    ]
    floating = {name: _floating(lake.sql(query)) for name, query in queries.items()}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, row in lake.sql(" UNION ALL ".join(parts)).collect():
        values = json.loads(row, parse_int=str, parse_float=str)
        for column in floating[name]:
            values[column] = _rounded(values[column])
        found[name][repr(values)] += 1
    return found


def assert_same(shown: Any, expected: Any, name: str) -> None:
    """Two frames have the same rows, names and types."""
    assert _schema(shown) == _schema(expected), name
    have, want = _bag(shown), _bag(expected)
    assert have == want, f"{name}: extra {have - want}, missing {want - have}"


def _schema(frame: Any) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]


def _bag(frame: Any) -> Counter[str]:
    floating = _floating(frame)
    return Counter(
        repr([_rounded(v) if n in floating else v for n, v in row.asDict().items()])
        for row in frame.collect()
    )


def _floating(frame: Any) -> set[str]:
    return {f.name for f in frame.schema.fields if f.dataType.simpleString() in ("double", "float")}


def _rounded(value: float | str | None) -> str | None:
    """Floating point up to the order of additions."""
    return None if value is None else f"{float(value):.9g}"
