"""A summary that stays in tables: views of its own, filled and refreshed like any other.

What `building.py` makes for every edge becomes a materialized view, so that the summary is built by
jobs of Spark and kept current from the change feeds: rows that leave a class or enter one are
changes of these views. In memory are only the classes and their links, as arrays. An estimate looks
up what it needs of the others by the keys of the view row that is asked for: those of one row agree
on every edge, so that each edge has one key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.relations import Change, Scan
from belvedere.errors import Invalid
from belvedere.lake.lookup import look_up, read_whole
from belvedere.lake.names import parts
from belvedere.lake.stamps import Position, Vector
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory
from belvedere.sql.cursor import dotted
from belvedere.sql.statements import CreateView
from belvedere.updating.base import Mask
from belvedere.updating.building import Built, Passes, Steps, at_key, keys_of, summary_of
from belvedere.updating.classes import NONE, Summary, propagate
from belvedere.updating.domains import Codes
from belvedere.updating.estimate import Estimate, Segment, estimate_side_effects
from belvedere.updating.graph import MOST
from belvedere.updating.trees import Keys, Tree
from belvedere.views.catalog import (
    all_views,
    canonical_name,
    is_view,
    sound_and_broken,
    the_view,
)
from belvedere.views.definition import View

if TYPE_CHECKING:
    from belvedere.kernels.lists import Lists
    from belvedere.lake.door import Door

MOST_READ = 10_000_000
"""Rows of classes and links, or with one key, that are read without Spark."""

Key = tuple[Any, ...]
SegmentKeys = Mapping[tuple[int, int], Key | None]
"""For a position and an edge at it, the segment's key; None if a part of it is NULL."""
ClassOf = tuple[int, int]
"""What rows of a class have in common: join cardinality, bits of children with partners."""


def create(
    door: Door, name: str, tree: Tree, held: Mapping[str, tuple[str, ...]], keys: Keys
) -> list[str]:
    """Make the views of a summary, all of them or none; their names."""
    from belvedere.views.create import fill_view, plan_view

    drop(door, name)  # what a creation that was cut off left
    made: list[str] = []

    def run(piece: str, query: exp.Query) -> str:
        own = called(name, piece)
        canonical = canonical_name(door, own)
        if door.exists(canonical) or is_view(door, canonical):
            raise Invalid(
                f"{own!r} exists already: a part of the summary would have this name",
                hint="rename the table",
                reason="NAME_TAKEN",
            )
        statement = CreateView(own, query.sql(dialect="spark"), comment=_comment(name))
        fill_view(door, plan_view(door, statement))
        made.append(own)
        return own

    try:
        Passes(tree, held, keys, lambda t: exp.to_table(t, dialect="spark"), run).run_all()
    except BaseException:
        drop(door, name)
        raise
    return made


def is_whole(door: Door, name: str, pieces: Collection[str]) -> bool:
    """Whether all views of a summary are there."""
    return {view.name for view in _views(door, name)} == set(pieces)


def belongs(view: str, name: str) -> bool:
    """Whether a view is, by its name, one of a summary."""
    *space, last = parts(view)
    *own, mine = parts(name)
    return space == own and last.startswith(f"{mine}_summary_")


def drop(door: Door, name: str, pieces: Collection[str] = ()) -> None:
    """Take the views of a summary away, broken ones among `pieces` too."""
    from belvedere.views.create import drop_view

    broken = [view.name for view in sound_and_broken(door)[1] if view.name in pieces]
    for view in [*(v.name for v in reversed(_views(door, name))), *reversed(broken)]:
        drop_view(door, view)


def bring(door: Door, name: str, only: Collection[str] | None = None) -> tuple[Vector, int]:
    """The views of a summary at their tables' newest versions, or some tables': where, and rows changed."""
    from belvedere.views.calls import Calls

    views = _views(door, name)
    done = Calls(door, after=lambda: None).together(views, only)
    return _vector(door, views), sum(each.rows_changed or 0 for each in done)


def called(name: str, piece: str) -> str:
    """The name of a view of a summary."""
    *space, last = parts(name)
    return dotted([*space, f"{last}_summary_{piece}"])


def _comment(name: str) -> str:
    return f"a part of the summary of {name}"


def _views(door: Door, name: str) -> list[View]:
    """The views of a summary, those that others read first."""
    return [v for v in all_views(door) if v.definition.comment == _comment(name)]


