"""A synopsis of a lake brought forward: from the change feed, or from the tables where that cannot be.

The state in memory is ahead of the saved one only within a call: whatever goes wrong, the next call begins with
what was saved. A synopsis over several tables of which only one is advanced is a sample of the join at
exactly that vector.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from belvedere.delta.lookups import stream_whole
from belvedere.delta.stamps import Position, Vector
from belvedere.delta.statistics import measured
from belvedere.errors import Invalid, Unsupported
from belvedere.execution.strategies import REASONS
from belvedere.joins.normal_form import JoinBlock
from belvedere.joins.selectivity import TableSizes, integer_bound
from belvedere.lake.pins import Pins
from belvedere.lake.records.saved_state import Corrupt
from belvedere.lake.tables import declared_keys as lake_keys
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.reasons import SYNOPSES
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN
from belvedere.synopses.graph.row_store import NO_SUCH_ROW
from belvedere.synopses.plan.planner import plan
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan, query_block
from belvedere.synopses.sample.on_spark import SparkSample, added, can_draw, draw, steps
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.saving import ARRAYS, from_arrays, to_arrays
from belvedere.synopses.state import Keeper
from belvedere.views.catalog import Names, as_not_read
from belvedere.views.definition import Columns

if TYPE_CHECKING:
    from belvedere.lake.records.saved_state import Saves
    from belvedere.lake.spark_lake import SparkLake

SAVED_AS = "synopsis"
MEMORY = "BELVEDERE_SYNOPSIS_BYTES"
"""The variable that limits what a synopsis may take; without it, half of the machine's memory."""
_PIECE, _PART, _MANY = 1 << 18, 1 << 21, 1 << 26
"""Rows of a batch, rows that Spark hands over at once, and rows of a table of which nothing is known."""
_PER_ROW = 48
"""Bytes that the graph takes for a row, about, besides the row's own columns."""

MORE_REASONS = {
    **REASONS,
    **{code: SYNOPSES[code].sentence for code in ("CORRUPT_STATE", "DRAWN", "OTHER_FORMAT")},
}


@dataclass(frozen=True)
class Definition:
    """What a synopsis is of."""

    shown: str
    query: str
    kind: SampleKind
    seed: int
    keys: Mapping[str, Sequence[str]]
    """The keys of tables that its joins are collapsed by."""
    reads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The tables with the columns that it uses, and their types."""
    sources: Mapping[str, Columns] = field(default_factory=dict)
    """All columns that the tables had: what `SELECT *` means."""
    known: TableSizes = field(default_factory=TableSizes)
    """What was known of the tables, for their sizes say where a cycle is cut."""

    def record(self) -> dict[str, Any]:
        """In JSON's types."""
        return {
            "shown": self.shown,
            "query": self.query,
            "sample": [self.kind.rows, self.kind.rate, self.kind.replacement],
            "seed": self.seed,
            "keys": {t: list(columns) for t, columns in self.keys.items()},
            "reads": {t: dict(columns) for t, columns in self.reads.items()},
            "sources": {t: [list(c) for c in columns] for t, columns in self.sources.items()},
            "known": self.known.record(),
            "arrays": ARRAYS,
        }

    @staticmethod
    def of(record: Mapping[str, Any]) -> Definition:
        """The definition of such a record."""
        return Definition(
            record["shown"], record["query"], SampleKind(*record["sample"]), record["seed"],
            record["keys"], record["reads"],
            {t: tuple((n, k) for n, k in columns) for t, columns in record["sources"].items()},
            TableSizes.of(record.get("known")),
        )  # fmt: skip


@dataclass
class Live:
    """A synopsis in memory, at a vector."""

    definition: Definition
    results: SampleResults | SparkSample
    vector: Vector


@dataclass(frozen=True)
class Brought:
    """What a refresh did."""

    name: str
    strategy: str
    reason: str
    rows_changed: int | None
    seconds: float
    vector: Mapping[str, int]

    def __str__(self) -> str:
        why = f" ({self.reason}: {MORE_REASONS.get(self.reason, '')})" if self.reason else ""
        rows = "" if self.rows_changed is None else f", {self.rows_changed} rows changed"
        return f"{self.name}: {self.strategy}{why}{rows}, {self.seconds:.2f} s"


