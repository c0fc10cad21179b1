"""A query over its sketch answers as over everything, and the sketch holds no fragment too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from belvedere.algebra.relations import Except, Field, Join, JoinKind, Rel, Scan, TopK
from belvedere.algebra.walks import nodes, tables
from belvedere.analyses.stable import Cuts, unsafe
from belvedere.errors import Unsupported
from belvedere.joins.partitions import Partition
from belvedere.rules.annotate import FRAGMENT, Cut, annotate, sketch
from tests.reference.engine import Engine
from tests.reference.interpreter import Bag, Database
from tests.reference.plans import TABLES, databases, plans, rooted

quick = settings(
    max_examples=30,
)
BOUNDS = ((), (1,), (1, 2))


def cut_of(partition: Partition) -> Cut:
    return Cut(partition.table, partition.column, "int", partition.fragment_scalar)


def kept_rows(db: Database, partition: Partition, kept: Iterable[int]) -> Database:
    """The database with only the rows of some fragments of one table."""
    place = db.columns[partition.table].index(partition.column)
    chosen = set(kept)
    rows = Counter(
        {
            row: n
            for row, n in db.new[partition.table].items()
            if partition.fragment(row[place]) in chosen
        }
    )
    state = {**db.new, partition.table: rows}
    return Database(db.columns, state, state)


@st.composite
def cases(draw: st.DrawFn, of: st.SearchStrategy[Rel]) -> tuple[Rel, Database, Partition]:
    q = draw(of)
    table = draw(st.sampled_from(tables(q)))
    column = draw(st.sampled_from(TABLES[table]))
    partition = Partition(table, column, "int", draw(st.sampled_from(BOUNDS)))
    return q, draw(databases(tables(q))), partition


def annotated(q: Rel, partition: Partition) -> Rel:
    try:
        return sketch(q, cut_of(partition))
    except Unsupported:
        assert any(isinstance(n, Except) or _leaves_out(n) for n in nodes(q))
        assume(False)
        raise


def _leaves_out(q: Rel) -> bool:
    return isinstance(q, Join) and q.kind in (JoinKind.ANTI, JoinKind.LEFT, JoinKind.FULL)


def fragments(rows: Bag) -> set[int]:
    return {row[0] for row in rows}


_PLANS = st.one_of(plans(3), rooted("view", 1), rooted("filtered_groups"), rooted("chain"))


@quick
@given(cases(_PLANS))
def test_a_safe_query_over_its_sketch_equals_the_query_over_everything(
    case: tuple[Rel, Database, Partition],
) -> None:
    q, db, partition = case
    why = unsafe(q, Cuts({partition.table: partition.column}, nonnegative=lambda *_: True))
    assume(why is None)
    kept = fragments(db.bag(annotated(q, partition)))
    assert kept_rows(db, partition, kept).bag(q) == db.bag(q)


@quick
@given(cases(_PLANS))
def test_the_capture_query_means_the_same_in_sql(case: tuple[Rel, Database, Partition]) -> None:
    q, db, partition = case
    plan = annotated(q, partition)
    assert fragments(Engine(db).bag(plan)) == fragments(db.bag(plan))


@quick
@given(cases(rooted("pairs", JoinKind.INNER)))
def test_the_sketch_of_a_join_has_no_fragment_too_many(
    case: tuple[Rel, Database, Partition],
) -> None:
    """Each fragment holds a row without which some row of the answer would be missing."""
    q, db, partition = case
    assert unsafe(q, Cuts({partition.table: partition.column})) is None
    kept = fragments(db.bag(annotated(q, partition)))
    for fragment in kept:
        assert kept_rows(db, partition, kept - {fragment}).bag(q) != db.bag(q)


@quick
@given(cases(plans(2)))
def test_the_rows_stay_beside_their_fragments(case: tuple[Rel, Database, Partition]) -> None:
    q, db, partition = case
    try:
        plan = annotate(q, cut_of(partition))
    except Unsupported:
        assume(False)
        raise
    assert plan.columns == (*q.columns, FRAGMENT)
    if not any(isinstance(n, TopK) for n in nodes(q)):
        # Of a limit, rows behind it that are tied with its last are kept too.
        assert {row[:-1] for row in db.bag(plan)} <= set(db.bag(q))


@pytest.mark.parametrize("kind", [JoinKind.ANTI, JoinKind.LEFT, JoinKind.FULL])
def test_a_table_that_decides_what_is_left_out_has_no_rule(kind: JoinKind) -> None:
    left = Scan("r", (Field("a", "a", "int"),))
    right = Scan("t", (Field("x", "x", "int"),))
    with pytest.raises(Unsupported, match="left out"):
        annotate(Join(left, right, kind), cut_of(Partition("t", "x", "int", (1,))))
