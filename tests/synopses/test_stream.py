"""The library for streams: what it accepts, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError, Invalid, Unsupported
from belvedere.synopses.estimate.estimates import SampleEstimate
from belvedere.synopses.graph.plain_graph import PlainGraph
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.state import SynopsisState
from belvedere.synopses.stream import Synopsis

R = {"k": "int", "a": "int", "s": "string"}
S = {"k": "int", "b": "int"}
QUERY = "SELECT a, b FROM r JOIN s ON r.k = s.k"


def ints(**columns: list[int | None]) -> pa.Table:
    return pa.table({n: pa.array(v, pa.int32()) for n, v in columns.items()})


def rows(k: list[int | None], a: list[int | None]) -> pa.Table:
    return ints(k=k, a=a).append_column("s", pa.array(["x"] * len(k)))


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        (QUERY, {"rows": 0}, "sample of 0 rows"),
        (QUERY, {"rate": 0.0}, "rate of 0"),
        (QUERY, {"rate": 1.5}, "rate of 1.5"),
        (QUERY, {}, "either a number of rows or a rate"),
        (QUERY, {"rate": 0.5, "replacement": True}, "WITH REPLACEMENT"),
        ("SELECT a, c FROM r JOIN s ON r.k = s.k", {"rows": 5}, "no column 'c'"),
        ("SELECT a FROM r, nothing", {"rows": 5}, "no table 'nothing'"),
        ("SELECT a, b FROM r, s", {"rows": 5}, "not connected"),
        ("SELECT a, b FROM r JOIN s ON r.s = s.k", {"rows": 5}, "not compared"),
        ("SELECT a, b FROM r LEFT JOIN s ON r.k = s.k", {"rows": 5}, "left join"),
        ("SELECT DISTINCT a FROM r JOIN s ON r.k = s.k", {"rows": 5}, "DISTINCT"),
        (
            "SELECT upper(r.s) AS u FROM r JOIN s ON r.k = s.k",
            {"rows": 5},
            "not computed in memory",
        ),
        (QUERY, {"rows": 5, "keys": {"r": ["z"]}}, "key of 'r' by 'z'"),
    ],
)
def test_bad_definitions_are_refused(query: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BelvedereError, match=words):
        Synopsis(query, {"r": R, "s": S}, **options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.delete("s", ints(k=[1, 9], b=[10, 9])), "not in 's'"),
        (lambda s: s.delete("s", ints(k=[1, 1], b=[10, 10])), "not in 's'"),
        (lambda s: s.insert("s", ints(k=[1])), "without 'b'"),
        (lambda s: s.insert("t", ints(k=[1])), "does not read 't'"),
        (lambda s: s.insert("s", pa.table({"k": ["x"], "b": [1]})), "other types"),
        (lambda s: s.insert("r", rows([3, 3], [1, 2])), "same k"),
        (lambda s: s.insert("r", rows([1], [2])), "same k"),
    ],
)
def test_a_refused_batch_changes_nothing(change: Any, words: str) -> None:
    made = Synopsis(QUERY, {"r": R, "s": S}, rows=10, keys={"r": ["k"]}, seed=1)
    made.insert("r", rows([1, 2], [1, 2]))
    made.insert("s", ints(k=[1, 1, 2], b=[10, 11, 12]))
    before = made.sample().to_pylist()
    with pytest.raises(Invalid, match=words):
        change(made)
    assert made.sample().to_pylist() == before
    made.delete("s", ints(k=[1], b=[10]))
    assert made.join_size == 2


def test_a_share_that_would_not_fit_is_refused_with_the_arithmetic() -> None:
    made = Synopsis(QUERY, {"r": R, "s": S}, rate=0.5, seed=1, most_rows=100)
    made.insert("r", rows([1] * 10, list(range(10))))
    made.insert("s", ints(k=[1] * 12, b=list(range(12))))
    assert made.join_size == 120
    with pytest.raises(Invalid, match="more rows than fit") as refused:
        made.change("s", deletes=ints(k=[1], b=[0]), inserts=ints(k=[1] * 20, b=list(range(20))))
    assert "0.5 × 310" in refused.value.detail
    assert made.join_size == 120
    made.delete("s", ints(k=[1], b=[0]))
    assert made.join_size == 110


def test_null_keys_never_join() -> None:
    made = Synopsis(QUERY, {"r": R, "s": S}, rows=10, seed=1)
    made.insert("r", rows([None, 1], [1, 2]))
    made.insert("s", ints(k=[None, None, 1], b=[1, 2, 3]))
    assert made.sample().to_pylist() == [{"a": 2, "b": 3}]
    made.delete("r", rows([None], [1]))
    assert made.join_size == 1


def test_rows_that_come_and_go_in_one_batch_cancel() -> None:
    made = Synopsis(QUERY, {"r": R, "s": S}, rows=10, seed=1)
    made.insert("r", rows([1], [1]))
    made.change("s", deletes=ints(k=[1, 1], b=[5, 5]), inserts=ints(k=[1, 1, 1], b=[5, 5, 5]))
    assert made.join_size == 1


def test_a_join_beyond_64_bits_is_counted_exactly_and_sampled() -> None:
    tables = {f"t{n}": {"k": "int", "v": "int"} for n in range(6)}
    on = " AND ".join(f"t0.k = t{n}.k" for n in range(1, 6))
    shown = ", ".join(f"t{n}.v AS v{n}" for n in range(6))
    made = Synopsis(f"SELECT {shown} FROM {', '.join(tables)} WHERE {on}", tables, rows=40, seed=3)
    many = 3000
    for table in tables:
        made.insert(table, ints(k=[1] * many, v=list(range(many))))
    assert made.join_size == many**6 > 2**64
    assert isinstance(made.results.maintained.graph, PlainGraph)
    sample = made.sample()
    assert sample.num_rows == 40
    # Halves of the last table's rows are as likely as one another, whatever the numbers' low bits.
    for column in sample.columns:
        assert 5 <= sum(v % 2 for v in column.to_pylist()) <= 35
    made.delete("t3", ints(k=[1] * 2990, v=list(range(10, many))))
    assert made.join_size == many**5 * 10
    assert set(made.sample()["v3"].to_pylist()) <= set(range(10))


def test_types_of_many_kinds_join() -> None:
    kinds = {
        "d": "date",
        "t": "timestamp_ntz",
        "n": "decimal(30,2)",
        "x": "double",
        "b": "boolean",
        "s": "string",
    }
    table = pa.table(
        {
            "d": pa.array([1, 2, None], pa.date32()),
            "t": pa.array([5, 6, 7], pa.timestamp("us")),
            "n": pa.array([1, 2, 3], pa.int64())
            .cast(pa.decimal128(20, 0))
            .cast(pa.decimal128(30, 2)),
            "x": [0.0, float("nan"), 1.0],
            "b": [True, False, None],
            "s": ["", "é", "long text of more than sixteen bytes"],
        }
    )
    for column in kinds:
        made = Synopsis(
            f"SELECT l.s, r.x FROM l JOIN r ON l.{column} = r.{column}",
            {"l": kinds, "r": kinds},
            rows=9,
            seed=1,
        )
        made.insert("l", table)
        other = table.set_column(3, "x", pa.array([-0.0, float("nan"), 1.0]))
        made.insert("r", other)
        assert made.join_size == 3 - table[column].null_count, column
        made.delete("l", table)
        assert made.join_size == 0


def test_estimates_of_a_whole_join_are_exact() -> None:
    made = Synopsis(QUERY.replace("a, b", "a, b, r.k"), {"r": R, "s": S}, rows=100, seed=1)
    made.insert("r", rows([1, 2, 2], [1, 2, 3]))
    made.insert("s", ints(k=[1, 2, 2], b=[10, 20, None]))
    asked = made.results.estimate
    assert (asked("count(*)").value, asked("count(b)").value) == (5, 3)
    assert str(asked("sum(b)")) == "50"
    assert asked("avg(a)", where="b > 10") == SampleEstimate(2.5, 2.5, 2.5, 2)
    assert {k: e.value for k, e in asked("count(*)", group_by="k").items()} == {(1,): 1, (2,): 4}
    assert made.results.key_counts("k").to_pylist() == [{"k": 1, "count": 1}, {"k": 2, "count": 4}]
    assert made.results.histogram("a", 2).deviance == 0
    train, test = made.results.train_test(0.2)
    assert (train.num_rows, test.num_rows) == (4, 1)
    with pytest.raises(Invalid, match="no column 'c'"):
        asked("sum(c)")
    with pytest.raises(Unsupported, match="an estimate of"):
        asked("stddev(a)")


def test_intervals_cover_at_their_rate() -> None:
    """95 percent intervals of 120 samples: at least 106 cover, and ones cut in half would not."""
    random = np.random.default_rng(1)
    k, a, b = random.integers(0, 20, 400), random.integers(0, 100, 400), random.integers(0, 50, 300)
    other_k = random.integers(0, 20, 300)
    one, other = rows(k.tolist(), a.tolist()), ints(k=other_k.tolist(), b=b.tolist())
    pairs = [
        (x, y) for i, x in zip(k, a, strict=True) for j, y in zip(other_k, b, strict=True) if i == j
    ]
    truth = {
        "sum(a)": sum(x for x, _ in pairs),
        "count(*)": sum(y > 20 for _, y in pairs),
        "avg(a)": np.mean([x for x, y in pairs if y > 20]),
        "median(a)": sorted(x for x, _ in pairs)[len(pairs) // 2],
    }
    hits, halves = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    planned = Synopsis(QUERY, {"r": R, "s": S}, rows=150).results.maintained.plan
    for seed in range(120):
        made = SampleResults(SynopsisState(planned, SampleKind(rows=150), seed=seed), seed)
        made.change("r", None, one)
        made.change("s", None, other)
        for what, value in truth.items():
            where = "b > 20" if what in ("count(*)", "avg(a)") else None
            found = made.estimate(what, where=where)
            hits[what] += found.low <= value <= found.high
            halves[what] += abs(found.value - value) <= (found.high - found.low) / 4
    assert all(106 <= n <= 120 for n in hits.values()), hits
    assert all(n < 104 for n in halves.values()), halves
