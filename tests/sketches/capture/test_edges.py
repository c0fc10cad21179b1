"""The rows of fragments are found by their ranges, whatever writer's statistics Spark skips files by."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from belvedere.api import Lake
from belvedere.delta.small_writes import writer_properties
from belvedere.delta.statistics import misleads_spark
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.lake.spark_lake import open_directory
from belvedere.lake.tables.frames import open_version
from belvedere.memory import kinds
from belvedere.sketches.use.rewrite import _needed
from tests.local_tables import table_in
from tests.reference import recorded

pytestmark = pytest.mark.spark

AT = datetime.datetime(2024, 1, 3, 0, 0, 0, 300789)
LONG = Decimal("12345678901234567.13")
EDGES: dict[str, list[Any]] = {
    "tinyint": [-128, 127, 0],
    "bigint": [-(2**63), 2**63 - 1, 2**53, 2**53 + 1],
    "decimal(15,3)": [Decimal("123456789012.345"), Decimal("-0.001"), Decimal("0.000")],
    "decimal(20,2)": [LONG, LONG + Decimal("0.37"), -LONG, Decimal("0.00")],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")],
    "float": [0.0, -0.0, math.nan, math.inf, 0.10000000149011612, 0.699999988079071],
    "double": [0.0, -0.0, math.nan, -math.inf, 1.5, 1e300, 5e-324],
    "date": [datetime.date(1, 1, 1), datetime.date(1582, 10, 7), datetime.date(1582, 10, 16), datetime.date(9999, 12, 31)],
    "timestamp": [AT, AT.replace(year=1880), AT.replace(year=1), AT.replace(1582, 10, 7), AT.replace(9999, 12, 31, 23)],
    "timestamp_ntz": [AT, AT.replace(year=1880), AT.replace(1582, 10, 7), AT.replace(9999, 12, 31, 23, 59)],
    "string": ["", "a" * 40, "a" * 32 + "é", "\uffff" * 33, "😀" * 33, "b" * 31 + "😀z", "~"],
}  # fmt: skip


def cells(kind: str, draw: random.Random, count: int) -> pa.Array:
    """The edges of a type and NULL, each at least once, in an order of their own."""
    values = [None, *EDGES[kind]]
    if kind == "timestamp":
        values = [v and v.replace(tzinfo=datetime.UTC) for v in values]
    some = [*values, *draw.choices(values, k=count - len(values))]
    draw.shuffle(some)
    return pa.array(some, kinds.arrow(kind))


def rows(seed: int, count: int = 12) -> pa.Table:
    draw = random.Random(seed)
    columns = {f"c{i}": cells(kind, draw, count) for i, kind in enumerate(EDGES)}
    return pa.table({"id": pa.array(range(count), pa.int32()), **columns})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranges") / "lake"


@pytest.fixture(scope="module")
def lake(root: Path, spark: Any) -> Iterator[Lake]:
    """The same rows by Spark, in a time zone that was not always whole minutes off, and by others."""
    opened, some = Lake(open_directory(root)), rows(7)
    zone = opened.spark.conf.get("spark.sql.session.timeZone")
    opened.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    columns = (f"CAST(c{i} AS {kind}) AS c{i}" for i, kind in enumerate(EDGES))
    frame = (
        opened.spark.createDataFrame(some).selectExpr("id", *columns).repartitionByRange(5, "id")
    )
    frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(
        str(root / "by_spark")
    )
    opened.spark.sql(f"DELETE FROM delta.`{root / 'by_spark'}` WHERE id = 5")
    for part in range(0, 12, 3):
        recorded.by_delta_rs(root / "by_delta_rs", some.slice(part, 3))
    yield opened
    opened.spark.conf.set("spark.sql.session.timeZone", zone)
    opened.close()


def wanted(seed: int, everything: bool) -> list[tuple[Partition, Bitmap]]:
    """Of each type a cut at all its values, and fragments to be read: one, or some with the last."""
    draw, some = random.Random(seed), rows(seed)
    found = []
    for i, kind in enumerate(EDGES):
        values = some[f"c{i}"].drop_null().to_pylist()
        cuts = {recorded._order(v): v for v in values if v == v}
        partition = Partition("t", f"c{i}", kind, tuple(cuts[k] for k in sorted(cuts)))
        each = range(partition.count)
        picked = each if everything else (draw.choice(each),)
        found += [(partition, np.arange(partition.count) == f) for f in picked]
        last = partition.null - 1
        found.append((partition, np.array([f == last or draw.random() < 0.5 for f in each])))
    return found


@pytest.mark.parametrize("writer", ["by_spark", "by_delta_rs"])
@pytest.mark.parametrize("directly", [True, False])
def test_rows_of_fragments_are_found_by_their_ranges(
    lake: Lake, root: Path, writer: str, directly: bool, request: pytest.FixtureRequest
) -> None:
    some = rows(7)
    if writer == "by_spark":
        some = some.filter(pa.compute.not_equal(some["id"], 5))
    table = table_in(root / writer, writer)
    work = wanted(7, everything=bool(request.config.getoption("--soak")))
    with lake._door.own_work() as own:
        frames = []
        for number, (partition, kept) in enumerate(work):
            needed = partial(_needed, table, partition, kept) if directly else None
            frame = (
                open_version(own, table, table.version, needed)
                if directly
                else own.query(f"SELECT * FROM {table.at(table.version)}")
            )
            frames.append(
                frame.where(partition.predicate(kept).sql()).selectExpr(f"{number} AS n", "id")
            )
        found: dict[int, set[int]] = {}
        for n, i in reduce(lambda a, b: a.unionAll(b), frames).collect():
            found.setdefault(n, set()).add(i)
    for number, (partition, kept) in enumerate(work):
        there = kept[partition.fragments(some[partition.column])]
        ids = {i for i, here in zip(some["id"].to_pylist(), there, strict=True) if here}
        assert found.get(number, set()) == ids, (partition.kind, partition.predicate(kept))


def test_each_files_recorded_values_are_bounds(lake: Lake, root: Path) -> None:
    recorded.holds(root / "by_spark", {f"c{i}": kind for i, kind in enumerate(EDGES)})


def test_sparks_filters_find_all_rows_of_small_writes(lake: Lake, root: Path) -> None:
    some, place = rows(7), root / "small"
    write_deltalake(str(place), some.schema.empty_table())
    for part in range(0, 12, 3):
        how = writer_properties(DeltaTable(str(place)))
        write_deltalake(str(place), some.slice(part, 3), mode="append", writer_properties=how)
    cases = [
        (f"c{i}", kind, v)
        for i, kind in enumerate(EDGES)
        if misleads_spark(kind)
        for v in dict.fromkeys(map(recorded._order, some[f"c{i}"].drop_null().to_pylist()))
    ]
    texts = {"(True, 0.0)": "NaN"}
    found: dict[int, set[int]] = {}
    conditions = [
        f"{c} >= CAST('{texts.get(str(v), v[1] if isinstance(v, tuple) else v)}' AS {kind})"
        for c, kind, v in cases
    ]
    parts = (
        f"SELECT {n} AS n, id FROM delta.`{place}` WHERE {condition}"
        for n, condition in enumerate(conditions)
    )
    for n, i in lake.spark.sql(" UNION ALL ".join(parts)).collect():
        found.setdefault(n, set()).add(i)
    for n, (column, _, least) in enumerate(cases):
        pairs = zip(some["id"].to_pylist(), some[column].to_pylist(), strict=True)
        wanted = {i for i, v in pairs if v is not None and recorded._order(v) >= least}
        assert found.get(n, set()) == wanted, conditions[n]


def created(lake: Lake, name: str, columns: str, values: list[str]) -> None:
    """A table of one file for each row."""
    split = f"SELECT /*+ REPARTITION_BY_RANGE({len(values)}, {columns.split(',')[0]}) */ * FROM VALUES {', '.join(values)}"
    lake.sql(
        f"CREATE TABLE {name} TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        f"{split} AS t({columns})"
    )


def assert_same(lake: Lake, query: str, sketch: str) -> None:
    answer = lake.explain_query(query)
    assert answer.sketch == sketch, str(answer)
    through = sorted(map(str, lake.query(query).collect()))
    assert through == sorted(map(str, lake.sql(query).collect()))
    assert through


def test_times_between_milliseconds_are_found_through_a_sketch(lake: Lake) -> None:
    days = [f"({d}, TIMESTAMP '2024-01-0{d} 00:00:00.300789')" for d in range(1, 6)]
    created(lake, "times", "id, t", days)
    query = "SELECT id, t FROM times WHERE id = 3"
    lake.sql(
        f"CREATE SKETCH by_time ON {query} PARTITION times BY t AT (TIMESTAMP '2024-01-02 00:00:00', "
        "TIMESTAMP '2024-01-03 00:00:00.3005', TIMESTAMP '2024-01-04 00:00:00')"
    )
    assert_same(lake, query, "by_time")


def test_decimals_of_more_digits_than_a_double_are_found_through_a_sketch(lake: Lake) -> None:
    created(lake, "longs", "id, v", [f"({i}, {12345678901234567 + 10 * i}.13)" for i in range(4)])
    query = "SELECT id, v FROM longs WHERE v <= 12345678901234567.13"
    lake.sql(
        f"CREATE SKETCH by_long ON {query} PARTITION longs BY v AT "
        "(12345678901234567.50, 12345678901234582.50, 12345678901234592.50)"
    )
    assert_same(lake, query, "by_long")


def test_nan_is_found_through_a_sketch_whoever_wrote_it(lake: Lake, root: Path) -> None:
    for i in range(10):
        last = math.nan if i % 3 == 0 else i + 0.75
        rows = pa.table({"id": pa.array(range(4), pa.int32()), "z": [i, i + 0.25, i + 0.5, last]})
        feed = {"delta.enableChangeDataFeed": "true"} if i == 0 else None
        write_deltalake(str(root / "foreign_nan"), rows, mode="append", configuration=feed)
    lake.sql(f"CREATE TABLE foreign_nan USING delta LOCATION '{root / 'foreign_nan'}'")
    query = "SELECT z, count(*) AS n FROM foreign_nan GROUP BY z HAVING count(*) > 1"
    lake.sql(
        f"CREATE SKETCH by_foreign_nan ON {query} "
        "PARTITION foreign_nan BY z AT (1.0, 2.0, 3.0, 5.0, 7.0, 20.0)"
    )
    assert_same(lake, query, "by_foreign_nan")
    created(lake, "own_nan", "id, z", [f"({i}, {i}.5D)" for i in range(6)])
    query = "SELECT id, z FROM own_nan WHERE z > 4.4D"
    lake.sql(
        f"CREATE SKETCH by_own_nan ON {query} PARTITION own_nan BY z AT (1.0, 2.0, 3.0, 5.0, 7.0)"
    )
    lake.sql("INSERT INTO own_nan VALUES (9, double('nan'))")
    assert_same(lake, query, "by_own_nan")


def test_a_sketch_of_a_double_constant_answers_for_no_exact_one(lake: Lake) -> None:
    values = [f"({i}, {10**16 + i - 5}L)" for i in range(10)]
    created(lake, "wide", "g, x", values)
    query = "SELECT g, sum(x) AS s FROM wide GROUP BY g HAVING sum(x) > {}"
    lake.sql(
        f"CREATE SKETCH by_double ON {query.format('1e16')} PARTITION wide BY g INTO 10 FRAGMENTS"
    )
    exact = query.format("10000000000000000")
    assert lake.explain_query(exact).sketch is None
    assert sorted(r.g for r in lake.query(exact).collect()) == [6, 7, 8, 9]
