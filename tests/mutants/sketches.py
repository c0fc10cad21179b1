"""Broken rules of sketches: what is carried, what is safe, what is kept."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from belvedere.algebra.relations import Aggregate, Empty, JoinKind, Rel
from belvedere.algebra.walks import tables
from belvedere.analyses import stable
from belvedere.analyses.stable import Column, Cuts, Subset, Trend, unsafe
from belvedere.joins.partitions import Partition
from belvedere.rules import annotate
from belvedere.rules.annotate import FRAGMENT
from belvedere.sketches.engine import measures, occurrences
from belvedere.sketches.engine.engine import SketchEngine
from belvedere.sketches.engine.measures import Recapture
from belvedere.sketches.engine.occurrences import Occurrences
from tests.mutants.hunt import Case, Hunt, Mutants, Patch
from tests.reference.interpreter import Database
from tests.reference.plans import databases, histories, rooted
from tests.sketches.following import advance, begun, captured, engine_of, kept
from tests.sketches.safety import test_safety as safety
from tests.sketches.safety.test_annotate import cut_of, fragments, kept_rows

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by


def the_sketch_suffices(q: Rel, db: Database, partition: Partition) -> None:
    """Q over the fragments of μ(Q) = Q, where that is said to be safe"""
    cuts = Cuts({partition.table: partition.column}, nonnegative=lambda *_: True)
    assume(unsafe(q, cuts) is None)
    found = fragments(db.bag(annotate.sketch(q, cut_of(partition))))
    assert kept_rows(db, partition, found).bag(q) == db.bag(q)


def a_safe_query_is(text: str, by: str, rows: list[Any]) -> None:
    """The same of queries that people write, on the data that shows where they are not safe"""
    if safety.verdict(text, by) != "":
        return
    q, db = safety.plan(text), safety.database(rows)
    assert safety.over_its_sketch(q, db, by) == db.bag(q)


def the_engine_follows(q: Rel, partition: Partition, history: Any) -> None:
    """The kept sketch is the captured one after every batch"""
    engine = engine_of(q, [partition], room=2)
    begun(engine, q, history[0][0])
    for db, moving in history:
        try:
            advance(engine, db, moving)
        except Recapture:
            return
        assert kept(engine, 0) == captured(q, partition, db.moving(moving))


@st.composite
def _pairs(draw: st.DrawFn) -> Case:
    q = draw(rooted("pairs", JoinKind.INNER))
    table = tables(q)[-1]
    column = "x" if table == "t" else "a"
    return q, draw(databases(tables(q), least=2)), Partition(table, column, "int", (1, 2))


@st.composite
def _groups(draw: st.DrawFn) -> Case:
    q = draw(rooted("having", draw(rooted("groups", ["sum"]))))
    return q, Partition("s", "b", "int", (1, 2)), draw(histories(("s",), rounds=3, least=3))


_PEOPLE = [(text, "p", rows) for text, _, rows in safety.UNSAFE.values() if "ANTI" not in text]
_PEOPLE.append((safety.SELF_JOIN.format(""), "p", [(1, 20, 9), (1, 5, 0), (2, 30, 9)]))


def _buffered() -> Case:
    """A group of which 3 and 10 were left out when 9 came."""
    q = safety.plan("SELECT g, min(v) AS m FROM r GROUP BY g HAVING min(v) < 5")
    states = [[1, 2, 3, 10], [2, 3, 10], [2, 3, 10, 9], [3, 10, 9]]
    bags = [Counter((1, 20, v) for v in values) for values in states]
    columns = {"r": ("g", "p", "v")}
    history = [(Database(columns, {"r": a}, {"r": b}), {"r"}) for a, b in pairwise(bags)]
    return q, Partition("r", "p", "int", (10,)), history


joined = Hunt("the sketch of a join", the_sketch_suffices, _pairs())
people = Hunt(
    "safe queries over their sketches", a_safe_query_is, st.sampled_from(_PEOPLE), enough=20
)
grouped = Hunt("the engine of groups", the_engine_follows, _groups())
extremes = Hunt("the engine of least values", the_engine_follows, st.just(_buffered()), enough=1)


@caught_by(joined)
def only_the_left_side_of_a_join_is_carried(patch: Patch) -> None:
    patch.setattr(annotate, "_of_right", lambda q, _cut: Empty((*q.columns, FRAGMENT)))


@caught_by(people)
def a_least_value_is_said_to_grow(patch: Patch) -> None:
    right = stable._trend

    def wrong(a: Any, over: Rel, cuts: Cuts) -> Column:
        return Column(Trend.GROWS, nullable=True) if a.function == "min" else right(a, over, cuts)

    patch.setattr(stable, "_trend", wrong)


@caught_by(people)
def an_average_is_said_to_grow(patch: Patch) -> None:
    right = stable._trend

    def wrong(a: Any, over: Rel, cuts: Cuts) -> Column:
        return Column(Trend.GROWS, nullable=True) if a.function == "avg" else right(a, over, cuts)

    patch.setattr(stable, "_trend", wrong)


@caught_by(people)
def one_side_of_a_self_join_is_enough(patch: Patch) -> None:
    right = stable._grouped

    def wrong(q: Aggregate, below: Subset, cuts: Cuts) -> Any:
        keys = frozenset(q.keys)
        some = tuple(d for d in below.accesses if any(s <= keys for s in d))
        return right(q, Subset(some) if some else below, cuts)

    patch.setattr(stable, "_grouped", wrong)


@caught_by(people)
def a_limit_may_stand_under_a_condition(patch: Patch) -> None:
    right = stable._subset
    patch.setattr(
        stable,
        "_subset",
        lambda q, below: Subset(()) if isinstance(below, stable.Final) else right(q, below),
    )


@caught_by(people)
def nulls_may_come_first(patch: Patch) -> None:
    right = stable._trend

    def wrong(a: Any, over: Rel, cuts: Cuts) -> Column:
        return Column(right(a, over, cuts).trend, nullable=False)

    patch.setattr(stable, "_trend", wrong)


@caught_by(grouped, start=16)
def groups_that_come_to_be_shown_bring_nothing(patch: Patch) -> None:
    patch.setattr(occurrences, "flip", lambda *_: None)


@caught_by(grouped, start=22)
def fragments_of_shown_groups_stay(patch: Patch) -> None:
    patch.setattr(occurrences, "merge", lambda *_: True)


@caught_by(grouped)
def rows_that_go_are_counted_as_rows_that_come(patch: Patch) -> None:
    right = Occurrences.count

    def wrong(kept: Occurrences, groups: Any, found: Any, amounts: Any, count: int) -> None:
        right(kept, groups, found, np.abs(amounts), count)

    patch.setattr(Occurrences, "count", wrong)


@caught_by(grouped)
def only_new_groups_are_looked_at_again(patch: Patch) -> None:
    right = SketchEngine._show

    def wrong(engine: SketchEngine, touched: Any, rows: Any, shown: Any) -> None:
        right(engine, touched[~shown[touched]], rows, shown)

    patch.setattr(SketchEngine, "_show", wrong)


@caught_by(extremes, start=7)
def values_beyond_the_bound_of_a_buffer_are_admitted(patch: Patch) -> None:
    right = measures.hold

    def wrong(groups: Any, words: Any, amounts: Any, *state: Any) -> bool:
        values, counts, sizes, complete, bounds = state
        complete[:] = True
        right(groups, words, amounts, values, counts, sizes, complete, bounds)
        return True

    patch.setattr(measures, "hold", wrong)
