"""The changes of tables applied to a synopsis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from belvedere.derivations.protocol import AdvanceStep
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN
from belvedere.synopses.sample.on_spark import SparkSample, delta_terms, draw_inserted
from belvedere.synopses.sample.results import SampleResults

Reads = Mapping[str, Mapping[str, str]]


def apply_changes(results: SampleResults, step: AdvanceStep, reads: Reads) -> int:
    """Apply the changes of all tables that move, in place; the number of changed rows."""
    total = 0
    for table in step.moving:
        columns = list(reads[table])
        work = step.pins.work({})
        old, new = step.versions(table)
        net = step.pins.changes(work, table, old, new, columns)
        rows = net.held
        if rows is None and net.rows != 0:
            listed = ", ".join(map(quote, [*columns, SIGN]))
            rows = work.query(f"SELECT {listed} FROM {quote(net.view())}").toArrow()
        if rows is not None and rows.num_rows:
            total += _apply(results, table, rows, columns)
    return total


def draw_from_inserts(
    drawn: SparkSample, step: AdvanceStep, reads: Reads
) -> tuple[SparkSample, int] | None:
    """The sample with the results that inserted rows made, and how many rows these were.

    None if rows went, or if there are too many: the sample is then drawn anew.
    """
    work, inserted, total = step.pins.work({}), dict[str, str](), 0
    for table in step.moving:
        columns = list(reads[table])
        net = step.pins.changes(work, table, *step.versions(table), columns)
        rows = net.held
        if rows is None and net.rows != 0:
            return None
        if rows is not None and rows.num_rows:
            counts = rows[SIGN].to_numpy().astype(np.int64)
            if (counts < 0).any():
                return None
            each = rows.select(columns).take(pa.array(np.repeat(np.arange(len(counts)), counts)))
            frame = work.spark.createDataFrame(each)
            inserted[table] = work.register(f"came_{table}", frame)
            total += each.num_rows
    if not inserted:
        return drawn, total
    old = {t: step.pins.opened(work, t, p.version) for t, p in step.before.items()}
    new = {t: step.pins.opened(work, t, step.target[t].version) for t in inserted}
    terms = delta_terms([p.table for p in drawn.plan.block.positions], old, new, inserted)
    random = np.random.default_rng([drawn.seed, *(p.version for p in step.target.values())])
    grown = draw_inserted(work, drawn, terms, random)
    return None if grown is None else (grown, total)


def _apply(results: SampleResults, table: str, change: pa.Table, columns: list[str]) -> int:
    counts = change[SIGN].to_numpy().astype(np.int64)
    rows = change.select(columns)
    each = np.repeat(np.arange(len(counts)), np.abs(counts))
    signs = np.sign(counts)[each]
    deleted, inserted = (rows.take(pa.array(each[signs == sign])) for sign in (-1, 1))
    results.change(table, deleted, inserted)
    return len(each)
