"""The figures of one join query of TPC-H: errors, times, sizes, AUTO against brute force."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.checks import CheckMode, UpdateChecker
from belvedere.updating.summary.filter import UpdateFilter, build_filter
from belvedere.updating.summary.roots import choose_root, root_by_keys
from belvedere.updating.translate.constraints import BaseRow, TableRules
from benchmarks.updating.baselines import FullPropagation, everything
from benchmarks.updating.curves import as_defined, both
from benchmarks.updating.insertions import Row, has_side_effects, labelled, timed
from benchmarks.updating.sampled_tpch import COLUMNS, KEYS, SHARE, Tpch, shape_of

CYCLIC = "q05 cyclic"
MOST, TRAINING = 250_000, 4_000
"""Rows of a view's largest table that are drawn at most; insertions that a root is chosen by at most."""
Sample = Sequence[tuple[Row, bool]]


class DuckSource:
    """Rows of the sampled tables by value."""

    def __init__(self, tpch: Tpch) -> None:
        self.connection = tpch.connection

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        condition = " AND ".join(f"{c} = {v}" for c, v in equal.items()) or "true"
        text = f"SELECT * FROM {table} WHERE {condition}"
        found: list[BaseRow] = self.connection.execute(text).to_arrow_table().to_pylist()
        return found

    def largest(self, table: str, column: str) -> int:
        text = f"SELECT coalesce(max({column}), 0) FROM {table}"
        return int(self.connection.execute(text).fetchall()[0][0])

    def first(self, table: str, column: str, most: int) -> list[Any]:
        text = f"SELECT DISTINCT {column} FROM {table} LIMIT {most}"
        return [value for (value,) in self.connection.execute(text).fetchall()]


@dataclass
class Figures:
    """What was found for one query."""

    name: str
    root: int = 0
    insertions: int = 0
    positives: int = 0
    drawn: int = 0
    """Rows of the view of the whole data that were looked at until so many were found."""
    drawn_from: int = 0
    """The rows of its largest table."""
    fp: float = 0.0
    fn: float = 0.0
    check_ms: float = 0.0
    full_ms: float = 0.0
    indexed_ms: float = 0.0
    eds_ms: float = 0.0
    summary: float = 0.0
    plain_fp: float = 0.0
    """Without candidates, as the next three."""
    plain_fn: float = 0.0
    plain_ms: float = 0.0
    plain_summary: float = 0.0
    defined_fp: float = 0.0
    """With candidates, but the classes of Def. 5.5."""
    defined_fn: float = 0.0
    build_s: float = 0.0
    maintain_ms: float = 0.0
    maintain_first_ms: float = 0.0
    changes: int = 0
    auto_wrong: int = 0
    auto_tried: int = 0

    @property
    def maintain_ratio(self) -> float | None:
        """How much faster than building a batch of changes is."""
        return self.build_s * 1000 / self.maintain_ms if self.maintain_ms else None


def measured(tpch: Tpch, name: str, each: int, tried: int) -> tuple[Figures, UpdateFilter, Sample]:
    """All figures of one query."""
    shape = shape_of(name)
    tables = tpch.tables(shape)
    began = time.process_time()
    made = build_filter(shape, tables, KEYS, root=0, share=SHARE)
    figures = Figures(name, build_s=time.process_time() - began)
    rows = tpch.insertions(name, MOST, 1)
    training, _ = labelled(made, islice(rows, TRAINING), 100)
    roots = sorted({0, root_by_keys(shape, KEYS), len(shape.positions) - 1})
    chosen = choose_root(roots, lambda r: made if r == 0 else made.with_root(r, SHARE), training)
    made = made if chosen.root == 0 else made.with_root(chosen.root, SHARE)
    figures.root = chosen.root
    sample, figures.drawn = labelled(made, rows, each)
    figures.drawn_from = tpch.driving(name)
    figures.fp, figures.fn = both(made, sample)
    figures.insertions, figures.positives = len(sample), sum(real for _, real in sample)
    random.Random(3).shuffle(sample)
    plain = [row for row, _ in sample]
    figures.check_ms = timed(lambda row: made.estimate(made.segments(row)), plain)
    full, all_rows = FullPropagation(made), everything(made)
    figures.full_ms = timed(lambda row: full.estimate(made.segments(row)), plain[:20])
    figures.eds_ms = timed(lambda row: all_rows.estimate(made.segments(row)), plain[:5])
    figures.indexed_ms = timed(lambda row: has_side_effects(made, row), plain[:200])
    size = sum(t.nbytes for t in tables.values())
    figures.summary = made.summary.bytes / size
    figures.defined_fp, figures.defined_fn = as_defined(made, lambda: both(made, sample))
    made.choose_candidates(0.0)
    figures.plain_fp, figures.plain_fn = both(made, sample)
    figures.plain_ms = timed(lambda row: made.estimate(made.segments(row)), plain)
    figures.plain_summary = made.summary.bytes / size
    made.choose_candidates(SHARE)
    figures.auto_tried, figures.auto_wrong = against_brute_force(tpch, made, name, sample[:tried])
    return figures, made, sample


def checker_of(tpch: Tpch, made: UpdateFilter) -> UpdateChecker:
    """Checks of a view of the sampled tables, with their keys."""
    rules = {t: TableRules(dict.fromkeys(COLUMNS[t], "bigint"), KEYS[t]) for t in made.shape.tables}
    return UpdateChecker(made, rules, DuckSource(tpch))


def against_brute_force(
    tpch: Tpch, made: UpdateFilter, name: str, sample: Sequence[tuple[Row, bool]]
) -> tuple[int, int]:
    """AUTO's answers against the view computed with and without the new rows."""
    checker = checker_of(tpch, made)
    before, wrong = tpch.count(name), 0
    for row, _ in sample:
        new: dict[str, list[tuple[Any, ...]]] = {}
        coder = Coder(made.base)
        for p, segment in enumerate(made.segments(row, coder)):
            if segment.number is None:
                table = made.shape.positions[p].table
                known = coder.shown_values(p, ViewRow(row))
                new.setdefault(table, []).append(tuple(known[c] for c in COLUMNS[table]))
        real = tpch.count(name, new) - before > 1
        answer = checker.check([], [ViewRow(row)], CheckMode.AUTO).possible
        wrong += answer != ("no" if real else "yes")
    return len(sample), wrong
