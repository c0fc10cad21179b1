"""A synopsis built from its tables: read into memory, or drawn by Spark where they do not fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pyarrow as pa

from belvedere.delta.lookups import stream_whole
from belvedere.delta.stamps import Position, Vector
from belvedere.errors import Unsupported
from belvedere.lake.offline import ReadableLake
from belvedere.lake.pins import Pins
from belvedere.memory import kinds
from belvedere.sql.names import quote
from belvedere.synopses.definition import SynopsisDefinition, plain_plan
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan
from belvedere.synopses.sample.on_spark import SparkSample, can_draw, draw
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.state import SynopsisState

MEMORY = "BELVEDERE_SYNOPSIS_BYTES"
"""The variable that limits what a synopsis may take; without it, half of the machine's memory."""
_PIECE, _PART, _MANY = 1 << 18, 1 << 21, 1 << 26
"""Rows of a batch, rows that Spark hands over at once, and rows of a table of which nothing is known."""
_PER_ROW = 48
"""Bytes that the graph takes for a row, about, besides the row's own columns."""


def build_sample(
    lake: ReadableLake,
    pins: Pins,
    definition: SynopsisDefinition,
    planned: SynopsisPlan,
    vector: Vector,
) -> SampleResults | SparkSample:
    """The sample of a join at a vector, with what is needed to keep it; without that, too large a join."""
    if not _fits(lake, pins, definition):
        return _drawn(lake, pins, definition, vector)
    results = SampleResults(
        SynopsisState(planned, definition.kind, seed=definition.seed), definition.seed
    )
    for table in _parents_first(planned):
        for rows in _all_rows(pins, table, vector[table], definition.reads[table]):
            results.change(table, None, rows)
    return results


def _drawn(
    lake: ReadableLake, pins: Pins, definition: SynopsisDefinition, vector: Vector
) -> SparkSample:
    """The sample alone, by Spark."""
    plain = plain_plan(lake, definition)
    work = pins.work({})
    opened = {t: pins.opened(work, t, p.version) for t, p in vector.items()}
    return draw(work, opened, plain, definition.kind, definition.seed)


def _fits(lake: ReadableLake, pins: Pins, definition: SynopsisDefinition) -> bool:
    """Whether tables and graph fit into memory; refused, with the arithmetic, if Spark cannot help."""
    limit = int(os.environ.get(MEMORY, 0)) or _half_of_memory()
    needed, factors = 0, []
    for table, columns in definition.reads.items():
        measured = pins.measured(table)
        rows = int(measured.rows) if measured is not None else 0
        width = _PER_ROW + sum(map(_width, columns.values()))
        needed += rows * width
        factors.append(f"{table} {rows} × {width}")
    if needed <= limit:
        return True
    if not can_draw(plain_plan(lake, definition)):
        raise Unsupported(
            f"a synopsis of about {needed / 1e9:.1f} GB, where {limit / 1e9:.1f} GB may be used",
            detail=f"rows × bytes: {', '.join(factors)}",
            hint=f"select fewer columns, or raise {MEMORY}",
            reason="MEMORY",
        )
    return False


def _all_rows(
    pins: Pins, table: str, position: Position, columns: Mapping[str, str]
) -> Iterator[pa.Table]:
    """All rows of a table at a version, piece by piece: no more than a piece is held beside the state."""
    names = tuple(columns)
    parts = stream_whole(pins.table(table), position.version, names)
    if parts is None:
        work = pins.work({})
        opened = pins.opened(work, table, position.version)
        listed = ", ".join(map(quote, names))
        seen = pins.measured(table)
        count = 1 + (seen.rows if seen is not None else _MANY) // _PART
        parts = work.pieces(f"SELECT {listed} FROM {quote(opened)}", count)
    for rows in parts:
        for start in range(0, rows.num_rows, _PIECE):
            yield rows.slice(start, _PIECE)


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
