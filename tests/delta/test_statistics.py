"""What is read from files' statistics is true of their values, whoever wrote them: without Spark."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings

from belvedere.delta.files import File
from belvedere.delta.statistics import ColumnFacts, bounds_of_all, column_facts
from belvedere.lake.tables.table import Table
from belvedere.memory import kinds
from tests.local_tables import table_in
from tests.reference.recorded import VALUES, recorded_values_are_bounds, written


@settings(max_examples=25)
@given(written)
def test_recorded_values_are_bounds_whoever_recorded_them(some: Any) -> None:
    recorded_values_are_bounds(some)


KINDS = [*VALUES, "boolean", "binary"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A column of each type, named by its place in the list, and one of texts with a name of its own."""
    root = tmp_path_factory.mktemp("typed")
    fields = [pa.field(f"c{i}", kinds.arrow(kind)) for i, kind in enumerate(KINDS)]
    write_deltalake(str(root), pa.schema([*fields, pa.field("Name", pa.string())]).empty_table())
    return table_in(root)


def facts(table: Table, kind: str, low: object, high: object, **more: Any) -> ColumnFacts:
    name = f"c{KINDS.index(kind)}"
    stats = {"numRecords": 3, "minValues": {name: low}, "maxValues": {name: high}, **more}
    return column_facts(table, File("", 0, json.dumps(stats), None), name)


SECOND = datetime.datetime(2024, 1, 3, 0, 0, 0, 300789)
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("kind", "low", "high", "value"),
    [
        ("timestamp", "2024-01-03T00:00:00.300Z", "2024-01-03T00:00:00.300Z", SECOND.replace(tzinfo=UTC)),
        ("timestamp", "2024-01-03T01:00:00.300+01:00", "2024-01-03T01:00:00.300+01:00", SECOND.replace(tzinfo=UTC)),
        ("timestamp", "1880-01-01T00:53:28.000+00:53", "1880-01-01T00:53:28.000+00:53", datetime.datetime(1880, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", "2024-01-03T00:00:00.300", "2024-01-03T00:00:00.300", SECOND),
        ("timestamp_ntz", "2024-01-03 00:00:00.300", "2024-01-03 00:00:00.300", SECOND),
        ("double", 1.5, 2.5, math.nan),
        ("double", "-Infinity", "NaN", math.nan),
        ("float", 0.7, 0.7, 0.699999988079071),
        ("double", 0.0, 1.0, -0.0),
        ("bigint", 2**53 + 1, 2**63 - 1, 2**53 + 1),
    ],
)  # fmt: skip
def test_a_value_lies_between_what_was_recorded_of_it(
    table: Table, kind: str, low: object, high: object, value: Any
) -> None:
    ends = facts(table, kind, low, high).bounds
    assert ends is not None
    assert ends[0] <= value or value != value
    assert math.isnan(ends[1]) if kind in ("float", "double") else value <= ends[1]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("int", "1", "2"),
        ("int", 1.5, 2.5),
        ("int", True, True),
        ("int", 9, 1),
        ("date", "+10000-01-01", "+10000-01-01"),
        ("date", "-0001-01-01", "2024-01-01"),
        ("date", "2024-02-30", "2024-02-30"),
        ("date", "20240101", "20240102"),
        ("timestamp", "2024-01-03T00:00:00.300", "2024-01-03T00:00:00.300"),
        ("timestamp", "9999-12-31T23:59:59.999Z", "+10000-01-01T00:00:00.000Z"),
        ("timestamp_ntz", "2024-01-03T00:00:00.300Z", "2024-01-03T00:00:00.300Z"),
        ("string", "\ufffd", "\ufffd"),
        ("string", 1, 2),
        ("double", None, 1.0),
        ("double", "much", 1.0),
        ("decimal(20,2)", "1.00", "2.00"),
        ("boolean", False, True),
        ("binary", "a", "b"),
    ],
)
def test_what_cannot_be_relied_on_is_no_bound(
    table: Table, kind: str, low: object, high: object
) -> None:
    assert facts(table, kind, low, high).bounds is None


def test_texts_are_bounded_by_all_that_begins_with_what_was_recorded(table: Table) -> None:
    ends = facts(table, "string", "ab", "é" * 32).bounds
    assert ends is not None
    assert ends[0] == b"ab"
    assert ("é" * 32 + "\U0010ffff").encode() < ends[1] < "ê".encode()


def test_decimals_of_few_digits_are_what_was_recorded_and_others_nearly(table: Table) -> None:
    assert facts(table, "decimal(15,3)", 0.001, 2).bounds == (Decimal("0.001"), 2)
    ends = facts(table, "decimal(20,2)", 0, 12345678901234568).bounds
    assert ends is not None
    assert ends[0] < 0
    assert Decimal("12345678901234570") < ends[1] < Decimal("12345678901239999")


def test_counts_of_null_say_whether_there_are_nulls_and_values(table: Table) -> None:
    def told(**stats: Any) -> tuple[bool, bool]:
        found = facts(table, "int", 1, 2, **stats)
        return found.may_have_nulls, found.may_have_values

    assert told() == told(nullCount={}) == told(nullCount={"c1": None}) == (True, True)
    assert told(nullCount={"c1": 0}) == (False, True)
    assert told(nullCount={"c1": 2}) == told(nullCount={"c1": 2}, tightBounds=False) == (True, True)
    assert told(nullCount={"c1": 3}) == told(numRecords=0) == (True, False)
    assert told(numRecords=None, nullCount={"c1": 3}) == (True, True)


def test_statistics_that_cannot_be_read_say_nothing(table: Table) -> None:
    for text in ("", "{", "[]", '{"minValues": 1, "maxValues": [], "nullCount": "c1"}', "NaN"):
        assert column_facts(table, File("", 0, text, None), "c1") == ColumnFacts()
    assert File("", 0, '{"numRecords": "many"}', None).rows is None


def test_columns_are_found_under_the_name_that_the_files_have(table: Table) -> None:
    stats = {"minValues": {"Name": "a"}, "maxValues": {"Name": "b"}, "nullCount": {"Name": 0}}
    file = File("", 0, json.dumps(stats), None)
    assert column_facts(table, file, "NAME").bounds is not None
    mapped = replace(table, places={**table.places, "label": "name", "name": "other"})
    assert column_facts(mapped, file, "name") == ColumnFacts()
    partitioned = replace(table, partition_columns=("Name",))
    assert column_facts(partitioned, file, "name") == ColumnFacts()
    # CHAR is padded when it is read, so that such tables are not plain.
    assert column_facts(replace(table, plain=False), file, "name").bounds is None


def test_bounds_of_several_files_need_each_that_has_values(table: Table) -> None:
    def file(**stats: Any) -> File:
        return File("", 0, json.dumps({"numRecords": 3, **stats}), None)

    low = file(minValues={"c1": 1}, maxValues={"c1": 4})
    high = file(minValues={"c1": 3}, maxValues={"c1": 9})
    null, mute, empty = file(nullCount={"c1": 3}), file(), file(numRecords=0)
    assert bounds_of_all(table, [low, null, high, empty], "c1") == (1, 9)
    assert bounds_of_all(table, [low, mute], "c1") is None
    assert bounds_of_all(table, [null, empty], "c1") is None