def _vector(door: Door, views: Sequence[View]) -> Vector:
    """The versions of the tables that all views of a summary are at."""
    own = {v.stored for v in views}
    found: dict[str, Position] = {}
    for view in views:
        stamp = door.stamp(door.table(view.stored)).stamp
        for table, at in (stamp.vector if stamp else {}).items():
            if table not in own and found.setdefault(table, at) != at:
                raise Invalid(
                    f"another process refreshes {view.name!r}",
                    hint="try again",
                    reason="CONCURRENT_REFRESH",
                )
    return found


@dataclass
class Tabled:
    """The summary of a view at some versions: its classes in memory, the rest in tables."""

    door: Door
    name: str
    tree: Tree

    @cached_property
    def built(self) -> Built:
        """Classes and links."""
        tree, name = self.tree, self.name
        made = Steps(
            tuple(called(name, f"z_{p}") for p in range(len(tree.shape.positions))),
            tuple(called(name, f"l_{e}") for e in range(len(tree.edges))),
        )
        return summary_of(tree, made, lambda view: _tuples(self._rows(view, {})))

    @cached_property
    def _classes(self) -> tuple[list[dict[ClassOf, int]], Summary]:
        """The numbers of each position's classes, and the summary without its rows and keys."""
        from belvedere.kernels.lists import Lists

        tree, built = self.tree, self.built
        numbers: list[dict[ClassOf, int]] = [{} for _ in tree.shape.positions]
        sizes: list[list[int]] = [[] for _ in numbers]
        for (p, jcard, bits), size in built.sizes.items():
            numbers[p][jcard, bits] = len(sizes[p])
            sizes[p].append(size)
        ends: list[list[tuple[int, int, int]]] = [[] for _ in tree.edges]
        for (above, below), weight in built.links.items():
            edge = tree.parent_edge[below[0]]
            ends[edge].append((numbers[below[0]][below[1:]], numbers[above[0]][above[1:]], weight))
        links = {}
        for e, some in enumerate(ends):
            columns = np.array(sorted(some), dtype=np.int64).reshape(-1, 3).T
            links[e] = Lists(len(sizes[tree.child(e)]), *map(np.ascontiguousarray, columns))
        arrays = [np.array(s, dtype=np.int64) for s in sizes]
        summary = Summary([], [], arrays, {}, links, {}, [], [])
        propagate(tree, summary)
        return numbers, summary

    def estimate(self, keys: SegmentKeys, there: Sequence[bool]) -> Estimate:
        """How many view rows an insertion makes, from its segments' keys and which of them are there."""
        numbers, summary = self._classes
        near = _Near(self, keys)
        of_row, whole = [], []
        for p, is_there in enumerate(there):
            is_whole, name = near.facts(p) if is_there else (False, None)
            whole.append(np.array([is_whole]))
            of_row.append(np.array([NONE if name is None else numbers[p][name]]))
        by_key = {at: near.classes(*at, numbers[at[0]]) for at in keys}
        whole_by = {at: near.whole(*at) for at in keys}
        segments = [
            Segment(0 if is_there else None, {e: near.code(p, e) for e in self.tree.around[p]})
            for p, is_there in enumerate(there)
        ]
        beside = replace(summary, of_row=of_row, by_key=by_key)
        return estimate_side_effects(self.tree, _Whole(whole, whole_by), beside, segments)

    def at(self, kind: str, p: int, e: int, key: Key) -> list[tuple[Any, ...]]:
        """What is known of the rows of a position with a key on an edge, without the key."""
        columns = keys_of(self.tree, e)
        found = self._rows(
            called(self.name, at_key(kind, p, e)), dict(zip(columns, key, strict=True))
        )
        return _tuples(found.drop_columns(columns))

    def _rows(self, name: str, equal: Mapping[str, Any]) -> pa.Table:
        """The rows of a view of the summary that have some values; by Spark if not without it."""
        view = the_view(self.door, name)
        stored = self.door.table(view.stored)

        def leaf(scan: Scan | Change) -> pa.Table | None:
            columns = [f.source for f in scan.fields]
            if not equal:
                return read_whole(stored, stored.version, columns, MOST_READ)
            by, value = next(iter(equal.items()))
            plan = dict(view.bound.columns)[by]
            source = next(f.source for f in scan.fields if f.name == plan)
            wanted = pa.array([value], kinds.arrow(dict(view.definition.columns)[by]))
            return look_up(
                stored, stored.version, columns, source, wanted, nulls=False, most=MOST_READ
            )

        names = [name for name, _ in view.definition.columns]
        try:
            rows = Memory(leaf, MOST_READ).rows(view.read).table
            found = rows.select([plan for _, plan in view.bound.columns]).rename_columns(names)
        except Declined:
            return self._by_spark(view, equal)
        for column, value in equal.items():
            found = found.filter(pc.equal(found[column], pa.scalar(value, found[column].type)))
        return found

    def _by_spark(self, view: View, equal: Mapping[str, Any]) -> pa.Table:
        from belvedere.views.create import read_sql

        types = dict(view.definition.columns)
        query = f"SELECT t.* FROM ({read_sql(self.door, view)}) AS t"
        with self.door.work() as w:
            if equal:
                columns = {c: pa.array([v], kinds.arrow(types[c])) for c, v in equal.items()}
                asked = w.hold("asked", pa.table(columns), {c: types[c] for c in equal})
                same = " AND ".join(f"t.{c} = a.{c}" for c in equal)
                query += f" LEFT SEMI JOIN {asked} AS a ON {same}"
            found: pa.Table = w.query(query).toArrow()
        return found