def declared(
    door: SparkLake, shown: str, query: str, kind: SampleKind, lead: str
) -> tuple[Definition, SynopsisPlan]:
    """The definition that a statement makes, checked; nothing is built."""
    names = Names(door)
    with as_not_read(door, query):
        found = query_block(lead + query, names)
    keys = _keys(door, found)
    known = _known(door, found)
    planned = plan(found, {t: [columns] for t, columns in keys.items()}, sizes=known)
    reads: dict[str, dict[str, str]] = {}
    for position in found.positions:
        reads.setdefault(position.table, {}).update({f.source: f.type for f in position.fields})
    for table, columns in reads.items():
        _refuse_types(table, columns)
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    return Definition(shown, query, kind, seed, keys, reads, dict(names.seen), known), planned


def _known(door: SparkLake, found: JoinBlock) -> TableSizes:
    """What the logs say of the columns that are read."""
    rows: dict[str, int] = {}
    bounds: dict[tuple[str, str], tuple[int, int]] = {}
    for position in found.positions:
        table = position.table
        seen = measured(door.table(table))
        if seen is not None:
            rows[table] = seen.rows
            for f in position.fields:
                if f.source in seen.bounds:
                    low, high = seen.bounds[f.source]
                    bounds[table, f.source] = integer_bound(low), integer_bound(high)
    return TableSizes(rows, bounds)


def planned_of(door: Any, definition: Definition) -> SynopsisPlan:
    """The plan of a definition as it was made."""
    keys = {t: [columns] for t, columns in definition.keys.items()}
    return plan(_block(door, definition), keys, sizes=definition.known)


def plain_plan(door: Any, definition: Definition) -> SynopsisPlan:
    """The plan that collapses nothing: Spark draws from it."""
    return plan(_block(door, definition), {}, collapse=False, sizes=definition.known)


def _block(door: Any, definition: Definition) -> JoinBlock:
    return query_block(definition.query, Names(door, recorded=definition.sources))


def _keys(door: SparkLake, found: JoinBlock) -> dict[str, Sequence[str]]:
    keys = {p.table: lake_keys.key_of(door.table(p.table)) for p in found.positions}
    return {t: k for t, k in keys.items() if k is not None}


def _refuse_types(table: str, columns: Mapping[str, str]) -> None:
    for column, kind in columns.items():
        try:
            kinds.arrow(kind)
        except Declined:
            raise Unsupported(
                f"column {column!r} of {table!r}, of type {kind}, in a synopsis",
                hint="select the columns you need, without this one",
                reason="TYPE",
            ) from None


