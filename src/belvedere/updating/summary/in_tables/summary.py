"""Estimates from a summary in tables.

Only classes and links are in memory, as arrays. The rest is looked up by the keys of the view row; the
segments of one view row agree on every edge, so that each edge has one key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import Change, Scan
from belvedere.delta.lookups import look_up, read_whole
from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory
from belvedere.updating.summary.base_tables import Mask
from belvedere.updating.summary.classes import NO_CLASS, Summary, class_bits, propagate
from belvedere.updating.summary.database_graph import MOST_JOINS
from belvedere.updating.summary.domains import Codes
from belvedere.updating.summary.estimate import InsertionEstimate, Segment, estimate_side_effects
from belvedere.updating.summary.in_tables.build import (
    CLASS_COLUMNS,
    BuiltSummary,
    SummaryTables,
    at_key,
    class_codes,
    class_codes_of,
    held_column_names,
    key_columns,
    read_summary,
    whole_numbers,
)
from belvedere.updating.summary.in_tables.parts import part_name
from belvedere.views.catalog import canonical_name, the_view

if TYPE_CHECKING:
    from belvedere.kernels.lists import Lists
    from belvedere.lake.spark_lake import SparkLake

MOST_ROWS_READ = 10_000_000
"""The limit on rows read without Spark: of classes and links, or with one key."""

KeyValues = tuple[Any, ...]
SegmentKeys = Mapping[tuple[int, int], KeyValues | None]
"""For a position and an edge, the segment's key; None if a part of it is NULL."""


@dataclass
class StoredSummary:
    """The summary of a view at some versions: classes in memory, the rest in tables."""

    door: SparkLake
    name: str
    tree: EquijoinTree
    pieces: Collection[str]
    """The names of its parts."""

    @cached_property
    def built(self) -> BuiltSummary:
        """The classes and links."""
        tree, name = self.tree, self.name
        tables = SummaryTables(
            tuple(part_name(name, f"z_{p}") for p in range(len(tree.block.positions))),
            tuple(part_name(name, f"l_{e}") for e in range(len(tree.edges))),
        )
        return read_summary(tree, tables, lambda name: self._rows(name, {}))

    @cached_property
    def _summary(self) -> Summary:
        """The summary without rows and keys."""
        from belvedere.kernels.lists import Lists

        tree, built = self.tree, self.built
        links = {
            e: Lists(len(built.sizes[tree.child(e)]), *map(np.ascontiguousarray, columns))
            for e, columns in enumerate(built.links)
        }
        summary = Summary([], [], list(built.sizes), {}, links, {}, [], [])
        propagate(tree, summary)
        return summary

    def estimate(self, keys: SegmentKeys, rows: Sequence[KeyValues | None]) -> InsertionEstimate:
        """The number of view rows that an insertion makes, from its segments' keys and their existing rows."""
        facts = _KeyFacts(self, keys)
        of_row, whole = [], []
        for p, row in enumerate(rows):
            is_whole, place = (False, NO_CLASS) if row is None else facts.facts(p, row)
            whole.append(np.array([is_whole]))
            of_row.append(np.array([place]))
        by_key = {end: facts.classes(*end) for end in keys}
        whole_by = {end: facts.whole(*end) for end in keys}
        segments = [
            Segment(None if row is None else 0, {e: facts.code(p, e) for e in self.tree.around[p]})
            for p, row in enumerate(rows)
        ]
        summary = replace(self._summary, of_row=of_row, by_key=by_key)
        return estimate_side_effects(self.tree, _RequestRows(whole, whole_by), summary, segments)

    def places(self, p: int, codes: Codes) -> Codes:
        """The indexes of classes of a position, by code."""
        places: Codes = np.searchsorted(self.built.names[p], codes)
        return places

    def at(self, kind: str, p: int, e: int, key: KeyValues) -> pa.Table:
        """The rows of a table by key for one key, without the key."""
        columns = key_columns(self.tree, e)
        rows = self._rows(
            part_name(self.name, at_key(kind, p, e)), dict(zip(columns, key, strict=True))
        )
        return rows.drop_columns(columns)

    def own(self, p: int, row: KeyValues) -> int:
        """The number of a row as a candidate; 0 if it is none."""
        name = part_name(self.name, f"k_{p}")
        if name not in self.pieces or None in row:
            return 0
        table = self.door.table(canonical_name(self.door, name))
        equal = dict(zip(held_column_names(row), row, strict=True))
        columns, types = [*equal, "own"], {c: table.types[c] for c in equal}
        first_value = pa.array([row[0]], kinds.arrow(types["v0"]))
        rows = look_up(
            table, table.version, columns, "v0", first_value, nulls=False, most=MOST_ROWS_READ
        )
        if rows is None:
            rows = self._by_spark(f"SELECT * FROM {table.reference}", types, equal)
        numbers = _rows_with_values(rows, equal)["own"].to_pylist()
        return int(numbers[0]) if numbers else 0

    def _rows(self, name: str, equal: Mapping[str, Any]) -> pa.Table:
        """The rows of a summary's view that have some values; without Spark if possible."""
        view = the_view(self.door, name)
        stored = self.door.table(view.stored)

        def leaf(scan: Scan | Change) -> pa.Table | None:
            columns = [f.source for f in scan.fields]
            if not equal:
                return read_whole(stored, stored.version, columns, MOST_ROWS_READ)
            by, value = next(iter(equal.items()))
            plan = dict(view.bound.columns)[by]
            source = next(f.source for f in scan.fields if f.name == plan)
            value_array = pa.array([value], kinds.arrow(dict(view.definition.columns)[by]))
            return look_up(
                stored,
                stored.version,
                columns,
                source,
                value_array,
                nulls=False,
                most=MOST_ROWS_READ,
            )

        names = [name for name, _ in view.definition.columns]
        try:
            rows = Memory(leaf, MOST_ROWS_READ).rows(view.read).table
            selected = rows.select([plan for _, plan in view.bound.columns]).rename_columns(names)
        except Declined:
            from belvedere.views.catalog_views import read_sql

            return self._by_spark(read_sql(self.door, view), dict(view.definition.columns), equal)
        return _rows_with_values(selected, equal)

    def _by_spark(self, query: str, types: Mapping[str, str], equal: Mapping[str, Any]) -> pa.Table:
        query = f"SELECT t.* FROM ({query}) AS t"
        with self.door.work() as w:
            if equal:
                columns = {c: pa.array([v], kinds.arrow(types[c])) for c, v in equal.items()}
                values_table = w.hold("asked", pa.table(columns), {c: types[c] for c in equal})
                condition = " AND ".join(f"t.{c} = a.{c}" for c in equal)
                query += f" LEFT SEMI JOIN {values_table} AS a ON {condition}"
            result: pa.Table = w.query(query).toArrow()
        return result


