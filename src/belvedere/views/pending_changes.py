"""The changes that a refresh of a view applies, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import pyarrow as pa

from belvedere.analyses.sizes import Statistics
from belvedere.delta.change_sizes import change_passes, changed_at_most
from belvedere.delta.stamps import Vector
from belvedere.derivations.meter import Meter
from belvedere.execution.records import RanStep
from belvedere.execution.sources import Versions
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.change_feed import Changes
from belvedere.rules.outward import SMALL
from belvedere.views.definition import View

# The sizes of small changes are known before a query runs. Adaptive execution would list every
# file again for each stage.
_SMALL_CHANGES = {"spark.sql.adaptive.enabled": "false"}


@dataclass(frozen=True)
class ViewStep:
    """A view, the state that its rows have, and the state that they are to have."""

    lake: SparkLake
    pins: Pins
    view: View
    before: Vector
    target: Vector
    moving: tuple[str, ...]
    """The tables whose versions differ between the two."""
    holding: frozenset[str]
    """The foreign keys that held before."""
    meter: Meter
    ran: list[RanStep] = field(default_factory=list)
    """What ran, in order."""
    notes: list[str] = field(default_factory=list)

    def versions(self, table: str) -> tuple[int, int]:
        """The versions of a table between which it moves."""
        return self.before[table].version, self.target[table].version


@dataclass(frozen=True)
class PendingChanges:
    """The changes of the tables that have any."""

    step: ViewStep
    work: Workspace
    moving: tuple[str, ...]
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
        known = pins.statistics(self.step.view.tables, changed, read)
        by_spark = [t for t, n in counts.items() if n is None and t in known.rows]
        passes = {t: change_passes(pins.table(t), *self.step.versions(t)) or 0 for t in by_spark}
        return replace(known, passed={t: n * known.rows[t] for t, n in passes.items()})

    @cached_property
    def versions(self) -> Versions:
        """The tables in both states, and the changes between."""
        step = self.step
        # A table without a net change is read at its new version, which is still there.
        same = {t: step.target[t] for t in step.moving if t not in self.moving}
        return Versions(
            step.pins,
            self.work,
            {t: p.version for t, p in {**step.before, **same}.items()},
            {t: p.version for t, p in step.target.items()},
            {t: self.changes[t].view for t in self.moving},
            step.meter.opened,
        )


def read_changes(step: ViewStep) -> PendingChanges:
    """The net changes between the two states of a step."""
    pins, view = step.pins, step.view
    counts = {t: changed_at_most(pins.table(t), *step.versions(t)) for t in step.moving}
    at_most = {t: inf if rows is None else float(rows) for t, rows in counts.items()}
    small = all(rows <= SMALL for rows in at_most.values())
    work = pins.work({**view.definition.settings, **(_SMALL_CHANGES if small else {})})
    changes = {t: pins.changes(work, t, *step.versions(t), list(view.used(t))) for t in step.moving}
    moving = tuple(t for t in step.moving if changes[t].rows != 0)
    return PendingChanges(step, work, moving, changes, at_most)
