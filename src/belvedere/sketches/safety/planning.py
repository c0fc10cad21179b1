"""Planning: from CREATE SKETCH to the definition of a safe sketch; this module writes nothing."""

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
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.capture.partition_choice import best_column
from belvedere.sketches.definition import SketchDefinition
from belvedere.sketches.engine.engine import ROOM, SketchEngine
from belvedere.sketches.safety.bounds import declared_range, recorded_range
from belvedere.sketches.safety.evidence import Evidence
from belvedere.sql.binder.bind import bind
from belvedere.sql.names import quote
from belvedere.sql.statements.sketches import CreateSketch, Fragments
from belvedere.views.catalog import Names, as_not_read, canonical_name, shown_name
from belvedere.views.create import SETTINGS

FRAGMENTS = 100
"""The default number of fragments of a table."""
_SAMPLE = 200_000


def session_settings(door: SparkLake) -> dict[str, str]:
    """The settings that decide what a query means: a sketch answers queries under the same settings."""
    return {key: str(door.spark.conf.get(key)) for key in (*SETTINGS, PRECISION)}


@dataclass
class SketchPlanner:
    """Plans one sketch over the present tables."""

    door: SparkLake
    pins: Pins
    statement: CreateSketch

    def plan(self) -> SketchDefinition:
        """The sketch that the statement declares; `Unsupported`, with the safe columns, if it is not safe."""
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
        clauses = self.statement.fragments or (self._default_partition(q, work, evidence),)
        partitions = tuple(self._partition(q, c, work) for c in clauses)
        self._refuse_two(partitions)
        self._refuse_unsafe(q, partitions, evidence)
        for p in partitions:
            # `Unsupported` if an operator has no capture rule.
            sketch(q, Cut(p.table, p.column, p.kind, p.fragment_scalar))
        plain = SketchDefinition(
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
        definition = with_engine(self.door, q, plain, work)
        _refuse_rounding(definition)
        return definition

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
        safe = [f"{shown_name(self.door, t)}.{c}" for t, c in self._safe_columns(q, evidence)]
        columns = ", ".join(f"{p.column!r}" for p in partitions)
        raise Unsupported(
            f"a sketch by {columns} is not safe for this query: {why.message}",
            detail=why.detail,
            hint=f"safe here: {', '.join(safe)}" if safe else why.hint,
            reason=why.reason,
        )

    def _safe_columns(self, q: Rel, evidence: Evidence) -> list[tuple[str, str]]:
        """The columns of the query that are safe each by itself."""
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
        columns = {c.lower(): (c, kind) for c, kind in table.columns}
        if clause.column.lower() not in columns:
            raise Invalid(
                f"{clause.table!r} has no column {clause.column!r}",
                hint=f"its columns: {', '.join(c for c, _ in table.columns)}",
                reason="NO_SUCH_COLUMN",
            )
        column, kind = columns[clause.column.lower()]
        # `Invalid` if the type has no order.
        Partition(name, column, kind, ())
        if clause.bounds is not None:
            return given(name, column, kind, clause.bounds)
        count = FRAGMENTS if clause.count is None else clause.count
        if clause.equal_width:
            low, high = least_and_greatest(work, table, column)
            if low is None:
                return Partition(name, column, kind, ())
            return equi_width(name, column, kind, low, high, count)
        return equi_depth(name, column, kind, self._sample(work, table, [column])[column], count)

    def _sample(
        self, work: Workspace, table: Table, columns: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        """A sample of a table's rows that is small enough for a quick look."""
        listed = ", ".join(quote(c) for c in columns)
        measured = self.pins.measured(table.name)
        share = min(1.0, _SAMPLE / max(measured.rows, 1)) if measured else 0.01
        part = "" if share >= 1 else f" TABLESAMPLE ({share * 100:.4f} PERCENT) REPEATABLE (7)"
        text = f"SELECT {listed} FROM {table.at(table.version)}{part}"
        rows = work.few(text, 20 * _SAMPLE)
        if rows is None:
            raise Internal("a sample is too large")
        return {c: rows.table[c].combine_chunks() for c in columns}

    def _default_partition(self, q: Rel, work: Workspace, evidence: Evidence) -> Fragments:
        """The table and column whose partition, by a sample, lets queries skip the most."""
        safe = self._safe_columns(q, evidence)
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
        column = best_column(q, largest, sample)
        return Fragments(largest, column)

    def _rows(self, name: str) -> int:
        measured = self.pins.measured(name)
        return measured.rows if measured else 0


def with_engine(
    lake: SparkLake, q: Rel, plain: SketchDefinition, work: Workspace
) -> SketchDefinition:
    """The definition with the types of its engine's columns, or the reason why it has no engine."""
    if not work.usual_decimals:
        return replace(plain, kept="SKETCH_DECIMALS")
    try:
        parts = sketch_block(q, plain.partitions)
        kinds: dict[str, str] = {}
        for feed in parts.feeds:
            by_column = types(feed.plan, lambda asked, of: lake.types(asked, of, plain.settings))
            kinds |= {c: by_column[c] for c in feed.plan.columns}
        if not all(map(is_exact, kinds.values())):
            return replace(plain, kept="SKETCH_NOT_KEPT")
        SketchEngine(parts, plain.partitions, kinds, plain.room)
    except Unsupported as why:
        return replace(plain, kept=why.reason)
    return replace(plain, kinds=kinds)


def types_read(pins: Pins, reads: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """The present types of columns; empty for a column that is gone."""
    return {t: {c: pins.table(t).types.get(c.lower(), "") for c in cs} for t, cs in reads.items()}


def _refuse_rounding(definition: SketchDefinition) -> None:
    """Refuse a proof over floating point columns without an engine, which alone allows for rounding."""
    floating = [
        w for w in definition.watched if parse(definition.types[w.table][w.column]).is_float
    ]
    if definition.kept and floating:
        raise Unsupported(
            f"sums of {floating[0].column!r} are rounded, and this query is not kept in memory",
            hint="cut the table by a GROUP BY column, or sum decimals",
            reason="SKETCH_ROUNDING",
        )


def least_and_greatest(work: Workspace, table: Table, column: str) -> tuple[Any, Any]:
    """The least and the greatest value of a column; None if it has no values."""
    quoted = quote(column)
    text = f"SELECT min({quoted}) AS a, max({quoted}) AS b FROM {table.at(table.version)}"
    rows = work.few(text, 1)
    if rows is None:
        raise Internal("one row is too many")
    return rows.table["a"][0].as_py(), rows.table["b"][0].as_py()


def evidence_of(pins: Pins, work: Workspace) -> Evidence:
    """Evidence from constraints, the log, and queries where the log records no range."""

    def value_range(name: str, column: str) -> tuple[Any, Any]:
        table = pins.table(name)
        return recorded_range(table, column) or least_and_greatest(work, table, column)

    return Evidence(value_range, lambda name, column: declared_range(pins.table(name), column))


def prove_again(q: Rel, definition: SketchDefinition, pins: Pins) -> SketchDefinition:
    """The definition of a sketch over the present tables: still safe, or retired.

    Columns may have other types by now, or names in another case, but not another type where the
    tables are cut.
    """
    spelled = tuple(_as_spelled(p, pins.table(p.table)) for p in definition.partitions)
    definition = replace(definition, partitions=spelled)
    reads = reads_of(q, spelled)
    types_now = types_read(pins, reads)
    for p in definition.partitions:
        recorded = _without_case(definition.types.get(p.table, {}))
        present = _without_case(types_now[p.table])
        if present.get(p.column.lower()) != recorded.get(p.column.lower()):
            return replace(definition, retired="SCHEMA_CHANGED")
    definition = replace(definition, reads=reads, types=types_now)
    if not definition.watched:
        return definition
    work = pins.work(definition.settings)
    evidence = evidence_of(pins, work)
    why = unsafe(q, cuts_of(definition.partitions, evidence))
    if why is None:
        return replace(definition, watched=evidence.watched(), retired="")
    return replace(definition, retired=why.reason)


def cuts_of(partitions: Sequence[Partition], evidence: Evidence) -> Cuts:
    """The cuts of partitions, with the evidence of signs."""
    return Cuts({p.table: p.column for p in partitions}, nonnegative=evidence.nonnegative)


def columns_read(q: Rel) -> list[tuple[str, str, str]]:
    """The tables and columns that a plan reads, with their types."""
    columns = {
        (n.table, f.source, f.type): None for n in nodes(q) if isinstance(n, Scan) for f in n.fields
    }
    return list(columns)


def _as_spelled(partition: Partition, table: Table) -> Partition:
    """A partition by the column as its table spells it."""
    names = {name.lower(): name for name, _ in table.columns}
    return replace(partition, column=names.get(partition.column.lower(), partition.column))


def _without_case(types: Mapping[str, str]) -> dict[str, str]:
    return {column.lower(): kind for column, kind in types.items()}


def reads_of(q: Rel, partitions: Sequence[Partition]) -> dict[str, tuple[str, ...]]:
    """The columns that a sketch of a plan uses of each table."""
    reads: dict[str, dict[str, None]] = {t: {} for t in tables(q)}
    for table, column, _ in columns_read(q):
        reads[table][column] = None
    for p in partitions:
        reads[p.table][p.column] = None
    return {t: tuple(c) for t, c in reads.items()}