class Bringer:
    """Brings one synopsis forward, in one call."""

    def __init__(self, door: SparkLake, saves: Saves, name: str, pins: Pins) -> None:
        self.door, self.saves, self.name, self.pins = door, saves, name, pins
        self.started = time.perf_counter()

    def create(self, definition: Definition, planned: SynopsisPlan) -> Live:
        """Build a synopsis for the first time and save it."""
        vector = {t: self.pins.table(t).position for t in definition.reads}
        live = self._built(definition, planned, vector)
        self.save(live)
        return live

    def bring(
        self, live: Live | None, only: Sequence[str] | None, *, full: bool
    ) -> tuple[Live, Brought]:
        """Bring it to the newest versions of its tables, or of some of them."""
        head = self.saves.head(SAVED_AS, self.name)
        definition = Definition.of(head.definition)
        moving = [t for t in definition.reads if only is None or t in only]
        target = {
            t: self.pins.table(t).position if t in moving else head.vector[t]
            for t in definition.reads
        }
        reason = "REQUESTED" if full else self._problem(definition, head.vector, target)
        if not reason and (live is None or live.vector != head.vector):
            try:
                live = load(self.door, self.saves, self.name)
            except Corrupt as corrupt:
                reason = corrupt.reason
        if reason or live is None:
            return self._rebuilt(definition, target, reason)
        if isinstance(live.results, SampleResults):
            try:
                changed = self._advance(live, target)
            except Invalid as refused:
                if refused.reason != NO_SUCH_ROW:
                    raise
                return self._rebuilt(definition, target, "STATE_MISMATCH")
        else:
            grown = self._added(live.results, live, target) if target != head.vector else 0
            if grown is None:
                return self._rebuilt(definition, target, "DRAWN")
            changed = grown
        if target != head.vector:
            live.vector = target
            self.save(live)
        how = "from the changes" if changed else "nothing to do"
        return live, self._done(how, "", changed, target)

    def _problem(self, definition: Definition, known: Vector, target: Vector) -> str:
        """Why changes cannot be used; empty if they can."""
        for table, position in known.items():
            if target[table] == position:
                continue
            now, columns = self.pins.table(table), definition.reads[table]
            if now.id == position.id and self.door.put_back(now, position):
                return "VERSION_BEHIND"
            problem = self.door.feed_problem(now, position, now.version, columns)
            if problem:
                return problem
        return ""

    def _rebuilt(self, definition: Definition, target: Vector, reason: str) -> tuple[Live, Brought]:
        again, planned = declared(
            self.door, definition.shown, definition.query, definition.kind, ""
        )
        live = self._built(again, planned, target)
        self.save(live)
        return live, self._done("rebuild", reason, None, target)

    def _built(self, definition: Definition, planned: SynopsisPlan, vector: Vector) -> Live:
        if not self._fits(definition):
            return Live(definition, self._drawn(definition, vector), vector)
        results = SampleResults(
            Keeper(planned, definition.kind, seed=definition.seed), definition.seed
        )
        for table in _parents_first(planned):
            for rows in self._whole(table, vector[table], definition.reads[table]):
                results.change(table, None, rows)
        return Live(definition, results, vector)

    def _drawn(self, definition: Definition, vector: Vector) -> SparkSample:
        """The sample alone, by Spark."""
        plain = plain_plan(self.door, definition)
        work = self.pins.work({})
        opened = {t: self.pins.opened(work, t, p.version) for t, p in vector.items()}
        return draw(work, opened, plain, definition.kind, definition.seed)

    def _fits(self, definition: Definition) -> bool:
        """Whether tables and graph fit into memory; refused, with the arithmetic, if Spark cannot help."""
        limit = int(os.environ.get(MEMORY, 0)) or _half_of_memory()
        needed, told = 0, []
        for table, columns in definition.reads.items():
            measured = self.pins.measured(table)
            rows = int(measured.rows) if measured is not None else 0
            width = _PER_ROW + sum(map(_width, columns.values()))
            needed += rows * width
            told.append(f"{table} {rows} × {width}")
        if needed <= limit:
            return True
        if not can_draw(plain_plan(self.door, definition)):
            raise Unsupported(
                f"a synopsis of about {needed / 1e9:.1f} GB, where {limit / 1e9:.1f} GB may be used",
                detail=f"rows × bytes: {', '.join(told)}",
                hint=f"select fewer columns, or raise {MEMORY}",
                reason="MEMORY",
            )
        return False

    def _whole(
        self, table: str, position: Position, columns: Mapping[str, str]
    ) -> Iterator[pa.Table]:
        """All rows of a table at a version, piece by piece: no more than a piece is held beside the state."""
        names = tuple(columns)
        parts = stream_whole(self.pins.table(table), position.version, names)
        if parts is None:
            work = self.pins.work({})
            opened = self.pins.opened(work, table, position.version)
            listed = ", ".join(map(quote, names))
            seen = self.pins.measured(table)
            count = 1 + (seen.rows if seen is not None else _MANY) // _PART
            parts = work.pieces(f"SELECT {listed} FROM {quote(opened)}", count)
        for rows in parts:
            for start in range(0, rows.num_rows, _PIECE):
                yield rows.slice(start, _PIECE)

    def _advance(self, live: Live, target: Vector) -> int:
        """Apply the changes of the tables whose versions move; how many rows these were."""
        total = 0
        for table, position in target.items():
            old = live.vector[table]
            if old == position:
                continue
            columns = list(live.definition.reads[table])
            work = self.pins.work({})
            net = self.pins.changes(work, table, old.version, position.version, columns)
            held = net.held
            if held is None and net.rows != 0:
                listed = ", ".join(map(quote, [*columns, SIGN]))
                held = work.query(f"SELECT {listed} FROM {quote(net.view())}").toArrow()
            if held is not None and held.num_rows:
                assert isinstance(live.results, SampleResults)
                total += self._apply(live.results, table, held, columns)
        return total

    def _added(self, drawn: SparkSample, live: Live, target: Vector) -> int | None:
        """Draw from what new rows made; how many rows these were, or None where only drawing anew will do."""
        work, came, total = self.pins.work({}), dict[str, str](), 0
        moved = [t for t in target if target[t] != live.vector[t]]
        for table in moved:
            columns = list(live.definition.reads[table])
            versions = live.vector[table].version, target[table].version
            net = self.pins.changes(work, table, *versions, columns)
            held = net.held
            if held is None and net.rows != 0:
                return None
            if held is not None and held.num_rows:
                counts = held[SIGN].to_numpy().astype(np.int64)
                if (counts < 0).any():
                    return None
                each = held.select(columns).take(
                    pa.array(np.repeat(np.arange(len(counts)), counts))
                )
                came[table] = work.register(f"came_{table}", work.spark.createDataFrame(each))
                total += each.num_rows
        if came:
            old = {t: self.pins.opened(work, t, p.version) for t, p in live.vector.items()}
            new = {t: self.pins.opened(work, t, target[t].version) for t in came}
            found = steps([p.table for p in drawn.plan.block.positions], old, new, came)
            random = np.random.default_rng([drawn.seed, *(p.version for p in target.values())])
            again = added(work, drawn, found, random)
            if again is None:
                return None
            live.results = again
        return total

    def _apply(self, results: SampleResults, table: str, held: pa.Table, columns: list[str]) -> int:
        counts = held[SIGN].to_numpy().astype(np.int64)
        rows = held.select(columns)
        each = np.repeat(np.arange(len(counts)), np.abs(counts))
        signs = np.sign(counts)[each]
        gone, new = (rows.take(pa.array(each[signs == sign])) for sign in (-1, 1))
        results.change(table, gone, new)
        return len(each)

    def save(self, live: Live) -> None:
        """Put the state beside the lake, with its vector."""
        record = live.definition.record()
        if isinstance(live.results, SparkSample):
            record |= {"drawn": True, "size": str(live.results.size)}
            arrays = {"rows": _written(live.results.rows)}
        else:
            arrays = to_arrays(live.results.keeper)
        self.saves.save(SAVED_AS, self.name, record, live.vector, arrays)

    def _done(self, how: str, reason: str, changed: int | None, vector: Vector) -> Brought:
        seconds = time.perf_counter() - self.started
        versions = {t: p.version for t, p in vector.items()}
        return Brought(self.name, how, reason, changed, seconds, versions)


