"""Every value, known or not, is in exactly one fragment, in memory and in SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from belvedere.algebra.scalars import col
from belvedere.errors import Invalid
from belvedere.joins.partitions import Partition, equi_depth, equi_width, given, runs
from belvedere.memory.kinds import arrow

UTC = dt.UTC
VALUES: dict[str, list[Any]] = {
    "int": [-5, 0, 1, 7, 8, 99, None],
    "bigint": [-(2**62), 3, 2**62, None],
    "decimal(10,2)": [Decimal("-1.25"), Decimal("0.00"), Decimal("3.10"), Decimal("9.99"), None],
    "decimal(30,5)": [Decimal("-" + "1" * 20), Decimal("0.00001"), Decimal("1" * 22), None],
    "float": [0.10000000149011612, 0.699999988079071, 0.30000001192092896, None],
    "double": [-1.5, -0.0, 0.0, 2.5, float("inf"), float("nan"), None],
    "date": [dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 5, 5), None],
    "timestamp": [dt.datetime(2026, 1, d, 5, tzinfo=UTC) for d in (1, 2, 3)] + [None],
    "timestamp_ntz": [dt.datetime(2026, 1, d, 5) for d in (1, 2, 3)] + [None],
    "string": ["", "a", "b", "é", "zz", "日本", None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_have_the_same_fragment_everywhere(kind: str) -> None:
    values = pa.array(VALUES[kind], arrow(kind))
    cut = equi_depth("t", "a", kind, values, 3)
    assert cut.bounds
    wanted = [cut.fragment(v) for v in VALUES[kind]]
    assert cut.fragments(values).tolist() == wanted
    assert cut.fragments(pa.chunked_array([values[:2], values[2:]])).tolist() == wanted
    assert Partition.from_json(cut.to_json()) == cut
    rows = duckdb.connect()
    rows.register("given", pa.table({"a": values, "i": range(len(values))}))
    rows.execute("CREATE TABLE t AS FROM given")  # over Arrow's own filters NaN is no number
    rows.execute("SET TimeZone = 'UTC'")
    text = cut.fragment_scalar(col("a")).sql("duckdb")
    found = rows.execute(f"SELECT {text} FROM t ORDER BY i").fetchall()
    assert [f for (f,) in found] == wanted
    for keep in range(cut.count):
        bitmap = np.arange(cut.count) == keep
        kept = rows.execute(
            f"SELECT i FROM t WHERE {cut.predicate(bitmap).sql('duckdb')} ORDER BY i"
        )
        assert [i for (i,) in kept.fetchall()] == [i for i, f in enumerate(wanted) if f == keep]


@pytest.mark.parametrize("day", [dt.date(1582, 10, 1) + dt.timedelta(days) for days in range(20)])
def test_ranges_that_begin_on_a_day_that_the_old_calendar_lacked_skip_no_file(day: dt.date) -> None:
    lacked = {dt.date(1582, 10, number) for number in range(5, 15)}
    kept = np.array([False, True, False])
    if day in lacked:
        assert "GREATEST" in Partition("t", "a", "date", (day,)).predicate(kept).sql()
    for hour in (0, 23):
        moment = dt.datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
        zones = (dt.timezone(dt.timedelta(hours=hours)) for hours in (-12, 0, 14))
        if lacked & {moment.astimezone(zone).date() for zone in zones}:
            assert "GREATEST" in Partition("t", "a", "timestamp", (moment,)).predicate(kept).sql()
    far = Partition("t", "a", "date", (day.replace(year=1682),)).predicate(kept).sql()
    assert "GREATEST" not in far


@pytest.mark.parametrize("kind", [k for k in VALUES if k not in ("string", "decimal(30,5)")])
def test_ranges_of_equal_width(kind: str) -> None:
    ends = [v for v in VALUES[kind] if v is not None and v == v and v != float("inf")]
    cut = equi_width("t", "a", kind, min(ends), max(ends), 4)
    assert len(cut.bounds) == 3
    assert cut.fragment(min(ends)) == 0
    assert cut.fragment(max(ends)) == 3


def test_adjacent_ranges_are_one_predicate() -> None:
    cut = Partition("t", "a", "int", (10, 20, 30))
    everything = np.array([True] * 4 + [False])
    assert str(cut.predicate(everything)) == "NOT `a` IS NULL"
    assert str(cut.predicate(np.zeros(5, dtype=bool))) == "FALSE"
    assert runs(np.array([True, True, False, True])) == [(0, 1), (3, 3)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Partition("t", "a", "boolean", ()), "cannot be cut"),
        (lambda: Partition("t", "a", "array<int>", ()), "cannot be cut"),
        (lambda: given("t", "a", "int", ["5", "5"]), "overlap"),
        (lambda: given("t", "a", "int", ["5", "4"]), "overlap"),
        (lambda: given("t", "a", "int", ["five"]), "no value of type int"),
        (lambda: given("t", "a", "double", ["nan"]), "no value of type double"),
        (lambda: equi_depth("t", "a", "int", pa.array([1]), 0), "0 fragments"),
        (lambda: equi_width("t", "a", "string", "a", "b", 3), "equal width"),
    ],
)
def test_what_is_no_partition_is_refused(make: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        make()


def test_bounds_of_floats_are_floats() -> None:
    cut = given("t", "a", "float", ["0.1", "0.7"])
    values = pa.array([0.1, 0.5, 0.7], pa.float32())
    assert cut.fragments(values).tolist() == [1, 1, 2]
    assert [cut.fragment(v) for v in values.to_pylist()] == [1, 1, 2]


@pytest.mark.parametrize(
    ("kind", "bounds", "kept", "skips"),
    [
        ("int", ["0", "5"], [False, True, False, False], True),
        ("string", ["a", "b"], [False, False, True, False], True),
        ("double", ["1.5", "2.5"], [False, True, False, False], True),
        ("double", ["1.5", "2.5"], [False, False, True, False], False),  # NaN
        ("double", ["-0.0", "2.5"], [False, True, False, False], False),
        ("double", ["1.5", "2.5"], [False, False, False, True], True),
        ("decimal(15,2)", ["1", "2"], [False, True, False, False], True),
        ("decimal(16,2)", ["1", "2"], [False, True, False, False], False),
        ("date", ["1582-10-04", "1582-10-20"], [False, True, False, False], True),
        ("date", ["1582-10-10", "2020-01-01"], [False, True, False, False], False),
        ("timestamp", ["1582-10-10", "2020-01-01"], [False, True, False, False], False),
        ("timestamp_ntz", ["1582-10-10", "2020-01-01"], [False, True, False, False], True),
    ],
)
def test_files_are_skipped_by_a_predicate_only_where_none_is_lost(
    kind: str, bounds: list[str], kept: list[bool], skips: bool
) -> None:
    text = str(given("t", "a", kind, bounds).predicate(np.array(kept)))
    assert ("GREATEST" not in text) is skips, text
