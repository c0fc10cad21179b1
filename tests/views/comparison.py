"""A view against its defining query: the same bag both ways, the same names and types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import belvedere as bv
from belvedere.lake.sessions.workspace import branch, release


def assert_fresh(lake: bv.Lake, name: str, query: str) -> None:
    """The view equals recomputation now, with its schema."""
    assert_same(lake.sql(f"SELECT * FROM `{name}`"), lake.sql(query), name)


def assert_all_fresh(lake: bv.Lake, views: Mapping[str, str], tables: Iterable[str] = ()) -> None:
    """Every view equals recomputation now, with its schema; small tables are read once for all."""
    spark = branch(lake.spark)
    for table in tables:
        frame = lake.sql(f"SELECT * FROM {table}")
        spark.createDataFrame(frame.toArrow(), frame.schema).createOrReplaceTempView(table)

    def check(name: str, query: str) -> None:
        assert_same(lake.sql(f"SELECT * FROM `{name}`"), spark.sql(query), name)

    with ThreadPoolExecutor(2) as pool:
        checked = [pool.submit(check, *view) for view in views.items()]
    release(spark)
    failed = [error for error in (c.exception() for c in checked) if error is not None]
    if failed:
        told = "\n".join(str(error)[:2000] for error in failed)
        raise AssertionError(f"{len(failed)} of {len(views)} views\n{told}") from failed[0]


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
