"""The sample as rows: assembled from the stores, filtered by the plan's sample filters, projected.

With sample filters the reservoir is larger than the sample: by the observed share of results that pass. It
is enlarged whenever too few pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.scalars import every
from belvedere.synopses.estimate import estimates
from belvedere.synopses.estimate.values import true, value
from belvedere.synopses.graph.exact_counts import key_counts
from belvedere.synopses.sample.reservoir import Bernoulli
from belvedere.synopses.state import SynopsisState

MORE = 1.25
"""The reservoir is enlarged to so many times 1/f, so that it need not grow again at once."""
MOST_LARGER = 1000
"""The most times that a reservoir may be larger than its sample."""

FEW, TOGETHER = 256, 4096
"""Inserts of at most FEW rows are collected until there are TOGETHER rows, or the sample is read."""


class SampleResults:
    """The sample of a synopsis, for readers."""

    def __init__(self, keeper: SynopsisState, seed: int) -> None:
        self._maintained = keeper
        self._pending: dict[str, list[pa.Table]] = {}
        self._pending_rows = 0
        self._random = np.random.default_rng([seed, 1])
        self._rank = np.empty(0)
        self._passing: Any = None

    @property
    def maintained(self) -> SynopsisState:
        """The state, with everything applied."""
        if self._pending_rows:
            self._flush()
        return self._maintained

    def change(self, table: str, deletes: Any, inserts: Any) -> None:
        """Apply a batch, and enlarge the reservoir if too few results pass the filters."""
        self._passing = None
        few = inserts is not None and 0 < inserts.num_rows <= FEW
        if few and deletes is None and self._maintained.never_refuses(table):
            self._collect(table, self._maintained.store(table).conform(inserts))
            return
        self.maintained.change(table, deletes, inserts)
        if self._maintained.plan.sample_filters:
            self._top_up()

    def _collect(self, table: str, rows: pa.Table) -> None:
        """Collect small inserts, which are applied together before any other change: their order does not matter."""
        self._pending.setdefault(table, []).append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= TOGETHER:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending, self._pending_rows = self._pending, {}, 0
        for table, parts in pending.items():
            self._maintained.change(table, None, pa.concat_tables(parts))

    def arrow(self) -> pa.Table:
        """The sample's rows as the query shows them."""
        rows = self.gather(self.slots())
        types = self.maintained.plan.block.types
        outputs = self.maintained.plan.block.outputs
        return pa.table({name: value(scalar, rows, types).data for name, scalar in outputs})

    def slots(self) -> Any:
        """The results of the sample: those that pass the filters, at most as many as the sample has."""
        sample = self.maintained.sample
        held = sample.slots[: sample.filled]
        if not self.maintained.plan.sample_filters:
            return held
        passing = np.flatnonzero(self.passing())
        wanted = self.maintained.kind.rows
        if wanted is not None and len(passing) > wanted:
            # The choice is independent of the results, and the same at every read.
            if len(self._rank) < sample.filled:
                more = self._random.random(sample.filled - len(self._rank))
                self._rank = np.concatenate([self._rank, more])
            passing = passing[np.argsort(self._rank[passing], kind="stable")[:wanted]]
        return held[passing]

    def passing(self) -> Any:
        """Which results in the reservoir pass the sample filters."""
        if self._passing is None:
            sample = self.maintained.sample
            predicate = every(self.maintained.plan.sample_filters)
            rows = self.gather(sample.slots[: sample.filled], predicate.columns)
            self._passing = true(predicate, rows, self.maintained.plan.block.types)
        return self._passing

    def gather(self, results: Any, columns: frozenset[str] | None = None) -> pa.Table:
        """Join results as rows under the plan's names of their columns."""
        at: dict[int, Any] = {}
        for node in range(self.maintained.plan.tree.nodes):
            at |= self.maintained.rows_at(node, results[:, node])
        return self.maintained.gather(at, columns)

    def _top_up(self) -> None:
        """Enlarge the reservoir while too few results pass and there are more to draw."""
        keeper, sample = self.maintained, self.maintained.sample
        wanted = keeper.kind.rows
        if wanted is None or isinstance(sample, Bernoulli):
            return
        while sample.size < MOST_LARGER * wanted:
            passing = int(self.passing().sum())
            complete = not keeper.kind.replacement and sample.filled == keeper.size
            if passing >= wanted or complete or not keeper.size:
                return
            share = max(passing, 1) / max(sample.filled, 1)
            size = max(2 * sample.size if passing < 8 else 0, math.ceil(MORE * wanted / share))
            sample.enlarge(
                keeper.graph, min(max(size, sample.size + 1), MOST_LARGER * wanted), keeper.lost
            )
            self._passing = None

    @property
    def join_size(self) -> Any:
        """The number of rows of the join: exact, or an estimate if there are sample filters."""
        if not self.maintained.plan.sample_filters:
            return self.maintained.size
        return estimates.size(self._population())

    def estimate(
        self,
        what: str,
        where: str | None = None,
        group_by: str | None = None,
        confidence: float = 0.95,
    ) -> Any:
        """An aggregate over the join with an interval; by groups, a dictionary of them."""
        return estimates.estimate(self._population(), what, where, group_by, confidence)

    def histogram(self, what: str, buckets: int) -> estimates.Histogram:
        """An equi-depth histogram of an expression over the join."""
        return estimates.histogram(self._population(), what, buckets)

    def train_test(self, share: float) -> tuple[pa.Table, pa.Table]:
        """The sample as rows to train on and a share of it to test with."""
        return estimates.split(self.arrow(), share, self._random)

    def key_counts(self, column: str) -> pa.Table:
        """The exact number of join results for each value of a join key, from the weights."""
        return key_counts(self.maintained, column)

    def _population(self) -> estimates.Population:
        sample, block = self.maintained.sample, self.maintained.plan.block
        passing = (
            self.passing()
            if self.maintained.plan.sample_filters
            else np.ones(sample.filled, dtype=bool)
        )
        return estimates.Population(
            self.gather(sample.slots[: sample.filled]),
            block.types,
            dict(block.outputs),
            passing,
            self.maintained.size,
            self.maintained.kind.replacement,
            self.maintained.span,
        )
