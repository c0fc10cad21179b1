"""Updatable views as a kind of derivation: created, refreshed, checked and written through."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from belvedere.algebra.relations import Change, Distinct, Output, Project, Scan
from belvedere.algebra.scalars import col
from belvedere.derivations.registry import the_saves
from belvedere.derivations.statements import name_taken
from belvedere.derivations.status import Pending, Status
from belvedere.errors import BelvedereError, Invalid
from belvedere.joins.equijoin_tree import equijoin_tree
from belvedere.lake.offline import ReadableLake
from belvedere.sql.names import parts, quote
from belvedere.sql.render import render
from belvedere.sql.statements.derivations import Drop, ExplainCreate
from belvedere.sql.statements.spark import WriteKind
from belvedere.sql.statements.updatable_views import CreateUpdatable, side_effects_allowed
from belvedere.updating.apply.base_changes import UnfinishedUpdate, UpdateApplier
from belvedere.updating.apply.updates import apply_update
from belvedere.updating.describe import describe_in_memory, describe_in_tables, describe_summary
from belvedere.updating.request.view_rows import view_columns
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.side_effects.check_update import check_in_mode
from belvedere.updating.side_effects.checks import UpdateCheck, row_text
from belvedere.updating.side_effects.spark_engine import summarize_on_spark, table_at_version
from belvedere.updating.state import (
    KIND,
    Brought,
    Held,
    bring,
    built,
    compiled,
    declared_keys,
    forget,
    load,
    save,
    saved_vector,
    usual_lookups,
)
from belvedere.updating.summary.in_tables.creation import drop_unfinished, recorded_creation
from belvedere.updating.summary.in_tables.parts import candidate_tables, is_part_of
from belvedere.updating.summary.roots import root_by_keys
from belvedere.views.catalog import canonical_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.lake.spark_lake import SparkLake

_UNUSABLE = "what was saved of its rows could not be used"


class UpdatableViews:
    """The updatable views of a lake."""

    word = "UPDATABLE VIEW"

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._held: dict[str, Held] = {}
        self._built_again: set[str] = set()
        """Those whose saved rows could not be used, until a refresh has told so."""
        if lake.capabilities.runs_spark and lake.saves is not None:
            drop_unfinished(lake)
            known = self.names()
            for name in sorted({*known, *self._applying.views()}):
                # A view whose tables are gone must not keep the lake from opening.
                with suppress(BelvedereError, OSError):
                    self._settle(name)
                    if name in known:
                        self._show(name, self._loaded(name))

    def names(self) -> Collection[str]:
        """The canonical names of all updatable views."""
        saves = self._lake.saves
        return () if saves is None else saves.names(KIND)

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        """The tables that a view reads, with the columns it uses."""
        found: Mapping[str, Collection[str]] = self._definition(name)["reads"]
        return found

    def refresh(self, name: str, *, full: bool = False) -> Brought:
        """Bring a view and its summary to the newest versions."""
        began = time.perf_counter()
        with the_saves(self._lake).locked(KIND, name):
            self._settle(name)
            if full:
                held = built(self._lake, self._definition(name))
                done = Brought(name, "rebuild", "asked for")
                self._keep(name, held)
            else:
                done = self._bring(name, None)
        return replace(done, seconds=time.perf_counter() - began)

    def advance(self, name: str, tables: Sequence[str]) -> Brought:
        """Apply only some tables' pending changes to a view's summary."""
        with the_saves(self._lake).locked(KIND, name):
            self._settle(name)
            return self._bring(name, tables)

    def explain(self, name: str) -> str:
        """How a view's summary looks."""
        self._settle(name)
        held = self._loaded(name)
        if held.rows is not None:
            return describe_in_memory(held, held.rows)
        kept = held.tabled and held.tabled.built
        return describe_in_tables(
            held, kept or summarize_on_spark(self._lake, held.tree, held.keys, held.vector)
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
        self._held.clear()

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
            self._settle(name)
            self._bring(name, None)
            return check_in_mode(
                self._lake, self._held[name], ViewUpdate.of(insert, delete, update), mode
            )

    def write(self, name: str, kind: WriteKind, text: str, *, explain: bool) -> DataFrame:
        """Run a statement that writes through a view, or tell what it would do."""
        plain, allowed = side_effects_allowed(text)
        with the_saves(self._lake).locked(KIND, name):
            self._settle(name)
            self._bring(name, None)
            from belvedere.updating.request.statement_rows import update_of_statement

            update = update_of_statement(
                self._door, shown_as(name), view_columns(self._held[name].shape), kind, plain
            )
            schema = (
                "table string, deleted bigint, inserted bigint, extra_rows bigint,"
                " side_effects array<string>"
            )
            if not update.delete and not update.insert:
                return self._door.spark.createDataFrame([], schema)
            if explain:
                found = check_in_mode(self._lake, self._held[name], update, "AUTO")
                return self._door.spark.createDataFrame([(str(found),)], "plan string")
            done = apply_update(
                self._lake, self._applying, name, lambda: self._fresh(name), update, allowed=allowed
            )
            self._bring(name, None)
            self._applying.forget(name)
        besides = [f"({row_text(row)})" for row in done.rows]
        rows = [(t, d, i, done.extra, besides) for t, d, i in done.tables]
        return self._door.spark.createDataFrame(rows, schema)

    def _fresh(self, name: str) -> Held:
        self._bring(name, None)
        return self._held[name]

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
        _, shape = compiled(self._lake, statement.lead + statement.query, name)
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
        tables = candidate_tables(name, shape)
        with recorded_creation(self._lake, name, tables) if statement.summary else nullcontext():
            self._keep(name, built(self._lake, definition))

    def _explain_create(self, statement: ExplainCreate[CreateUpdatable]) -> DataFrame:
        """What the summary of a view would be, by aggregations on Spark; no rows come here."""
        create = statement.create
        _, shape = compiled(self._lake, create.lead + create.query, create.name)
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
            self._held.pop(name, None)
            if name in self.names():
                forget(self._lake, name)
        return self._nothing()

    def _nothing(self) -> DataFrame:
        return self._door.spark.createDataFrame([], "result string")

    def _definition(self, name: str) -> Mapping[str, Any]:
        return the_saves(self._lake).head(KIND, name).definition

    def _loaded(self, name: str) -> Held:
        """A view in memory; what another process saved since is loaded again."""
        held = self._held.get(name)
        if held is None or held.vector != saved_vector(self._lake, name):
            held = load(self._lake, name)
            if (
                held.rows is not None
                and held.unsaved is None
                and self._lake.capabilities.runs_spark
            ):
                # What was saved could not be used: it is not to be built at every start.
                save(self._lake, name, held)
                self._built_again.add(name)
            self._held[name] = held
        return held

    def _bring(self, name: str, only: Collection[str] | None) -> Brought:
        before = self._loaded(name)
        try:
            held, done = bring(self._lake, before, only)
            if held.vector != before.vector or done.strategy == "rebuild":
                self._keep(name, held)
        except BaseException:
            # Its rows may be ahead of its vector.
            self._held.pop(name, None)
            raise
        if name in self._built_again:
            self._built_again.discard(name)
            done = replace(done, strategy="rebuild", reason=done.reason or _UNUSABLE)
        return done

    def _keep(self, name: str, held: Held) -> None:
        """Save a state and let readers see it."""
        save(self._lake, name, held)
        self._held[name] = held
        self._show(name, held)

    def _settle(self, name: str) -> None:
        """Finish or undo what a killed update left; one that is being made is waited for.

        Readers of the view see a finished one at once.
        """
        applying = self._applying
        if applying.is_pending(name):
            with the_saves(self._lake).locked(KIND, name):
                applying.settle(name, lambda: self._bring(name, None))

    def _show(self, name: str, held: Held) -> None:
        """Put the view under its name, in the lake's session: its rows at its vector's versions."""
        if self._lake.capabilities.runs_spark:
            frame = self._door.sql(read_sql(self._lake, held))
            frame.createOrReplaceTempView(shown_as(name))


def shown_as(name: str) -> str:
    """The name of a view in the lake's session, as SQL writes it."""
    return quote(parts(name)[-1])


def read_sql(lake: ReadableLake, held: Held) -> str:
    """The query of the catalog view: the tables at the vector's versions, each row once."""

    def source(leaf: Scan | Change) -> exp.Table:
        return table_at_version(lake.table(leaf.table), held.vector[leaf.table].version)

    outputs = tuple(Output(shown, col(plan)) for shown, plan in held.bound.columns)
    return render(Distinct(Project(held.bound.plan, outputs)), source).sql(dialect="spark")