def _rows_with_values(rows: pa.Table, equal: Mapping[str, Any]) -> pa.Table:
    """The rows that have some values."""
    for column, value in equal.items():
        rows = rows.filter(pc.equal(rows[column], pa.scalar(value, rows[column].type)))
    return rows


@dataclass(frozen=True)
class _RequestRows:
    """See `WholeRowCounts`: for the rows of one request."""

    whole: list[Mask]
    whole_by: dict[tuple[int, int], Codes]


class _KeyFacts:
    """Looks up the keys of one request in the tables of a summary, each once.

    The keys of an edge are numbered; those of one view row agree, so that the only key is 0.
    """

    def __init__(self, tabled: StoredSummary, keys: SegmentKeys) -> None:
        self.tabled, self.tree, self.keys = tabled, tabled.tree, keys
        self.known: dict[tuple[str, int, int, KeyValues], pa.Table] = {}
        self.number_rows = [
            list(dict.fromkeys(k for p in edge.ends if (k := keys[p, e]) is not None))
            for e, edge in enumerate(self.tree.edges)
        ]

    def code(self, p: int, e: int) -> int | None:
        """The number of a segment's key on an edge."""
        key = self.keys[p, e]
        return None if key is None else self.number_rows[e].index(key)

    def at(self, kind: str, p: int, e: int, key: KeyValues) -> pa.Table:
        """The rows of a table for a key."""
        if (kind, p, e, key) not in self.known:
            self.known[kind, p, e, key] = self.tabled.at(kind, p, e, key)
        return self.known[kind, p, e, key]

    def says_yes(self, kind: str, p: int, e: int, key: KeyValues | None) -> bool:
        """Whether a table has a key."""
        return key is not None and bool(self.at(kind, p, e, key).num_rows)

    def whole(self, p: int, e: int) -> Codes:
        """How many whole rows of a position have each key: the other end has the key too."""
        q = self.tree.edges[e].across(p)
        counts = [
            int(whole_numbers(self.at("c", p, e, key)["n"]).sum())
            if self.says_yes("c", q, e, key)
            else 0
            for key in self.number_rows[e]
        ]
        return np.array([*counts, 0], dtype=np.int64)

    def classes(self, p: int, e: int) -> Lists:
        """How many rows of each class of a position have each key."""
        from belvedere.kernels.lists import Lists

        codes, members, counts = [], [], []
        for code, key in enumerate(self.number_rows[e]):
            rows = self.at("b", p, e, key)
            places = self.tabled.places(p, class_codes_of(rows, CLASS_COLUMNS))
            order = np.argsort(places)
            codes.append(np.full(len(places), code, dtype=np.int64))
            members.append(places[order])
            counts.append(whole_numbers(rows["n"])[order])
        columns = (np.concatenate([_NO_CODES, *some]) for some in (codes, members, counts))
        return Lists(len(self.number_rows[e]), *columns)

    def facts(self, p: int, row: KeyValues) -> tuple[bool, int]:
        """Whether an existing row is whole, and the index of its class if it is extended."""
        tree = self.tree
        ends = [(tree.edges[e].across(p), e, self.keys[p, e]) for e in tree.around[p]]
        joined, complete = class_bits(tree, p)
        heard = [end[1] for end in ends if self.says_yes("c", *end)]
        is_whole = len(heard) == len(ends)
        if is_whole and not any(self.says_yes("d", *end) for end in ends):
            return is_whole, NO_CLASS
        jcard, bits = 1.0, sum(complete[e] for e in heard)
        for e, bit in joined.items():
            child, key = tree.child(e), self.keys[p, e]
            has_partners = self.says_yes("b", child, e, key)
            jcard = min(
                jcard * (self._cardinality(child, e, key) if has_partners else 0.0), MOST_JOINS
            )
            bits |= bit if has_partners else 0
        numbers = (int(jcard), bits, self.tabled.own(p, row))
        code = class_codes(*(np.array([n], dtype=np.int64) for n in numbers))
        return is_whole, int(self.tabled.places(p, code)[0])

    def _cardinality(self, p: int, e: int, key: Any) -> float:
        """The sum of the join cardinalities of a position's extended rows with a key."""
        rows = self.at("b", p, e, key)
        cardinalities = whole_numbers(rows["jcard"]).astype(float) * whole_numbers(rows["n"])
        return min(float(cardinalities.sum()), MOST_JOINS)


_NO_CODES = np.zeros(0, dtype=np.int64)
