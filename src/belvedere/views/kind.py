"""Views as a kind of derivation: how their rows are built, changed and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from belvedere.delta.history import Event
from belvedere.delta.stamps import Stamp, Vector
from belvedere.derivations.history import BEHIND, note
from belvedere.derivations.ledger import VIEW
from belvedere.derivations.protocol import (
    AdvanceStep,
    Inner,
    Loaded,
    Rebuild,
    StateWrite,
    Traits,
)
from belvedere.errors import Invalid
from belvedere.execution.costs import CostHistory, candidate
from belvedere.execution.records import RanStep
from belvedere.execution.sources import Versions
from belvedere.execution.strategies import Strategy
from belvedere.lake.pins import Pins
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.sql.binder.char_columns import char_length
from belvedere.views.catalog import the_view
from belvedere.views.catalog_views import show
from belvedere.views.definition import View
from belvedere.views.drop import drop_view
from belvedere.views.incremental.apply import apply
from belvedere.views.maintenance import most_selective_key, rebuild_work, stored_rows_query
from belvedere.views.references import holding_references
from belvedere.views.retype import retyped
from belvedere.views.state import ROW, physical

ViewCommit: TypeAlias = Callable[[Stamp], int | None]
"""Writes rows in one commit that carries a stamp; returns how many changed, if it knows."""


class StoredTables:
    """The store of views: a Delta table for each, whose commits carry the vector."""

    def __init__(self, lake: SparkLake) -> None:
        self._lake = lake
        self._parts: dict[str, View] = {}

    def exclusive(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Commits are fenced: of two advances that read one vector, the second begins again."""
        return nullcontext()

    def remember(self, part: View) -> None:
        """Know a part of a view by its name."""
        self._parts[part.name] = part

    def load(self, name: str, pins: Pins) -> Loaded[View, ViewCommit]:
        """The view, and the vector in force of its stored table."""
        view = self._parts.get(name) or the_view(self._lake, name)
        self._refuse_lost_part(view)
        pins.forget(view.stored)
        found = commits.read_stamp(self._lake, view.stored)
        stamp = found.stamp
        if stamp is None:
            return Loaded(view, None, {}, found.next, reason=found.reason or "")
        reason = found.reason or _redefined(view, stamp, pins)
        return Loaded(view, None, stamp.vector, found.next, stamp.holding, reason)

    def commit(
        self,
        name: str,  # noqa: ARG002
        write: StateWrite[View, ViewCommit],
        step: AdvanceStep,
    ) -> int | None:
        """Write the rows and the vector in one commit."""
        view = write.definition
        how = note(write.how, write.reason, step.meter.began)
        newest = {t: step.pins.table(t) for t in view.inputs}
        at = {t: (p.id, p.version) for t, p in step.target.items()}
        behind = [t for t, table in newest.items() if at[t] != (table.id, table.version)]
        if behind:
            how[BEHIND] = ", ".join(behind)
        vector = dict(step.target)
        stamp = Stamp(view.definition.id, step.number, vector, how, write.holding)
        rows = write.state(stamp)
        step.pins.forget(view.stored)
        return rows

    def event(self, write: StateWrite[View, ViewCommit], step: AdvanceStep) -> Event | None:
        """The commit of a step in the log of the stored table."""
        view = write.definition
        stored = step.pins.table(view.stored)
        return commits.event_of(self._lake, stored, view.definition.id, step.number)

    def forget(self, name: str) -> None:
        """Nothing is kept in memory."""

    def drop(self, name: str) -> None:
        """Drop a view with its stored tables."""
        drop_view(self._lake, name)

    def _refuse_lost_part(self, view: View) -> None:
        if view.definition.part and not self._lake.exists(view.stored):
            raise Invalid(
                f"a part of {view.owner!r} is gone: table {view.stored}",
                hint=f"CREATE OR REPLACE MATERIALIZED VIEW {view.owner}",
                reason="PART_GONE",
            )


class Views:
    """The materialized views of a lake, as `advance` moves them."""

    noun, label = VIEW, "view"

    def __init__(self, lake: SparkLake) -> None:
        self._lake = lake
        self.store = StoredTables(lake)

    def traits(self, _: View) -> Traits:
        """Refreshes of views are what costs are learned from."""
        return Traits(counts_jobs=True)

    def inner(self, loaded: Loaded[View, ViewCommit]) -> Sequence[Inner]:
        """The parts of a view, which are maintained like views."""
        view = loaded.definition
        for part in view.parts:
            self.store.remember(part)
        return tuple(Inner(self, part.name, part.stored, part) for part in view.parts)

    def build(self, view: View, step: AdvanceStep, reason: str) -> StateWrite[View, ViewCommit]:
        """All rows computed from the tables; without a reason for the first time."""
        if reason:
            view = retyped(self._lake, view)
        pins = step.pins
        known = pins.statistics(view.tables, {}, {})
        everything = candidate(Strategy.REBUILD, rebuild_work(view.state, known), CostHistory())
        step.meter.candidates = step.meter.candidates or (everything,)
        work = pins.work(view.definition.settings)
        new = {t: p.version for t, p in step.target.items()}
        versions = Versions(pins, work, {} if reason else new, new, opened=step.meter.opened)
        declared = {t: pins.table(t).declared for t in view.tables}
        query = stored_rows_query(view.state, versions, declared).sql(dialect="spark")
        step.ran.append(RanStep("query", sql=query))
        # A rebuild that is cheaper than the changes does not wait for more.
        holding = frozenset() if reason == "CHEAPER" else holding_references(work, pins, view, new)

        def create(stamp: Stamp) -> None:
            near = most_selective_key(view.state, view.definition.types, known)
            make = commits.replace if self._lake.exists(view.stored) else commits.create
            make(work, view.stored, query, stamp, view.properties, near)

        def rewrite(stamp: Stamp) -> None:
            if view is step.definition and _has_its_columns(view, pins):
                commits.overwrite(work, view.stored, query, stamp)
                return
            commits.replace(work, view.stored, query, stamp, view.properties)
            if not view.definition.part:
                show(self._lake, view)

        commit = rewrite if reason else create
        return StateWrite(view, commit, Strategy.REBUILD, reason, holding=holding)

    def apply(
        self, loaded: Loaded[View, ViewCommit], step: AdvanceStep
    ) -> StateWrite[View, ViewCommit] | Rebuild:
        """The rows that the changes of the step change."""
        view = loaded.definition
        write = apply(self._lake, view, step)
        if isinstance(write, Rebuild):
            return write
        rows = 0 if write.rows is None else None
        choice = write.choice
        return StateWrite(view, write.commit, choice.strategy, choice.reason, rows, write.holding)

    def recover(self, name: str) -> None:
        """A commit is there or it is not: nothing is left behind."""

    def publish(self, name: str, write: StateWrite[View, ViewCommit], vector: Vector) -> None:
        """A view is read from its stored table, as soon as that is committed."""


def _redefined(view: View, stamp: Stamp, pins: Pins) -> str:
    """Whether the stored rows are those of an earlier definition, or keep CHAR unpadded."""
    declared = pins.table(view.stored).declared.values()
    other = stamp.view_id != view.definition.id
    return "REDEFINED" if other or any(map(char_length, declared)) else ""


def _has_its_columns(view: View, pins: Pins) -> bool:
    """Whether the stored table is of the view's shape, not of one that a replacement began."""
    stored = pins.table(view.stored)
    if stored.declared:  # Its texts were VARCHAR(n) or CHAR(n) once: now they are STRING.
        return False
    there = {c.lower() for c, _ in stored.columns}
    return there - {ROW} == {c.lower() for c in physical(view.state).values()}
