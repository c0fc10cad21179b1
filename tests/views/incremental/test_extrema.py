"""Extrema that stay: merged without a look at other rows, as often as nothing that held them went."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    At,
    Change,
    Empty,
    Field,
    Join,
    JoinKind,
    Scan,
)
from belvedere.algebra.scalars import col, equal
from belvedere.analyses.sizes import NOTHING_KNOWN
from belvedere.memory.plans import Memory, Rows
from belvedere.sql.render import SIGN
from belvedere.views.incremental import extrema
from belvedere.views.incremental.extrema import plan_value_changes, row_to_merge
from belvedere.views.state import COUNT, Combine, Grouped, Part, physical, state_of

Row = tuple[Any, ...]
FACTS = Scan("facts", (Field("k", "k", "bigint"), Field("v", "v", "bigint")))
NAMES = Scan("names", (Field("j", "j", "bigint"), Field("w", "w", "bigint")))
TYPES = dict.fromkeys(("k", "v", "j", "w", "low", "high", "total", "total()"), "bigint")
SUMMED = pa.decimal128(38, 0)
VALUES = {"__a1": "bigint", "__a2": "bigint", "__a3": "decimal(38,0)"}
"""What the parts are computed from."""


def state() -> Grouped:
    both = Join(FACTS, NAMES, JoinKind.INNER, equal(col("k"), col("j")))
    aggregates = (
        Agg("low", "min", (col("v"),)),
        Agg("high", "max", (col("w"),)),
        Agg("total", "sum", (col("v"),)),
    )
    found = state_of(Aggregate(both, (), aggregates), TYPES)
    assert isinstance(found, Grouped)
    return found


def table(scan: Scan, rows: Counter[Row], *, signed: bool = False) -> pa.Table:
    listed = [row for row, count in rows.items() for _ in range(abs(count))]
    found = {
        f.source: pa.array([row[i] for row in listed], pa.int64())
        for i, f in enumerate(scan.fields)
    }
    signs = [1 if count > 0 else -1 for count in rows.values() for _ in range(abs(count))]
    return pa.table({**found, **({SIGN: pa.array(signs, pa.int64())} if signed else {})})


def joined(facts: Counter[Row], names: Counter[Row]) -> list[tuple[Any, Any]]:
    return [
        (v, w)
        for (k, v), many in facts.items()
        for (j, w), more in names.items()
        for _ in range(many * more if k == j and k is not None else 0)
    ]


def best(values: list[Any], function: Any) -> Any:
    some = [v for v in values if v is not None]
    return function(some) if some else None


def random_tables(seed: int) -> tuple[dict[str, Counter[Row]], dict[str, Counter[Row]]]:
    random = np.random.default_rng(seed)

    def some(count: int, most: int) -> Counter[Row]:
        values = random.integers(0, most, size=(count, 2))
        return Counter((int(a) % 4, None if b % 7 == 6 else int(b)) for a, b in values)

    old = {"facts": some(12, 40), "names": some(6, 40)}
    new = {}
    for name, rows in old.items():
        gone = [r for r in rows.elements() if random.random() < 0.2]
        new[name] = rows - Counter(gone) + some(int(random.integers(0, 3)), 40)
    return old, new


def written(
    old: dict[str, Counter[Row]], new: dict[str, Counter[Row]], *, find: bool = False
) -> Any:
    """The row to merge, None, or that nothing is to be merged; and what is stored before it."""
    shape = state()
    names, after = physical(shape), stored(shape, new).to_pylist()[0]
    moves = [t for t in old if old[t] != new[t]]
    planned = plan_value_changes(shape, moves, TYPES, NOTHING_KNOWN)
    scans = {"facts": FACTS, "names": NAMES}

    def leaf(found: Scan | Change) -> pa.Table:
        scan = scans[found.table]
        if isinstance(found, Change):
            change = Counter(new[found.table])
            change.subtract(old[found.table])
            return table(scan, change, signed=True)
        return table(scan, (old if found.at is At.OLD else new)[found.table])

    if isinstance(planned.change.plan, Empty):
        return shape, {}, stored(shape, old)
    change = Memory(leaf, 10_000).rows(planned.change.plan)
    found = row_to_merge(
        shape,
        change,
        stored(shape, old),
        lambda part, lost: _next(part, lost, after[names[part.agg.name]]) if find else None,
    )
    before = stored(shape, old)
    if found is None:
        return shape, None, before
    # What was found anew is not joined with what is stored.
    for name in found.replaced:
        before = before.drop_columns([name]).append_column(name, pa.nulls(1, pa.int64()))
    return shape, found.row.to_pylist()[0], before


def _next(part: Part, lost: int, found: int | None) -> int | None:
    """What a look at all rows finds: never before the one that was lost."""
    assert found is None or (found >= lost if part.combine is Combine.LEAST else found <= lost)
    return found


def stored(shape: Grouped, at: dict[str, Counter[Row]]) -> pa.Table:
    rows = joined(at["facts"], at["names"])
    values = {"low": best([v for v, _ in rows], min), "high": best([w for _, w in rows], max)}
    names, found = physical(shape), dict[str, Any]()
    for part, value in zip(
        (p for p in shape.parts if p.agg.function in ("min", "max")), values.values(), strict=True
    ):
        found[names[part.agg.name]] = pa.array([value], pa.int64())
    found[COUNT] = pa.array([len(rows)], pa.int64())
    return pa.table(found)


@pytest.mark.parametrize("find", [False, True])
def test_what_is_merged_is_what_a_look_at_all_rows_finds(find: bool) -> None:
    outcomes = Counter[str]()
    for seed in range(40):
        old, new = random_tables(seed)
        if old == new:
            continue
        shape, row, before = written(old, new, find=find)
        names = physical(shape)
        after = stored(shape, new).to_pylist()[0]
        if row is None:
            outcomes["lost"] += 1
            continue
        outcomes["kept"] += 1
        held = before.to_pylist()[0]
        for part in shape.parts:
            name = names[part.agg.name]
            if part.agg.function in ("min", "max"):
                choose = min if part.agg.function == "min" else max
                assert best([held[name], row.get(name)], choose) == after[name], seed
        assert held[COUNT] + row.get(COUNT, 0) == after[COUNT]
        sums = [p for p in shape.parts if p.agg.function == "sum"]
        rows = [sum(v or 0 for v, _ in joined(t["facts"], t["names"])) for t in (old, new)]
        assert (row.get(names[sums[0].agg.name]) or 0) == rows[1] - rows[0]
    assert outcomes["kept"] > 6
    assert outcomes["lost"] < 3 if find else outcomes["lost"] > 6


@pytest.mark.parametrize(
    ("held", "came", "gone", "lost"),
    [
        (5, None, None, False),
        (5, 9, 6, False),
        (5, 9, 5, True),
        (5, 5, 5, False),
        (5, 3, 5, False),
        (None, 3, None, False),
        (None, None, 4, True),
        (5, None, 4, True),
    ],
)
def test_when_a_minimum_is_lost(held: Any, came: Any, gone: Any, lost: bool) -> None:
    assert extrema._lost(extrema.Combine.LEAST, held, came, gone) is lost
    turned = [None if v is None else -v for v in (held, came, gone)]
    assert extrema._lost(extrema.Combine.GREATEST, *turned) is lost


def test_what_came_and_went_again_is_no_minimum() -> None:
    """A fact of 0 comes as its name goes: the terms of the join have it with both signs."""
    old = {"facts": Counter({(1, 5): 1, (2, 7): 1}), "names": Counter({(1, 9): 1, (2, 1): 1})}
    new = {
        "facts": Counter({(1, 5): 1, (2, 7): 1, (2, 0): 1}),
        "names": Counter({(1, 9): 1}),
    }
    shape, row, _ = written(old, new)
    assert row is not None
    low = next(p for p in shape.parts if p.agg.function == "min")
    assert row[physical(shape)[low.agg.name]] is None


def test_what_was_not_stored_is_not_replaced_by_a_next_one() -> None:
    """A minimum went that is less than the stored one: the row is not what its vector says."""
    shape = state()
    change = pa.table({"__a1": [4], "__a2": [1], "__a3": pa.array([4], SUMMED)})
    rows = Rows(change.append_column(SIGN, [[-1]]), VALUES)
    names = physical(shape).values()
    for held, found in ((5, False), (4, True)):
        before = pa.table({name: pa.array([held], pa.int64()) for name in names})
        assert (row_to_merge(shape, rows, before, lambda _part, _lost: 6) is not None) is found


def test_a_change_without_signs_counts_every_row() -> None:
    """Where no row can have gone, what came is told without signs: equal rows are several."""
    shape = state()
    change = pa.table({"__a1": [4, 4], "__a2": [1, 1], "__a3": pa.array([4, 4], SUMMED)})
    names = physical(shape)
    before = pa.table({name: pa.array([9], pa.int64()) for name in names.values()})
    found = row_to_merge(shape, Rows(change, VALUES), before, lambda _part, _lost: None)
    assert found is not None
    assert found.row[COUNT].to_pylist() == [2]
    total = next(p.agg.name for p in shape.parts if p.agg.function == "sum")
    assert found.row[names[total]].to_pylist() == [8]


def test_days_that_python_has_no_name_for_are_left_to_a_look_at_all_rows() -> None:
    days, kinds = Scan("days", (Field("d", "d", "date"),)), {"d": "date", "last": "date"}
    shape = state_of(Aggregate(days, (), (Agg("last", "max", (col("d"),)),)), kinds)
    assert isinstance(shape, Grouped)
    far, first = (pa.array([day], pa.int32()).cast(pa.date32()) for day in (2_932_897, 0))
    change = Rows(pa.table({"__a1": first, SIGN: [-1]}), {"__a1": "date"})
    before = pa.table(dict.fromkeys(physical(shape).values(), far))
    assert row_to_merge(shape, change, before, lambda _part, _lost: None) is None
