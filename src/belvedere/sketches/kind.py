"""Sketches as a kind of derivation. What only looks needs neither Spark nor the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from belvedere.derivations.registry import the_saves
from belvedere.derivations.status import Status, pending_of
from belvedere.errors import BelvedereError, Internal
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Corrupt
from belvedere.sketches.definition import KIND, SketchDefinition
from belvedere.sql.statements.derivations import Describe, Drop, Refresh, Show
from belvedere.sql.statements.sketches import ClusterSketch, CreateSketch
from belvedere.views.catalog import canonical_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from belvedere.derivations.outcome import Outcome
    from belvedere.sketches.service import Service
    from belvedere.sketches.use.queries import RoutedQuery
    from belvedere.sketches.use.rewrite import SketchAnswer


class Sketches:
    """The sketches of a lake."""

    word = "SKETCH"

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._service: Service | None = None
        self.watching = False

    @property
    def service(self) -> Service:
        """The sketches at work."""
        if self._service is None:
            from belvedere.lake.spark_lake import SparkLake
            from belvedere.sketches.service import Service

            if not isinstance(self._lake, SparkLake):
                raise Internal("sketches are worked with where Spark is")
            self._service = Service(self._lake)
        return self._service

    def names(self) -> Collection[str]:
        """The canonical names of all there are."""
        return [] if self._lake.saves is None else self._lake.saves.names(KIND)

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        """The tables that one needs, with the columns it uses."""
        try:
            return self._definition(name).reads
        except (Corrupt, OSError):
            # One that cannot be read must not keep tables from being dropped.
            return {}

    def refresh(self, name: str, *, full: bool = False) -> Outcome:
        """Bring one to the newest versions."""
        return self.service.refresh(name, full=full)

    def refresh_all(self, *, full: bool = False) -> list[Outcome]:
        """Bring all to the newest versions, reading each change once."""
        return self.service.refresh_all(full=full) if self.names() else []

    def advance(self, name: str, tables: Sequence[str]) -> Outcome:
        """Apply only some tables' pending changes to one."""
        return self.service.refresh(name, only=tables)

    def explain(self, name: str) -> object:
        """How one is kept, as text."""
        return self.service.explain(name)

    def status(self) -> list[Status]:
        """Where each stands; needs no Spark."""
        return [self._status(name) for name in self.names()]

    def statements(self) -> Mapping[type, Callable[[Any], DataFrame]]:
        """The statements on sketches, and what runs them."""
        return {
            CreateSketch: self._create,
            Refresh: self._refresh,
            Drop: self._drop,
            Show: self._show,
            Describe: self._describe,
            ClusterSketch: self._cluster,
        }

    def answer(self, text: str, versions: Mapping[str, int] | None = None) -> SketchAnswer:
        """How a query is to be answered."""
        return self.service.answer(text, versions)

    def route(self, text: str, versions: Mapping[str, int] | None = None) -> RoutedQuery:
        """How a query is to be answered, and what it then reads."""
        return self.service.route(text, versions)

    def watch(self, on: bool) -> None:
        """AUTO: from now on, or no longer."""
        self.watching = on
        self.service.watch(on)

    def close(self) -> None:
        """Save what was brought up to date since it was saved, and let go of it."""
        if self._service is not None:
            self._service.close()

    def _definition(self, name: str) -> SketchDefinition:
        return SketchDefinition.from_json(the_saves(self._lake).head(KIND, name).definition)

    def _status(self, name: str) -> Status:
        try:
            head = the_saves(self._lake).head(KIND, name)
            definition = SketchDefinition.from_json(head.definition)
        except (BelvedereError, OSError) as error:
            return Status(name, "SKETCH", error=str(error))
        held = None if self._service is None else self._service.vector(name)
        vector = head.vector if held is None else held
        try:
            pending = {t: pending_of(self._lake.table(t), p, self._lake) for t, p in vector.items()}
        except BelvedereError as error:
            return Status(name, "SKETCH", error=str(error))
        versions = {t: p.version for t, p in vector.items()}
        return Status(name, "SKETCH", versions, pending, error=definition.retired)

    @property
    def _spark(self) -> SparkSession:
        return self.service.door.spark

    def _create(self, statement: CreateSketch) -> DataFrame:
        start = time.perf_counter()
        live = self.service.create(statement)
        if live is None:
            return self._spark.createDataFrame([], "result string")
        text = (
            f"{statement.name}: {live.fragment_count} of {live.fragments} fragments, "
            f"captured in {time.perf_counter() - start:.2f} s"
        )
        return self._spark.createDataFrame([(text,)], "result string")

    def _refresh(self, statement: Refresh) -> DataFrame:
        name = canonical_name(self._lake, statement.name)
        done = self.service.refresh(name, full=statement.full)
        kept = self.service.live(name).fragment_count
        row = (done.name, done.strategy, done.reason, done.rows_changed, done.seconds, kept)
        schema = (
            "sketch string, strategy string, reason string, rows bigint, seconds double, kept int"
        )
        return self._spark.createDataFrame([row], schema)

    def _drop(self, statement: Drop) -> DataFrame:
        name = canonical_name(self._lake, statement.name)
        if not (statement.if_exists and name not in self.names()):
            self.service.refuse_unknown(name)
            self.service.drop(name)
        return self._spark.createDataFrame([], "result string")

    def _show(self, _: Show) -> DataFrame:
        rows = [
            (n, "; ".join(str(p) for p in d.partitions), d.query)
            for n, d in ((n, self._definition(n)) for n in self.names())
        ]
        return self._spark.createDataFrame(rows, "name string, cut string, query string")

    def _describe(self, statement: Describe) -> DataFrame:
        name = canonical_name(self._lake, statement.name)
        return self._spark.createDataFrame(self.service.describe(name), "name string, value string")

    def _cluster(self, statement: ClusterSketch) -> DataFrame:
        name = canonical_name(self._lake, statement.name)
        rows = [(str(each),) for each in self.service.cluster(name)]
        return self._spark.createDataFrame(rows, "result string")
