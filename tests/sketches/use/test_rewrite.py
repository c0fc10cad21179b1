"""A query's text over its sketch, what that skips, and what a sketch relies on: without Spark."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from sqlglot import parse_one

from belvedere.algebra.relations import Aggregate, Rel
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.walks import nodes
from belvedere.analyses.intervals import Interval
from belvedere.delta.stamps import Position
from belvedere.errors import Unsupported
from belvedere.joins.partitions import Partition
from belvedere.lake.offline import OfflineLake
from belvedere.sketches.capture import clustering
from belvedere.sketches.capture.clustering import clustering_advice
from belvedere.sketches.capture.partition_choice import best_column
from belvedere.sketches.definition import SketchDefinition, Version, Watched
from belvedere.sketches.safety.bounds import declared_range, recorded_range
from belvedere.sketches.safety.evidence import Evidence
from belvedere.sketches.use.rewrite import Reading, fragment_share, rewrite_query, skipped_files
from belvedere.sql.binder.bind import bind
from belvedere.sql.parse import parse_query
from tests.sql.shop import Shop

CUT = Partition("sales", "price", "int", (10, 20, 30))
KEPT = np.array([False, True, True, False, False])
SHOWN = "(SELECT * FROM {} VERSION AS OF 3{})"
CUT_SALES = " WHERE (`price` >= 10 AND `price` < 30)"


@pytest.fixture
def shelf(tmp_path: Path) -> OfflineLake:
    """Sales in four files by price, and brands."""
    for start in (0, 10, 20, 30):
        rows = pa.table({"brand": ["a", "b"], "price": pa.array([start, start + 9], pa.int32())})
        write_deltalake(str(tmp_path / "sales"), rows, mode="append")
    write_deltalake(str(tmp_path / "brands"), pa.table({"brand": ["a", "b"]}))
    return OfflineLake(tmp_path)


def over_sketch(shelf: OfflineLake, text: str) -> str:
    tables = {t: shelf.table(t) for t in ("sales", "brands")}
    version = Version({t: Position(f.id, 3) for t, f in tables.items()}, (KEPT,))
    return rewrite_query(shelf, Reading.through(text, version, [CUT], tables))


def test_tables_are_read_at_their_versions_and_cut_ones_in_ranges(shelf: OfflineLake) -> None:
    sales, brands = (shelf.table(t).reference for t in ("sales", "brands"))
    cut, whole = SHOWN.format(sales, CUT_SALES), SHOWN.format(brands, "")
    cases = {
        "SELECT brand FROM sales": f"SELECT brand FROM {cut} AS `sales`",
        "SELECT s.brand FROM  Sales AS s -- sales\n": f"SELECT s.brand FROM  {cut} AS s -- sales\n",
        "SELECT 'sales' FROM `sales` x JOIN brands USING (brand) ORDER BY 1": (
            f"SELECT 'sales' FROM {cut} x JOIN {whole} AS `brands` USING (brand) ORDER BY 1"
        ),
        "WITH c AS (SELECT * FROM sales) SELECT * FROM c WHERE EXISTS (SELECT 1 FROM sales)": (
            f"WITH c AS (SELECT * FROM {cut} AS `sales`) SELECT * FROM c "
            f"WHERE EXISTS (SELECT 1 FROM {cut} AS `sales`)"
        ),
    }
    for text, wanted in cases.items():
        assert over_sketch(shelf, text) == wanted
        parse_query(over_sketch(shelf, text))


@pytest.mark.parametrize(
    "text",
    [
        "WITH sales AS (SELECT 1 AS brand) SELECT brand FROM sales",
        "SELECT brand FROM sales VERSION AS OF 1",
        "SELECT brand FROM sales TABLESAMPLE (5 PERCENT)",
        "SELECT lake_0123456789ab.sales.brand FROM lake_0123456789ab.sales",
    ],
)
def test_what_cannot_be_rewritten_for_sure_is_left_alone(shelf: OfflineLake, text: str) -> None:
    with pytest.raises(Unsupported):
        over_sketch(shelf, text)


def test_files_without_rows_of_the_fragments_are_skipped(shelf: OfflineLake) -> None:
    table = shelf.table("sales")
    found = skipped_files(table, table.version, CUT, KEPT)
    assert found is not None
    assert (found.files, found.of_files) == (2, 4)
    assert 0 < found.bytes < found.of_bytes
    assert fragment_share(CUT, KEPT) == 0.5


def test_clustering_is_offered_where_more_is_read_than_the_fragments_are(
    shelf: OfflineLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "_SMALLEST", 1)
    one = np.array([True, False, False, False, False])
    assert clustering_advice(shelf.table("sales"), CUT, one) == ""
    mixed = pa.table({"brand": ["a"] * 8, "price": pa.array([5, 15, 25, 35] * 2, pa.int32())})
    for _ in range(4):
        write_deltalake(str(tmp_path / "mixed"), mixed, mode="append")
    text = clustering_advice(shelf.table("mixed"), replace(CUT, table="mixed"), one)
    assert "CLUSTER SKETCH" in text
    assert "100% of its bytes" in text


def plan(text: str) -> Rel:
    return bind(text, Shop({"r": "g int, p int, v int, off decimal(4,2), s string"})).plan


def aggregate(text: str) -> Aggregate:
    return next(n for n in nodes(plan(text)) if isinstance(n, Aggregate))


ENDS = {"v": (3, 50), "off": (0, 0), "p": (-1, 5), "s": (None, None)}


@pytest.mark.parametrize(
    ("value", "holds"),
    [("v", True), ("v * (1 - off)", True), ("p", False), ("v + p", True), ("v + 4 * p", False), ("v * v", True), ("-v", False)],
)  # fmt: skip
def test_a_sum_is_proved_to_have_no_negative_term(value: str, holds: bool) -> None:
    evidence = Evidence(lambda _table, column: ENDS[column])
    found = aggregate(f"SELECT g, sum({value}) AS x FROM r GROUP BY g")
    assert evidence.nonnegative(found.aggregates[0].args[0], found.child) is holds
    again = Evidence.relying_on(evidence.watched())
    assert again.nonnegative(found.aggregates[0].args[0], found.child) is holds
    assert bool(evidence.watched()) is holds


def test_what_is_relied_on_leaves_room_for_growth_and_none_below_zero() -> None:
    evidence = Evidence(lambda _table, column: ENDS[column])
    found = aggregate("SELECT g, sum(v) AS x FROM r GROUP BY g")
    assert evidence.nonnegative(Scalar(parse_one("`v`", dialect="spark")), found.child)
    assert evidence.watched() == (Watched("r", "v", "0", "400"),)
    assert Fraction(evidence.watched()[0].low) == 0


def test_where_room_for_growth_proves_nothing_the_values_that_are_there_may() -> None:
    evidence = Evidence(lambda _table, column: ENDS[column])
    found = aggregate("SELECT g, sum(60 - v) AS x FROM r GROUP BY g")
    assert evidence.nonnegative(found.aggregates[0].args[0], found.child)
    assert evidence.watched() == (Watched("r", "v", "3", "50"),)


def test_constraints_and_the_log_say_where_values_lie(tmp_path: Path) -> None:
    checks = {
        "delta.constraints.one": "price >= 0 AND 100 > `Price`",
        "delta.constraints.two": "brand <> 'x'",
        "delta.constraints.three": "price BETWEEN -5 AND 90",
        "delta.constraints.four": "not ( sql",
    }
    digits = Decimal("12345678901234567890.12")
    for price, long in ((7, digits), (40, -digits)):
        rows = {
            "price": pa.array([price, None], pa.int32()),
            "long": [long, None],
            "brand": ["a", "b"],
        }
        write_deltalake(str(tmp_path / "t"), pa.table(rows), mode="append")
    write_deltalake(str(tmp_path / "t"), pa.table({"price": pa.nulls(2, pa.int32()), "long": [digits] * 2, "brand": ["a", "b"]}), mode="append")  # fmt: skip
    table = OfflineLake(tmp_path).table("t")
    assert recorded_range(table, "price") == (7, 40)
    least, most = recorded_range(table, "long") or (0, 0)
    assert -digits * 2 < least <= -digits  # delta-rs recorded it as a double
    assert digits <= most < digits * 2
    assert recorded_range(table, "brand") is None
    assert declared_range(table, "price") is None
    checked = replace(table, properties=checks)
    assert declared_range(checked, "price") == Interval(Fraction(0), Fraction(90))
    assert declared_range(checked, "brand") is None
    evidence = Evidence(
        lambda _t, c: recorded_range(table, c), lambda _t, c: declared_range(checked, c)
    )  # type: ignore[arg-type, return-value]
    found = bind("SELECT brand, sum(95 - price) AS x FROM t GROUP BY brand", Shop({"t": "price int, brand string"})).plan  # fmt: skip
    aggregate = next(n for n in nodes(found) if isinstance(n, Aggregate))
    assert evidence.nonnegative(aggregate.aggregates[0].args[0], aggregate.child)
    assert evidence.watched() == (Watched("t", "price", "0", "90"),)


def test_the_column_over_whose_ranges_groups_are_spread_least_is_chosen() -> None:
    draw = np.random.default_rng(3)
    g = draw.integers(0, 40, 4000)
    sample = {"g": pa.array(g), "v": pa.array(draw.integers(0, 1000, 4000)), "p": pa.array(g // 2)}
    q = plan("SELECT g, max(v) AS m, min(p) AS n FROM r GROUP BY g HAVING max(v) > 990")
    assert best_column(q, "r", sample) == "g"
    del sample["g"]
    assert best_column(plan("SELECT v FROM r WHERE v > 3"), "r", sample) in ("v", "p")


def test_a_definition_is_saved_and_read_back() -> None:
    version = Version({"sales": Position("id", 7, "mark")}, (KEPT,))
    one = SketchDefinition(
        "id", "hot", "SELECT 1", {"a": "b"}, (CUT,), {"k0": "int"}, {"sales": ("price",)},
        {"sales": {"price": "int"}}, 16, (Watched("sales", "price", "0", "9"),),
        costs={"capture": 1.0}, blooms=(("sales", "price", 3, 1),),
    ).remembering(version)  # fmt: skip
    again = SketchDefinition.from_json(one.to_json())
    assert again.to_json() == one.to_json()
    assert again.past[0].vector == version.vector
    assert again.past[0].bitmaps[0].tolist() == KEPT.tolist()