def load(lake: Any, saves: Saves, name: str) -> Live:
    """A synopsis as it was saved."""
    saved = saves.load(SAVED_AS, name)
    if saved.head.definition.get("arrays") != ARRAYS:
        raise Corrupt(
            f"the arrays of synopsis {name!r} are those of another version",
            hint="it is built again from the tables",
            reason="OTHER_FORMAT",
        )
    definition = Definition.of(saved.head.definition)
    if saved.head.definition.get("drawn"):
        plain = plain_plan(lake, definition)
        rows = pa.ipc.open_stream(pa.py_buffer(saved.arrays["rows"])).read_all()
        size = int(saved.head.definition["size"])
        drawn = SparkSample(plain, definition.kind, rows, size, definition.seed)
        return Live(definition, drawn, dict(saved.head.vector))
    keeper = Keeper(planned_of(lake, definition), definition.kind, seed=definition.seed)
    results = SampleResults(from_arrays(keeper, saved.arrays), definition.seed)
    return Live(definition, results, dict(saved.head.vector))


def _written(rows: pa.Table) -> Any:
    """Rows as Arrow writes them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def _parents_first(planned: SynopsisPlan) -> list[str]:
    """The tables of a plan, those that others refer to first, so that few rows wait."""
    tables = list(dict.fromkeys(p.table for p in planned.block.positions))
    depth = dict.fromkeys(tables, 0)
    for reference in planned.references:
        table = planned.block.positions[reference.parent].table
        depth[table] = max(depth[table], 1)
    return sorted(tables, key=lambda t: -depth[t])


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _width(kind: str) -> int:
    arrow = kinds.arrow(kind)
    return 24 if kind in ("string", "binary") else max(1, arrow.bit_width // 8)
