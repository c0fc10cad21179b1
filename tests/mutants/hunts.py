"""The hunts: each law on the smallest plans that show what can go wrong there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from belvedere.algebra.relations import JoinKind
from belvedere.algebra.walks import tables
from tests.mutants.hunt import Case, Hunt
from tests.reference import foreign
from tests.reference.laws import (
    emptying_keeps_the_rows,
    going_back_keeps_the_rows,
    looking_up_keeps_the_rows,
    memory_agrees_on_changes,
    narrowing_keeps_the_rows,
    picking_keeps_the_rows,
    pushing_keeps_the_rows,
    the_change_adds_up,
    the_sql_means_the_change,
    the_stored_rows_follow,
    turning_keeps_the_rows,
)
from tests.reference.plans import NUDGES, changes, databases, maintained, restrictions, rooted


def _changes(operator: str, *args: Any) -> st.SearchStrategy[Case]:
    return changes(rooted(operator, *args), least=2)


@st.composite
def _restricted(draw: st.DrawFn, operator: str, *args: Any) -> Case:
    q = draw(rooted(operator, *args))
    return q, draw(databases(tables(q), least=2)), *draw(restrictions(q, least=1))


def _stored(operator: str, *args: Any, moves: Sequence[str] = NUDGES) -> st.SearchStrategy[Case]:
    return maintained(rooted(operator, *args), rounds=2, least=4, moves=moves)


def _change_of(what: str, operator: str, *args: Any) -> Hunt:
    return Hunt(f"the change of {what}", the_change_adds_up, _changes(operator, *args))


def _pushing_into(what: str, operator: str) -> Hunt:
    return Hunt(f"pushing into {what}", pushing_keeps_the_rows, _restricted(operator, 0))


def _sql_of(what: str, operator: str) -> Hunt:
    return Hunt(
        f"SQL of the change of {what}", the_sql_means_the_change, _changes(operator, 0), enough=6
    )


def _maintaining(what: str, cases: st.SearchStrategy[Case], **how: bool) -> Hunt:
    return Hunt(what, partial(the_stored_rows_follow, **how), cases, enough=6)


inner, left, full, semi, anti = (
    _change_of(f"{kind.value} joins", "pairs", kind)
    for kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)
)
groups = _change_of("groups", "aggregate", 0)
distinct = _change_of("distinct rows", "distinct", 0)
sets = _change_of("set operations", "compared")
windows = _change_of("windows", "window", 0)
tops = _change_of("top rows", "top", 0)

through_joins = _pushing_into("joins", "join")
through_groups = _pushing_into("groups", "aggregate")
through_windows = _pushing_into("windows", "window")
through_tops = _pushing_into("top rows", "top")

joins_in_order = Hunt("the order of joins", turning_keeps_the_rows, _changes("chain"))
asked_rows = Hunt("the rows asked for", turning_keeps_the_rows, _changes("pairs", JoinKind.ANTI))
empties = Hunt("empty relations", emptying_keeps_the_rows, _changes("pairs", JoinKind.ANTI))
going_back = Hunt("going back", going_back_keeps_the_rows, _changes("groups", ["count"]))

ranges = Hunt("the ranges of changes", narrowing_keeps_the_rows, _changes("pairs", JoinKind.INNER))
ranges_of_groups = Hunt(
    "the ranges of groups", narrowing_keeps_the_rows, _changes("groups", ["count"])
)

looked_up = Hunt("rows looked up", looking_up_keeps_the_rows, _changes("chain"))
looked_up_groups = Hunt(
    "groups looked up", looking_up_keeps_the_rows, _changes("groups", ["count"])
)


@st.composite
def _picked(draw: st.DrawFn) -> Case:
    q = draw(rooted("pairs", JoinKind.LEFT))
    return q, draw(databases(tables(q), least=2))


picked = Hunt("rows picked", picking_keeps_the_rows, _picked())

_table = foreign.bags
in_memory = Hunt("joins in memory", memory_agrees_on_changes, _changes("chain"))
groups_in_memory = Hunt("groups in memory", memory_agrees_on_changes, _changes("groups", ["count"]))

referring = Hunt(
    "foreign keys",
    foreign.children_of_changed_keys_are_those_of_the_change,
    st.tuples(_table, _table, _table, _table),
    enough=40,
)

sql_of_groups = _sql_of("groups", "aggregate")
sql_of_distinct = _sql_of("distinct rows", "distinct")

_sums, _extrema = ["count", "sum", "avg"], ["min", "max"]
sums = _maintaining("merged sums, counts and means", _stored("groups", _sums))
extrema = _maintaining("merged extrema", _stored("groups", _extrema))
flips = _maintaining(
    "merged extrema of anti joins", _stored("groups_of_anti_joins", _extrema, moves=["grow"])
)
replaced = _maintaining("replaced groups", _stored("groups", _sums), recompute=True)
having = _maintaining("groups under HAVING", _stored("filtered_groups"))
bags = _maintaining("stored bags", _stored("one_column"))
