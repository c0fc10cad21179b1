"""The changes that a refresh of a view applies, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import pyarrow as pa

from belvedere.analyses.sizes import Statistics
from belvedere.delta.change_sizes import change_passes, changed_at_most
from belvedere.derivations.protocol import AdvanceStep
from belvedere.execution.sources import Versions
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.change_feed import Changes
from belvedere.rules.outward import SMALL
from belvedere.views.definition import View

# The sizes of small changes are known before a query runs. Adaptive execution would list every
# file again for each stage.
_SMALL_CHANGES = {"spark.sql.adaptive.enabled": "false"}


@dataclass(frozen=True)
class PendingChanges:
    """The changes of a view's tables in one advance."""

    lake: SparkLake
    view: View
    step: AdvanceStep
    work: Workspace
    moving: tuple[str, ...]
    """The tables whose net change has rows."""
    changes: Mapping[str, Changes]
    at_most: Mapping[str, float]
    """How many rows of each table changed at most, as its log counts them."""

    @property
    def inserts_only(self) -> bool:
        """Whether it is known that rows were only added."""
        return all(self.changes[t].inserts_only is True for t in self.moving)

    @cached_property
    def in_memory(self) -> dict[str, pa.Table]:
        """The changes that are in memory."""
        held = ((t, self.changes[t].held) for t in self.moving)
        return {t: rows for t, rows in held if rows is not None}

    @cached_property
    def statistics(self) -> Statistics:
        """The sizes of the view's tables and of their changes."""
        pins, counts = self.step.pins, {t: self.changes[t].rows for t in self.moving}
        changed = {t: self.at_most[t] if n is None else float(n) for t, n in counts.items()}
        read = {t: self.changes[t] for t in self.moving}
        known = pins.statistics(self.view.tables, changed, read)
        by_spark = [t for t, n in counts.items() if n is None and t in known.rows]
        passes = {t: change_passes(pins.table(t), *self.step.versions(t)) or 0 for t in by_spark}
        return replace(known, passed={t: n * known.rows[t] for t, n in passes.items()})

    @cached_property
    def versions(self) -> Versions:
        """The tables in both states, and the changes between."""
        step = self.step
        # A table without a net change is read at its new version, which is still there.
        same = {t: step.target[t] for t in self.changes if t not in self.moving}
        return Versions(
            step.pins,
            self.work,
            {t: p.version for t, p in {**step.before, **same}.items()},
            {t: p.version for t, p in step.target.items()},
            {t: self.changes[t].view for t in self.moving},
            step.meter.opened,
        )


def read_changes(lake: SparkLake, view: View, step: AdvanceStep) -> PendingChanges:
    """The net changes of the tables that a view reads itself, between the states of a step."""
    pins, candidates = step.pins, [t for t in view.tables if t in step.moving]
    counts = {t: changed_at_most(pins.table(t), *step.versions(t)) for t in candidates}
    at_most = {t: inf if rows is None else float(rows) for t, rows in counts.items()}
    small = all(rows <= SMALL for rows in at_most.values())
    work = pins.work({**view.definition.settings, **(_SMALL_CHANGES if small else {})})
    changes = {t: pins.changes(work, t, *step.versions(t), list(view.used(t))) for t in candidates}
    moving = tuple(t for t in candidates if changes[t].rows != 0)
    return PendingChanges(lake, view, step, work, moving, changes, at_most)
