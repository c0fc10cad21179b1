"""Planning: from CREATE SKETCH to a sketch that is known to be safe; nothing is written here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from belvedere.algebra.relations import Rel, Scan
from belvedere.algebra.types import parse
from belvedere.algebra.walks import nodes, tables
from belvedere.analyses.stable import Cuts, unsafe
from belvedere.analyses.types import types
from belvedere.errors import Internal, Invalid, Unsupported
from belvedere.joins.partitions import (
    Partition,
    equi_depth,
    equi_width,
    given,
    orderable,
)
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.workspace import PRECISION, Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.table import Table
from belvedere.memory.kinds import is_exact
from belvedere.rules.annotate import Cut, sketch
from belvedere.sketches.capture.blocks import block
from belvedere.sketches.capture.partition_choice import best
from belvedere.sketches.definition import Definition
from belvedere.sketches.engine.engine import ROOM, SketchEngine
from belvedere.sketches.safety.bounds import declared, recorded
from belvedere.sketches.safety.evidence import Evidence
from belvedere.sql.binder.bind import bind
from belvedere.sql.names import quote
from belvedere.sql.statements.sketches import CreateSketch, Fragments
from belvedere.views.catalog import Names, as_not_read, canonical_name, shown_name
from belvedere.views.create import SETTINGS

FRAGMENTS = 100
"""How many fragments a table is cut into, unless it is said otherwise."""
_SAMPLE = 200_000


def session_settings(door: SparkLake) -> dict[str, str]:
    """What a session means by the same words: a sketch is of queries in one like it."""
    return {key: str(door.spark.conf.get(key)) for key in (*SETTINGS, PRECISION)}


@dataclass
class SketchPlanner:
    """Plans one sketch over the tables as they are."""

    door: SparkLake
    pins: Pins
    statement: CreateSketch

    def plan(self) -> Definition:
        """The sketch that the statement declares; `Unsupported` with what would be safe if it is not."""
        settings = session_settings(self.door)
        if settings["spark.sql.caseSensitive"] == "true":
            raise Unsupported(
                "sketches in a case-sensitive session",
                hint="SET spark.sql.caseSensitive = false before creating the sketch",
                reason="CASE_SENSITIVE",
            )
        names = Names(self.door)
        with as_not_read(self.door, self.statement.query):
            q = bind(self.statement.lead + self.statement.query, names).plan
        if names.views:
            raise Unsupported(
                "a sketch of a query that reads a materialized view",
                hint="write the query over the tables that the view reads",
                reason="SKETCH_OF_VIEW",
            )
        work = self.pins.work(settings)
        evidence = evidence_of(self.pins, work)
        clauses = self.statement.fragments or (self._chosen(q, work, evidence),)
        partitions = tuple(self._partition(q, c, work) for c in clauses)
        self._refuse_two(partitions)
        self._refuse_unsafe(q, partitions, evidence)
        for p in partitions:
            sketch(q, Cut(p.table, p.column, p.kind, p.fragment_scalar))  # every rule is there
        plain = Definition(
            id=str(uuid.uuid4()),
            name=self.statement.name,
            query=self.statement.query,
            settings=settings,
            partitions=partitions,
            kinds={},
            reads=reads_of(q, partitions),
            types=types_read(self.pins, reads_of(q, partitions)),
            room=self.statement.buffer or ROOM,
            watched=evidence.watched(),
            loose=self.statement.loose,
        )
        found = self._with_engine(q, plain, work)
        _refuse_rounding(found)
        return found

    def _with_engine(self, q: Rel, plain: Definition, work: Workspace) -> Definition:
        """The sketch with what its engine needs to know, or why it has none."""
        if not work.usual_decimals:
            return replace(plain, kept="SKETCH_DECIMALS")
        try:
            found = block(q, plain.partitions)
            kinds: dict[str, str] = {}
            for feed in found.feeds:
                known = types(
                    feed.plan, lambda asked, of: self.door.types(asked, of, plain.settings)
                )
                kinds |= {c: known[c] for c in feed.plan.columns}
            if not all(map(is_exact, kinds.values())):
                return replace(plain, kept="SKETCH_NOT_KEPT")
            SketchEngine(found, plain.partitions, kinds, plain.room)
        except Unsupported as why:
            return replace(plain, kept=why.reason)
        return replace(plain, kinds=kinds)

    def _refuse_two(self, partitions: Sequence[Partition]) -> None:
        names = [p.table for p in partitions]
        for name in names:
            if names.count(name) > 1:
                raise Invalid(
                    f"{shown_name(self.door, name)!r} is cut twice",
                    hint="one PARTITION for each table",
                    reason="BAD_VALUE",
                )

    def _refuse_unsafe(self, q: Rel, partitions: Sequence[Partition], evidence: Evidence) -> None:
        why = unsafe(q, cuts_of(partitions, evidence))
        if why is None:
            return
        safe = [f"{shown_name(self.door, t)}.{c}" for t, c in self._safe(q, evidence)]
        columns = ", ".join(f"{p.column!r}" for p in partitions)
        raise Unsupported(
            f"a sketch by {columns} is not safe for this query: {why.message}",
            detail=why.detail,
            hint=f"safe here: {', '.join(safe)}" if safe else why.hint,
            reason=why.reason,
        )

    def _safe(self, q: Rel, evidence: Evidence) -> list[tuple[str, str]]:
        """The columns that the query reads and that are safe by themselves."""
        return [
            (t, c)
            for t, c, kind in columns_read(q)
            if orderable(kind) and unsafe(q, Cuts({t: c}, nonnegative=evidence.nonnegative)) is None
        ]

    def _partition(self, q: Rel, clause: Fragments, work: Workspace) -> Partition:
        name = canonical_name(self.door, clause.table)
        if name not in tables(q):
            listed = ", ".join(shown_name(self.door, t) for t in tables(q))
            raise Invalid(
                f"the query does not read {clause.table!r}",
                hint=f"it reads {listed}",
                reason="NOT_IN_QUERY",
            )
        table = self.pins.table(name)
        known = {c.lower(): (c, kind) for c, kind in table.columns}
        if clause.column.lower() not in known:
            raise Invalid(
                f"{clause.table!r} has no column {clause.column!r}",
                hint=f"its columns: {', '.join(c for c, _ in table.columns)}",
                reason="NO_SUCH_COLUMN",
            )
        column, kind = known[clause.column.lower()]
        Partition(name, column, kind, ())  # of a type that has an order
        if clause.bounds is not None:
            return given(name, column, kind, clause.bounds)
        count = FRAGMENTS if clause.count is None else clause.count
        if clause.equal_width:
            low, high = ends(work, table, column)
            if low is None:
                return Partition(name, column, kind, ())
            return equi_width(name, column, kind, low, high, count)
        return equi_depth(name, column, kind, self._sample(work, table, [column])[column], count)

    def _sample(
        self, work: Workspace, table: Table, columns: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        """Some rows of a table, about as many as can be looked at in no time."""
        listed = ", ".join(quote(c) for c in columns)
        measured = self.pins.measured(table.name)
        share = min(1.0, _SAMPLE / max(measured.rows, 1)) if measured else 0.01
        part = "" if share >= 1 else f" TABLESAMPLE ({share * 100:.4f} PERCENT) REPEATABLE (7)"
        text = f"SELECT {listed} FROM {table.at(table.version)}{part}"
        rows = work.few(text, 20 * _SAMPLE)
        if rows is None:
            raise Internal("a sample is too large")
        return {c: rows.table[c].combine_chunks() for c in columns}

    def _chosen(self, q: Rel, work: Workspace, evidence: Evidence) -> Fragments:
        """The table and column of which, by a sample, the most can be expected to be skipped."""
        safe = self._safe(q, evidence)
        if not safe:
            cuts = [Cuts({t: c}, nonnegative=evidence.nonnegative) for t, c, _ in columns_read(q)]
            why = next((u for cut in cuts if (u := unsafe(q, cut)) is not None), None)
            raise Unsupported(
                "no column that this query reads is safe for a sketch",
                detail=str(why.message) if why else "",
                reason=why.reason if why else "SKETCH_NOT_SAFE",
            )
        largest = max({t for t, _ in safe}, key=self._rows)
        columns = [c for t, c in safe if t == largest]
        sample = self._sample(work, self.pins.table(largest), columns)
        column = best(q, largest, sample)
        return Fragments(largest, column)

    def _rows(self, name: str) -> int:
        measured = self.pins.measured(name)
        return measured.rows if measured else 0


def types_read(pins: Pins, reads: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """The types that columns have now; one that is gone has none."""
    return {t: {c: pins.table(t).types.get(c.lower(), "") for c in cs} for t, cs in reads.items()}


def _refuse_rounding(definition: Definition) -> None:
    """Sums of parts of groups, in floating point, are only compared with room for rounding."""
    floating = [
        w for w in definition.watched if parse(definition.types[w.table][w.column]).is_float
    ]
    if definition.kept and floating:
        raise Unsupported(
            f"sums of {floating[0].column!r} are rounded, and this query is not kept in memory",
            hint="cut the table by a GROUP BY column, or sum decimals",
            reason="SKETCH_ROUNDING",
        )


def ends(work: Workspace, table: Table, column: str) -> tuple[Any, Any]:
    """The least and the greatest value of a column; None where there is none."""
    quoted = quote(column)
    text = f"SELECT min({quoted}) AS a, max({quoted}) AS b FROM {table.at(table.version)}"
    rows = work.few(text, 1)
    if rows is None:
        raise Internal("one row is too many")
    return rows.table["a"][0].as_py(), rows.table["b"][0].as_py()


def evidence_of(pins: Pins, work: Workspace) -> Evidence:
    """What constraints, the log and, where these do not say, the rows tell of tables."""

    def lie(name: str, column: str) -> tuple[Any, Any]:
        table = pins.table(name)
        return recorded(table, column) or ends(work, table, column)

    return Evidence(lie, lambda name, column: declared(pins.table(name), column))


def proved_again(q: Rel, definition: Definition, pins: Pins) -> Definition:
    """A sketch over the tables as they are: still safe, or retired."""
    if types_read(pins, definition.reads) != definition.types:
        return replace(definition, retired="SCHEMA_CHANGED")
    if not definition.watched:
        return definition
    work = pins.work(definition.settings)
    evidence = evidence_of(pins, work)
    why = unsafe(q, cuts_of(definition.partitions, evidence))
    if why is None:
        return replace(definition, watched=evidence.watched(), retired="")
    return replace(definition, retired=why.reason)


def cuts_of(partitions: Sequence[Partition], evidence: Evidence) -> Cuts:
    """The cuts of some partitions, with what is known of signs."""
    return Cuts({p.table: p.column for p in partitions}, nonnegative=evidence.nonnegative)


def columns_read(q: Rel) -> list[tuple[str, str, str]]:
    """The tables and columns that a plan reads, with their types."""
    found = {
        (n.table, f.source, f.type): None for n in nodes(q) if isinstance(n, Scan) for f in n.fields
    }
    return list(found)


def reads_of(q: Rel, partitions: Sequence[Partition]) -> dict[str, tuple[str, ...]]:
    """The columns that a sketch of a plan uses of each table."""
    reads: dict[str, dict[str, None]] = {t: {} for t in tables(q)}
    for table, column, _ in columns_read(q):
        reads[table][column] = None
    for p in partitions:
        reads[p.table][p.column] = None
    return {t: tuple(c) for t, c in reads.items()}
