"""η: uniform, seeded, the same for equal values of any type, NULL a value like any other."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.special import chdtri

from belvedere.algebra.hashing import bound, digest, family, hashed
from belvedere.algebra.relations import Field, Filter, Hash, Join, JoinKind, Output, Project, Scan
from belvedere.algebra.scalars import col, equal
from belvedere.memory import kinds as memory_kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import true, value
from belvedere.rules.sample import is_hash, placed, predicate, sample


def digests(seed: int, keys: range = range(20_000)) -> list[str]:
    return [digest([k], seed) for k in keys]


def test_digests_are_uniform() -> None:
    found = digests(1)
    counts = np.bincount([int(d[:2], 16) for d in found], minlength=256)
    expected = len(found) / 256
    assert ((counts - expected) ** 2 / expected).sum() < chdtri(255, 0.001)
    for ratio in (0.01, 0.1, 0.5):
        share = np.mean([d < bound(ratio) for d in found])
        assert abs(share - ratio) < 4 * np.sqrt(ratio * (1 - ratio) / len(found))


def test_another_seed_is_another_sample() -> None:
    a, b = ([d < bound(0.5) for d in digests(seed)] for seed in (1, 2))
    both = np.mean(np.array(a) & np.array(b))
    assert abs(both - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(a))


def test_a_larger_ratio_keeps_what_a_smaller_one_has() -> None:
    assert bound(0.1) < bound(0.2) < bound(1.0)
    assert all(d < bound(1.0) for d in digests(3, range(100)))


@pytest.mark.parametrize("value", [1, 1.0, Decimal("1.00"), Decimal(1)])
def test_equal_numbers_have_one_digest(value: object) -> None:
    assert digest([value], 5) == digest([1], 5)


def test_nulls_and_texts_that_look_alike_differ() -> None:
    keys = [[None], ["~"], ["|~"], [""], [None, None], ["NULL"]]
    assert len({digest(k, 0) for k in keys}) == len(keys)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", [1, -7, None]),
        ("decimal(10,2)", [Decimal("1.00"), Decimal("1.50"), Decimal("-100.00"), None]),
        ("double", [1.0, 1.5, -3.0, None]),
        ("string", ["a", "", "it's", None]),
        ("boolean", [True, False, None]),
    ],
)
def test_duckdb_computes_the_same_digest(kind: str, values: list[object]) -> None:
    text = hashed(["x"], 9, {"x": kind}).sql("duckdb")
    typed = {"string": "VARCHAR"}.get(kind, kind)
    for x in values:
        row = duckdb.execute(f"SELECT {text} FROM (SELECT CAST(? AS {typed}) AS x)", [x])
        assert row.fetchone() == (digest([x], 9),)


def test_types_without_a_plain_text_are_not_hashed() -> None:
    assert family("map<string,int>") is None
    assert family("string collate UTF8_LCASE") is None


LINE = Scan("line", (Field("l", "order", "bigint"), Field("n", "number", "int")))
ORDERS = Scan("orders", (Field("o", "key", "int"), Field("d", "date", "date")))
TYPES = {"l": "bigint", "n": "int", "o": "int", "d": "date", "e": "int"}


def test_a_key_of_one_side_goes_to_that_side_and_an_equated_one_to_both() -> None:
    joined = Join(LINE, ORDERS, JoinKind.INNER, equal(col("l"), col("o")))
    found = sample(joined, ("l", "n"), Hash(0, 0.1), TYPES)
    assert [str(s) for s in found.stops] == ["η(l, n) at line"]
    assert found.whole == ("orders",)
    found = sample(joined, ("l",), Hash(0, 0.1), TYPES)
    assert [str(s) for s in found.stops] == ["η(o) at orders", "η(l) at line"]
    assert found.whole == ()
    assert isinstance(found.plan, Join)
    assert isinstance(found.plan.left, Filter)


def test_a_sampled_plan_tells_where_it_was_sampled() -> None:
    joined = Join(LINE, ORDERS, JoinKind.INNER, equal(col("l"), col("o")))
    found = sample(joined, ("l", "n"), Hash(0, 0.1), TYPES)
    assert placed(found.plan) == (found.stops, found.whole)
    assert not is_hash(equal(col("l"), col("o")))


def test_what_keeps_it_from_going_lower_is_told() -> None:
    crossed = Join(LINE, ORDERS)
    (stop,) = sample(crossed, ("l", "d"), Hash(0, 0.1), TYPES).stops
    assert str(stop) == (
        "η(l, d) at join of line, orders: l, d has columns of both sides, which nothing equates"
    )
    computed = Project(LINE, (Output("e", equal(col("l"), col("n"))),))
    (stop,) = sample(computed, ("e",), Hash(0, 0.1), TYPES).stops
    assert str(stop) == "η(e) at project of line: e is computed, not passed through"


def test_small_cleanings_hash_in_memory_as_every_engine_does() -> None:
    kinds = {
        "i": "int",
        "l": "bigint",
        "d": "decimal(12,2)",
        "s": "string",
        "b": "boolean",
        "t": "date",
    }
    values = [
        (1, 2**40, Decimal("1.50"), "a", True, datetime.date(1995, 3, 1)),
        (None, None, None, None, None, None),
        (-7, 0, Decimal("-10.00"), "", False, datetime.date(1969, 12, 31)),
        (0, -1, Decimal("0.00"), "ü|=", None, None),
    ]
    arrow = {k: memory_kinds.arrow(v) for k, v in kinds.items()}
    columns = zip(*values, strict=True)
    rows = pa.table({k: pa.array(c, arrow[k]) for k, c in zip(kinds, columns, strict=True)})
    found = value(hashed(list(kinds), 7, kinds), rows, kinds)
    assert found.kind == "string"
    assert found.data.to_pylist() == [digest(v, 7) for v in values]
    kept = true(predicate(("i", "s"), Hash(3, 0.5), kinds), rows, kinds).to_pylist()
    assert kept == [digest([v[0], v[3]], 3) < bound(0.5) for v in values]
    assert not true(predicate(("i",), Hash(3, 0.5), kinds), rows.slice(0, 0), kinds).to_pylist()
    with pytest.raises(Declined):
        value(hashed(["f"], 7, {"f": "double"}), pa.table({"f": [1.0]}), {"f": "double"})
