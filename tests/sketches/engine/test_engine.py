"""The sketch that the engine keeps is the one that capture would find, after every batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from belvedere.algebra.relations import Agg, Aggregate, Filter, JoinKind, Rel, Union
from belvedere.algebra.scalars import Scalar, col
from belvedere.algebra.walks import tables
from belvedere.errors import Unsupported
from belvedere.joins.partitions import Partition
from belvedere.sketches.engine.engine import SketchEngine
from belvedere.sketches.engine.measures import Recapture
from belvedere.sql.binder.bind import bind
from tests.reference.interpreter import Database, Row
from tests.reference.plans import TABLES, _Plans, histories
from tests.sketches.following import advance, begun, captured, engine_of, kept, loaded
from tests.sql.shop import Shop

often = settings(max_examples=35)


class _Blocks(_Plans):
    """Plans of the form that the engine keeps."""

    def core(self) -> Rel:
        q = self.scan()
        for _ in range(self.draw(st.integers(0, 2))):
            step = self.draw(st.sampled_from(["filter", "project", "join"]))
            if step == "filter":
                q = Filter(q, self.compare(q, q))
            elif step == "project":
                q = self.narrow(q, self.draw(st.integers(2, 3)))
            elif self.scans < 3:
                q = self.paired(q, JoinKind.INNER)
        return q

    def cores(self) -> Rel:
        """One core, or the union of two."""
        if self.draw(st.integers(0, 3)):
            return self.core()
        parts = self.narrow(self.core(), 2), self.narrow(self.core(), 2)
        return Union(parts, (self.name(), self.name()))

    def block(self) -> Rel:
        core = self.cores()
        if self.draw(st.integers(0, 4)) == 0:
            return self.topped(core) if self.draw(st.booleans()) else core
        keys = self.some(core, 0, 2)
        aggs = [Agg(self.name(), "count")]
        for _ in range(self.draw(st.integers(0, 2))):
            function = self.draw(st.sampled_from(["sum", "count", "min", "max", "avg"]))
            aggs.append(Agg(self.name(), function, (col(self.column(core)),)))
        q: Rel = Aggregate(core, keys, tuple(aggs))
        for _ in range(self.draw(st.integers(0, 2))):
            op = self.draw(st.sampled_from([">", ">=", "<", "<=", "="]))
            text = f"`{self.column(q)}` {op} {self.draw(st.integers(0, 3))}"
            q = Filter(q, Scalar(parse_one(text, dialect="spark")))
        return self.topped(q) if self.draw(st.integers(0, 2)) == 0 else q


@st.composite
def followed(draw: st.DrawFn) -> tuple[Rel, list[Partition], list[tuple[Database, set[str]]]]:
    q = _Blocks(draw).block()
    used = tables(q)
    cut = sorted(draw(st.sets(st.sampled_from(used), min_size=1)))
    partitions = [
        Partition(
            t,
            draw(st.sampled_from(TABLES[t])),
            "int",
            draw(st.sampled_from([(), (1,), (1, 2)])),
        )
        for t in cut
    ]
    return q, partitions, draw(histories(used, rounds=4, least=2))


@often
@given(followed())
def test_the_kept_sketch_is_the_captured_one_after_every_batch(
    case: tuple[Rel, list[Partition], list[tuple[Database, set[str]]]],
) -> None:
    q, partitions, history = case
    try:
        engine = engine_of(q, partitions)
    except Unsupported:
        assume(False)
        raise
    begun(engine, q, history[0][0])
    for db, moving in history:
        advance(engine, db, moving)
        for place, partition in enumerate(partitions):
            assert kept(engine, place) == captured(q, partition, db.moving(moving))


@often
@given(followed())
def test_a_captured_state_goes_on_as_one_that_saw_every_row(
    case: tuple[Rel, list[Partition], list[tuple[Database, set[str]]]],
) -> None:
    q, partitions, history = case
    try:
        engine = engine_of(q, partitions)
    except Unsupported:
        assume(False)
        raise
    loaded(engine, history[0][0])
    for db, moving in history:
        advance(engine, db, moving)
        for place, partition in enumerate(partitions):
            assert kept(engine, place) == captured(q, partition, db.moving(moving))


@often
@given(followed())
def test_a_restored_state_goes_on_where_it_was_saved(
    case: tuple[Rel, list[Partition], list[tuple[Database, set[str]]]],
) -> None:
    q, partitions, history = case
    try:
        engine = engine_of(q, partitions)
    except Unsupported:
        assume(False)
        raise
    begun(engine, q, history[0][0])
    for db, moving in history:
        again = engine_of(q, partitions)
        again.restore({n: a.copy() for n, a in engine.save().items()})
        assert kept(again, 0) == kept(engine, 0)
        advance(again, db, moving)
        engine = again
        assert kept(engine, 0) == captured(q, partitions[0], db.moving(moving))


# A group's least value with room for two: 9 came after 3 and 10 were left out.
STEPS = (
    ([(1, 1), (1, 2), (1, 3), (1, 10)], []),
    ([], [(1, 1)]),
    ([(1, 9)], []),
)


def test_a_value_beyond_the_bound_of_a_buffer_is_never_admitted() -> None:
    q = bind("SELECT a, min(b) AS m FROM r GROUP BY a HAVING min(b) < 10", Shop(PAIR)).plan
    engine = engine_of(q, [Partition("r", "b", "int", (5,))], room=2)
    rows: Counter[Row] = Counter()
    for new, gone in STEPS:
        rows = step(engine, rows, new, gone)
        assert engine.column("m", np.array([0])).values.to_pylist() == [min(b for _, b in rows)]
    with pytest.raises(Recapture) as dry:
        step(engine, rows, [], [(1, 2)])
    assert dry.value.reason == "SKETCH_BUFFER_DRY"


def test_a_row_that_goes_and_never_came_means_capturing_anew() -> None:
    q = bind("SELECT a FROM r GROUP BY a HAVING count(*) > 1", Shop(PAIR)).plan
    engine = engine_of(q, [Partition("r", "b", "int", (5,))])
    rows = step(engine, Counter(), [(1, 1), (1, 2)], [])
    with pytest.raises(Recapture) as negative:
        step(engine, Counter({(1, 7): 1, **rows}), [], [(1, 7)])
    assert negative.value.reason == "SKETCH_NEGATIVE_COUNT"


def test_a_group_lives_by_its_rows_not_by_its_values() -> None:
    q = bind("SELECT a FROM r GROUP BY a HAVING count(b) < 1", Shop(PAIR)).plan
    engine = engine_of(q, [Partition("r", "a", "int", (5,))])
    rows = step(engine, Counter(), [(1, None)], [])
    assert kept(engine, 0) == [0]
    step(engine, rows, [], [(1, None)])
    assert kept(engine, 0) == []


def test_all_that_is_tied_at_k_is_kept() -> None:
    q = bind("SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC LIMIT 1", Shop(PAIR)).plan
    engine = engine_of(q, [Partition("r", "a", "int", (2, 3))])
    rows = step(engine, Counter(), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)], [])
    assert kept(engine, 0) == [0, 1]
    step(engine, rows, [(3, 2), (3, 3)], [])
    assert kept(engine, 0) == [2]


PAIR = {"r": "a int, b int"}


def step(engine: SketchEngine, rows: Counter[Row], new: list[Row], gone: list[Row]) -> Counter[Row]:
    after = rows + Counter(new) - Counter(gone)
    advance(engine, Database({"r": ("a", "b")}, {"r": rows}, {"r": after}), {"r"})
    return after


@often
@given(st.data())
def test_bounded_buffers_are_right_or_say_that_they_ran_dry(data: st.DataObject) -> None:
    q = bind("SELECT a, min(b) AS m, max(b) AS x FROM r GROUP BY a HAVING min(b) < 3 AND max(b) > 1", Shop(PAIR)).plan  # fmt: skip
    partition = Partition("r", "b", "int", (1, 3))
    pairs = st.tuples(st.sampled_from([1, 2]), st.sampled_from([None, 0, 1, 2, 3, 4]))
    rows: Counter[Row] = Counter(data.draw(st.lists(pairs, max_size=8)))
    engine = engine_of(q, [partition], room=data.draw(st.integers(1, 3)))
    loaded(engine, Database({"r": ("a", "b")}, {"r": rows}, {"r": rows}))
    for _ in range(data.draw(st.integers(1, 8))):
        gone = data.draw(st.lists(st.sampled_from(sorted(rows, key=str)))) if rows else []
        new = data.draw(st.lists(pairs, max_size=6))
        after = (rows - Counter(gone)) + Counter(new)
        db = Database({"r": ("a", "b")}, {"r": rows}, {"r": after})
        try:
            advance(engine, db, {"r"})
        except Recapture as why:
            if why.reason != "SKETCH_BUFFER_DRY":
                raise
            return
        rows = after
        assert kept(engine, 0) == captured(q, partition, db)


@often
@given(st.data())
def test_the_first_rows_are_held_as_long_as_they_last(data: st.DataObject) -> None:
    q = bind("SELECT a, b FROM r ORDER BY b DESC, a LIMIT 2", Shop(PAIR)).plan
    partition = Partition("r", "a", "int", (2,))
    pairs = st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([None, 0, 1, 2, 3]))
    rows: Counter[Row] = Counter(data.draw(st.lists(pairs, max_size=12)))
    engine = engine_of(q, [partition], room=0)
    assert engine.rows_held == 2
    loaded(engine, Database({"r": ("a", "b")}, {"r": rows}, {"r": rows}))
    for _ in range(data.draw(st.integers(1, 6))):
        gone = (
            data.draw(st.lists(st.sampled_from(sorted(rows, key=str)), max_size=2)) if rows else []
        )
        after = (rows - Counter(gone)) + Counter(data.draw(st.lists(pairs, max_size=3)))
        db = Database({"r": ("a", "b")}, {"r": rows}, {"r": after})
        try:
            advance(engine, db, {"r"})
        except Recapture as why:
            if why.reason != "SKETCH_BUFFER_DRY":
                raise
            return
        rows = after
        assert kept(engine, 0) == captured(q, partition, db)


def test_rows_of_a_table_that_is_not_cut_count_in_their_group() -> None:
    tables = {"r": "a int, b int", "t": "x int"}
    text = "SELECT count(*) AS n FROM (SELECT a FROM r UNION ALL SELECT x FROM t) u HAVING count(*) > 2"
    partition = Partition("t", "x", "int", (1,))
    rows: dict[str, Counter[Row]] = {"r": Counter({(1, 1): 2}), "t": Counter({(0,): 1})}
    db = Database({"r": ("a", "b"), "t": ("x",)}, rows, rows)
    q = bind(text, Shop(tables)).plan
    for begin in (lambda e: begun(e, q, db), lambda e: loaded(e, db)):
        engine = engine_of(q, [partition])
        begin(engine)
        assert kept(engine, 0) == captured(q, partition, db) == [0]


@often
@given(followed())
def test_kept_loosely_a_sketch_has_all_that_the_captured_one_has(
    case: tuple[Rel, list[Partition], list[tuple[Database, set[str]]]],
) -> None:
    q, partitions, history = case
    try:
        engine = engine_of(q, partitions, room=1, loose=True)
    except Unsupported:
        assume(False)
        raise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SketchEngine, "_refuse_too_loose", lambda _self, _rows: None)
        try:
            begun(engine, q, history[0][0])
            for db, moving in history:
                advance(engine, db, moving)
                for place, partition in enumerate(partitions):
                    assert {*kept(engine, place)} >= {*captured(q, partition, db.moving(moving))}
        except Recapture as why:
            if why.reason != "SKETCH_BUFFER_DRY" or engine.block.limit is None:
                raise


def test_kept_loosely_a_group_of_which_too_little_is_known_stays_and_too_much_is_not_borne() -> (
    None
):
    q = bind("SELECT a, min(b) AS m FROM r GROUP BY a HAVING min(b) < 3", Shop(PAIR)).plan
    engine = engine_of(q, [Partition("r", "b", "int", (5,))], room=2, loose=True)
    rows = step(engine, Counter(), [(1, 1), (1, 2), (1, 3), (1, 10), *((2, 4),) * 9], [])
    rows = step(engine, rows, [], [(1, 1), (1, 2)])
    assert kept(engine, 0) == [0, 1]
    assert engine.unnoted == 2
    again = engine_of(q, [Partition("r", "b", "int", (5,))], room=2, loose=True)
    again.restore(engine.save())
    assert again.unnoted == 2
    rows = step(again, rows, [(1, 2)], [])
    assert again.column("m", np.array([0])).values.to_pylist() == [2]
    with pytest.raises(Recapture) as loose:
        step(again, rows, [], [(2, 4)] * 6)
    assert loose.value.reason == "SKETCH_TOO_LOOSE"
