"""Updatable views as a kind of derivation: created, refreshed, checked and written through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from belvedere.algebra.relations import Change, Distinct, Output, Project, Scan
from belvedere.algebra.scalars import col
from belvedere.derivations.protocol import AdvanceStep, Inner, Loaded, Rebuild, StateWrite, Traits
from belvedere.derivations.registry import the_saves
from belvedere.derivations.statements import name_taken
from belvedere.derivations.status import Pending, Status
from belvedere.errors import BelvedereError, Invalid
from belvedere.execution.strategies import Strategy
from belvedere.joins.equijoin_tree import equijoin_tree
from belvedere.lake.offline import ReadableLake
from belvedere.sql.names import parts, quote
from belvedere.sql.render import render
from belvedere.sql.statements.derivations import Drop, ExplainCreate
from belvedere.sql.statements.spark import WriteKind
from belvedere.sql.statements.updatable_views import CreateUpdatable, side_effects_allowed
from belvedere.storage.locks import Conflict
from belvedere.updating.apply.base_changes import UnfinishedUpdate, UpdateApplier
from belvedere.updating.apply.updates import apply_update
from belvedere.updating.build import build_updatable
from belvedere.updating.changes import apply_changes, changes_of_step
from belvedere.updating.describe import describe_in_memory, describe_in_tables, describe_summary
from belvedere.updating.request.view_rows import view_columns
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.side_effects.check_update import check_in_mode
from belvedere.updating.side_effects.checks import UpdateCheck, row_text
from belvedere.updating.side_effects.spark_engine import summarize_on_spark, table_at_version
from belvedere.updating.state import (
    UpdatableDefinition,
    UpdatableState,
    compile_updatable,
    declared_keys,
    open_in_tables,
    usual_lookups,
)
from belvedere.updating.store import KIND, UpdatableStates, definition_of, saved_vector, with_reads
from belvedere.updating.summary.base_tables import RowNotHeld
from belvedere.updating.summary.in_tables.creation import drop_unfinished, recorded_creation
from belvedere.updating.summary.in_tables.parts import candidate_tables, is_part_of, summary_views
from belvedere.updating.summary.roots import root_by_keys
from belvedere.views.catalog import canonical_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.delta.stamps import Vector
    from belvedere.derivations.outcome import Outcome
    from belvedere.lake.spark_lake import SparkLake


class UpdatableViews:
    """The updatable views of a lake."""

    noun = word = "UPDATABLE VIEW"
    label = ""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self.store = UpdatableStates(lake)
        self._settling: set[str] = set()
        """Views whose unfinished updates are being settled."""
        if lake.capabilities.runs_spark and lake.saves is not None:
            drop_unfinished(lake)
            known = self.names()
            for name in sorted({*known, *self._applying.views()}):
                # A view whose tables are gone must not keep the lake from opening.
                with suppress(BelvedereError, OSError):
                    self._settle(name)
                    if name in known:
                        self._show(name, self.state(name))

    def names(self) -> Collection[str]:
        """The canonical names of all updatable views."""
        saves = self._lake.saves
        return () if saves is None else saves.names(KIND)

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        """The tables that a view reads, with the columns it uses."""
        found: Mapping[str, Collection[str]] = self._definition(name)["reads"]
        return found

    def refresh(self, name: str, *, full: bool = False) -> Outcome:
        """Move a view and its summary to the newest versions."""
        return self._advance(name, None, full=full)

    def advance(self, name: str, tables: Sequence[str]) -> Outcome:
        """Apply only some tables' pending changes to a view's summary."""
        return self._advance(name, tables)

    def _advance(
        self, name: str, only: Collection[str] | None = None, *, full: bool = False
    ) -> Outcome:
        from belvedere.derivations.advance import advance, call_of

        with call_of(self._lake) as call:
            return advance(self, name, call, full=full, only=only)

    def traits(self, definition: UpdatableDefinition) -> Traits:
        """Rows in memory need no old versions; rows that stay in their tables need no changes."""
        return Traits(
            from_changes=not definition.in_tables, reads_old=definition.has_stored_summary
        )

    def inner(self, loaded: Loaded[UpdatableDefinition, UpdatableState]) -> Sequence[Inner]:
        """The views of a summary in tables."""
        if loaded.state is None or loaded.state.tabled is None:
            return ()
        from belvedere.views.kind import Views

        views = Views(self._door)
        return [
            Inner(views, view.name, view.stored, view)
            for view in summary_views(self._door, loaded.definition.name)
        ]

    def build(
        self, definition: UpdatableDefinition, step: AdvanceStep, reason: str
    ) -> StateWrite[UpdatableDefinition, UpdatableState]:
        """The rows and the summary from the tables."""
        state = build_updatable(self._lake, definition.record, step.target)
        if any(state.vector[t] != step.target[t] for t in state.vector):
            raise Conflict(
                f"tables of {definition.name!r} changed while its summary was made",
                hint="try again",
                reason="CONCURRENT_REFRESH",
            )
        state.definition = with_reads(self._lake, state)
        again = definition_of(self._lake, state.definition)
        return StateWrite(again, state, Strategy.REBUILD, reason)

    def apply(
        self, loaded: Loaded[UpdatableDefinition, UpdatableState], step: AdvanceStep
    ) -> StateWrite[UpdatableDefinition, UpdatableState] | Rebuild:
        """The state with the changes: those of rows in memory, or what the summary's views have done."""
        definition, state = loaded.definition, loaded.state
        assert state is not None
        if state.tabled is not None:
            rows = sum(each.rows_changed or 0 for each in step.inner)
            reason = next((each.reason for each in step.inner if each.strategy == "rebuild"), "")
            strategy = Strategy.REBUILD if reason else Strategy.MERGE
            # What it remembers of its tables is of the versions before.
            state = replace(state, tabled=replace(state.tabled))
            return StateWrite(definition, state, strategy, reason, rows)
        if state.rows is None:
            now = open_in_tables(self._lake, state.definition)
            return StateWrite(definition, now, Strategy.MERGE)
        changes = changes_of_step(self._lake, step, state)
        if changes is None:
            return Rebuild("CHEAPER")
        try:
            rows = apply_changes(state, changes)
        except RowNotHeld as mismatch:
            return Rebuild(mismatch.reason)
        return StateWrite(
            definition, state, Strategy.MERGE if rows else Strategy.NOTHING, rows=rows
        )

    def recover(self, name: str) -> None:
        """Finish or undo what a killed update left."""
        self._settle(name)

    def publish(
        self,
        name: str,
        write: StateWrite[UpdatableDefinition, UpdatableState],
        vector: Vector,  # noqa: ARG002
    ) -> None:
        """Show the view's rows at its new vector."""
        self._show(name, write.state)

    def state(self, name: str) -> UpdatableState:
        """A view's state as it was committed last; one that cannot be used is built again."""
        loaded = self.store.load(name)
        if loaded.state is None:
            self._advance(name)
            loaded = self.store.load(name)
        assert loaded.state is not None
        return loaded.state

    def explain(self, name: str) -> str:
        """How a view's summary looks."""
        self._settle(name)
        view = self.state(name)
        if view.rows is not None:
            return describe_in_memory(view, view.rows)
        summary = view.tabled and view.tabled.built
        return describe_in_tables(
            view, summary or summarize_on_spark(self._lake, view.tree, view.keys, view.vector)
        )

    def status(self) -> list[Status]:
        """Where each view stands."""
        if self._lake.saves is None:
            return []
        names = self.names()
        lost = [name for name in self._applying.views() if name not in names]
        return [*map(self._status, names), *(s for s in map(self._status, lost) if s.error)]

    def _status(self, name: str) -> Status:
        try:
            self._applying.pending(name)
            saved = saved_vector(self._lake, name) if name in self.names() else {}
            pending = {}
            for t, seen in saved.items():
                now = self._lake.table(t)
                moved = now.id == seen.id and now.version >= seen.version
                pending[t] = Pending(now.version - seen.version if moved else None, None)
        except BelvedereError as error:
            return Status(name, "UPDATABLE", error=str(error))
        vector = {t: p.version for t, p in saved.items()}
        return Status(name, "UPDATABLE", vector, pending)

    def owns(self, view: str) -> bool:
        """Whether a view is a part of the summary of an updatable one."""
        return any(
            self._definition(name).get("summary") and is_part_of(view, name)
            for name in self.names()
        )

    def statements(self) -> Mapping[type, Callable[[Any], DataFrame]]:
        """The statements on updatable views."""
        return {
            CreateUpdatable: self._create,
            ExplainCreate: self._explain_create,
            Drop: self._drop,
        }

    def close(self) -> None:
        """Let go of what is held in memory."""
        self.store.close()

    def check(
        self,
        name: str,
        *,
        insert: Any = None,
        delete: Any = None,
        update: Any = None,
        mode: str = "AUTO",
    ) -> UpdateCheck:
        """Whether rows can be inserted, deleted or replaced as asked."""
        with the_saves(self._lake).locked(KIND, name):
            return check_in_mode(
                self._lake, self._fresh(name), ViewUpdate.of(insert, delete, update), mode
            )

    def write(self, name: str, kind: WriteKind, text: str, *, explain: bool) -> DataFrame:
        """Run a statement that writes through a view, or tell what it would do."""
        plain, allowed = side_effects_allowed(text)
        with the_saves(self._lake).locked(KIND, name):
            view = self._fresh(name)
            from belvedere.updating.request.statement_rows import update_of_statement

            update = update_of_statement(
                self._door, shown_as(name), view_columns(view.shape), kind, plain
            )
            schema = (
                "table string, deleted bigint, inserted bigint, extra_rows bigint,"
                " side_effects array<string>"
            )
            if not update.delete and not update.insert:
                return self._door.spark.createDataFrame([], schema)
            if explain:
                found = check_in_mode(self._lake, view, update, "AUTO")
                return self._door.spark.createDataFrame([(str(found),)], "plan string")
            done = apply_update(
                self._lake, self._applying, name, lambda: self._fresh(name), update, allowed=allowed
            )
            self._fresh(name)
            self._applying.forget(name)
        besides = [f"({row_text(row)})" for row in done.rows]
        rows = [(t, d, i, done.extra, besides) for t, d, i in done.tables]
        return self._door.spark.createDataFrame(rows, schema)

    def _fresh(self, name: str) -> UpdatableState:
        """A view at the newest versions of its tables."""
        self._advance(name)
        return self.state(name)

    @property
    def _door(self) -> SparkLake:
        return self._lake  # type: ignore[return-value]

    @property
    def _applying(self) -> UpdateApplier:
        return UpdateApplier(self._lake, the_saves(self._lake).home)

    def _create(self, statement: CreateUpdatable) -> DataFrame:
        name = canonical_name(self._lake, statement.name)
        # Of two that create one name at once, the second finds it taken.
        with the_saves(self._lake).locked(KIND, name):
            self._settle(name)
            if name in self.names():
                raise name_taken(statement)
            self._make(name, statement)
        return self._nothing()

    def _make(self, name: str, statement: CreateUpdatable) -> None:
        from belvedere.derivations.advance import call_of, create

        _, shape = compile_updatable(self._lake, statement.lead + statement.query, name)
        root = None if statement.root is None else canonical_name(self._lake, statement.root)
        definition = {
            "name": name,
            "query": statement.query,
            "root": root,
            "percent": statement.percent,
            "candidates": statement.candidates,
            "lookups": statement.lookups or usual_lookups(self._lake, shape).value,
            "summary": statement.summary,
        }
        reads = {
            t: {c: self._lake.table(t).types.get(c.lower(), "") for c in columns}
            for t, columns in shape.used.items()
        }
        tables = candidate_tables(name, shape)
        noted = recorded_creation(self._lake, name, tables) if statement.summary else nullcontext()
        with noted, call_of(self._lake) as call:
            create(self, name, UpdatableDefinition(definition, reads), call)

    def _explain_create(self, statement: ExplainCreate[CreateUpdatable]) -> DataFrame:
        """What the summary of a view would be, by aggregations on Spark; no rows come here."""
        create = statement.create
        _, shape = compile_updatable(self._lake, create.lead + create.query, create.name)
        keys = declared_keys(self._lake, shape)
        root: int | str = root_by_keys(shape, keys)
        if create.root is not None:
            root = canonical_name(self._lake, create.root)
        tree = equijoin_tree(shape, root, keys)
        vector = {t: self._lake.table(t).position for t in shape.tables}
        told = describe_summary(tree, summarize_on_spark(self._lake, tree, keys, vector))
        return self._door.spark.createDataFrame([(told,)], "plan string")

    def _drop(self, statement: Drop) -> DataFrame:
        name = canonical_name(self._lake, statement.name)
        if name not in self.names() and not self._applying.is_pending(name):
            if statement.if_exists:
                return self._nothing()
            raise Invalid(f"no updatable view {statement.name!r}", reason="UNKNOWN_VIEW")
        with the_saves(self._lake).locked(KIND, name):
            try:
                # Nobody reads it any more: its vector stays where it is.
                self._applying.settle(name, lambda: None)
            except UnfinishedUpdate:
                self._applying.give_up(name)
            self._door.spark.catalog.dropTempView(parts(name)[-1])
            self.store.forget(name)
            if name in self.names():
                self.store.drop(name)
        return self._nothing()

    def _nothing(self) -> DataFrame:
        return self._door.spark.createDataFrame([], "result string")

    def _definition(self, name: str) -> Mapping[str, Any]:
        return the_saves(self._lake).head(KIND, name).definition

    def _settle(self, name: str) -> None:
        """Finish or undo what a killed update left; one that is being made is waited for.

        Readers of the view see a finished one at once.
        """
        applying = self._applying
        if name in self._settling or not applying.is_pending(name):
            return
        with self.store.exclusive(name):
            self._settling.add(name)
            try:
                applying.settle(name, lambda: self._advance(name))
            finally:
                self._settling.discard(name)

    def _show(self, name: str, view: UpdatableState) -> None:
        """Put the view under its name, in the lake's session: its rows at its vector's versions."""
        if self._lake.capabilities.runs_spark:
            frame = self._door.sql(read_sql(self._lake, view))
            frame.createOrReplaceTempView(shown_as(name))


def shown_as(name: str) -> str:
    """The name of a view in the lake's session, as SQL writes it."""
    return quote(parts(name)[-1])


def read_sql(lake: ReadableLake, view: UpdatableState) -> str:
    """The query of the catalog view: the tables at the vector's versions, each row once."""

    def source(leaf: Scan | Change) -> exp.Table:
        return table_at_version(lake.table(leaf.table), view.vector[leaf.table].version)

    outputs = tuple(Output(shown, col(plan)) for shown, plan in view.bound.columns)
    return render(Distinct(Project(view.bound.plan, outputs)), source).sql(dialect="spark")