@dataclass(frozen=True)
class _Whole:
    """As `WholeRows`: of the rows of a request alone."""

    whole: list[Mask]
    whole_by: dict[tuple[int, int], Codes]


class _Near:
    """What the tables of a summary say of the keys of a request, each looked up once.

    The keys of an edge are numbered: where a view row is joined as it should be, its one key is 0.
    """

    def __init__(self, tabled: Tabled, keys: SegmentKeys) -> None:
        self.tabled, self.tree, self.keys = tabled, tabled.tree, keys
        self.known: dict[tuple[str, int, int, Key], list[tuple[Any, ...]]] = {}
        self.numbered = [
            list(dict.fromkeys(k for p in (edge.one, edge.other) if (k := keys[p, e]) is not None))
            for e, edge in enumerate(self.tree.edges)
        ]

    def code(self, p: int, e: int) -> int | None:
        """The number of a segment's key on an edge."""
        key = self.keys[p, e]
        return None if key is None else self.numbered[e].index(key)

    def at(self, kind: str, p: int, e: int, key: Key | None) -> list[tuple[Any, ...]]:
        """What one table says of a key."""
        if key is None:
            return []
        if (kind, p, e, key) not in self.known:
            self.known[kind, p, e, key] = self.tabled.at(kind, p, e, key)
        return self.known[kind, p, e, key]

    def whole(self, p: int, e: int) -> Codes:
        """How many whole rows of a position have each key: complete ones that the other end completes."""
        q = self.tree.edges[e].across(p)
        counts = [
            sum(n for (n,) in self.at("c", p, e, key)) if self.at("c", q, e, key) else 0
            for key in self.numbered[e]
        ]
        return np.array([*counts, 0], dtype=np.int64)

    def classes(self, p: int, e: int, numbers: Mapping[ClassOf, int]) -> Lists:
        """How many rows of each class of a position have each key."""
        from belvedere.kernels.lists import Lists

        found: Counter[tuple[int, int]] = Counter()
        for code, key in enumerate(self.numbered[e]):
            for jcard, bits, n in self.at("b", p, e, key):
                found[code, numbers[int(jcard), bits]] += n
        rows = [(code, member, n) for (code, member), n in sorted(found.items())]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return Lists(len(self.numbered[e]), *map(np.ascontiguousarray, columns))

    def facts(self, p: int) -> tuple[bool, ClassOf | None]:
        """Whether a row that is there is whole, and its class if it is an extended one."""
        tree = self.tree
        said = [(tree.edges[e].across(p), e, self.keys[p, e]) for e in tree.around[p]]
        whole = all(self.at("c", q, e, key) for q, e, key in said)
        if whole and not any(self.at("d", q, e, key) for q, e, key in said):
            return whole, None
        jcard, joined = 1, 0
        for bit, e in enumerate(tree.child_edges[p]):
            below = self.at("b", tree.child(e), e, self.keys[p, e])
            jcard = min(jcard * min(sum(int(j) * n for j, _, n in below), int(MOST)), int(MOST))
            joined |= bool(below) << bit
        return whole, (jcard, joined)


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
