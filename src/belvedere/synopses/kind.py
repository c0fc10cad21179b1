"""Synopses as a kind of derivation: what a lake asks of them, and the statements that make them.

To look at them reads what is saved. What computes is imported when it is used, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from belvedere.derivations.protocol import AdvanceStep, Inner, Loaded, Rebuild, StateWrite, Traits
from belvedere.derivations.registry import the_saves
from belvedere.derivations.status import Status, pending_of
from belvedere.errors import BelvedereError, Invalid
from belvedere.execution.strategies import Strategy
from belvedere.lake.capabilities import spark_lake
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Head, Saves
from belvedere.sql.binder.naming import did_you_mean
from belvedere.sql.statements.derivations import Describe, Drop, Explain, Refresh, Show
from belvedere.sql.statements.synopses import CreateSynopsis
from belvedere.views.catalog import canonical_name, shown_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.delta.stamps import Vector
    from belvedere.derivations.outcome import Outcome
    from belvedere.derivations.saved_states import SavedStates
    from belvedere.lake.spark_lake import SparkLake
    from belvedere.synopses.definition import SynopsisDefinition
    from belvedere.synopses.handle import SynopsisHandle
    from belvedere.synopses.sample.on_spark import SparkSample
    from belvedere.synopses.sample.results import SampleResults

SAVED_AS = "synopsis"


class Synopses:
    """The synopses of a lake."""

    noun = word = "SYNOPSIS"
    label = ""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake

    @cached_property
    def store(self) -> SavedStates[SynopsisDefinition, SampleResults | SparkSample]:
        """Where their states are kept."""
        from belvedere.derivations.saved_states import SavedStates
        from belvedere.synopses.saved import SynopsisCodec

        return SavedStates(self._lake, SAVED_AS, SynopsisCodec())

    def names(self) -> Collection[str]:
        """See `Kind`."""
        return self._lake.saves.names(SAVED_AS) if self._lake.saves is not None else []

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        """See `Kind`."""
        tables: Mapping[str, Collection[str]] = self._head(name).definition["reads"]
        return tables

    def traits(self, _: SynopsisDefinition) -> Traits:
        """See `Advanceable`: rows of tables that do not move are in memory."""
        return Traits(reads_old=False)

    def inner(self, _: Loaded[Any, Any]) -> Sequence[Inner]:
        """See `Advanceable`."""
        return ()

    def build(
        self, definition: SynopsisDefinition, step: AdvanceStep, reason: str
    ) -> StateWrite[SynopsisDefinition, SampleResults | SparkSample]:
        """See `Advanceable`; the tables' keys and columns may be others by now."""
        from belvedere.synopses.build import build_sample
        from belvedere.synopses.definition import define

        again, planned = define(self._lake, definition.shown, definition.query, definition.kind, "")
        state = build_sample(self._lake, step.pins, again, planned, step.target)
        return StateWrite(again, state, Strategy.REBUILD, reason)

    def apply(
        self, loaded: Loaded[SynopsisDefinition, SampleResults | SparkSample], step: AdvanceStep
    ) -> StateWrite[SynopsisDefinition, SampleResults | SparkSample] | Rebuild:
        """See `Advanceable`."""
        from belvedere.synopses.apply import apply_changes, draw_from_inserts
        from belvedere.synopses.graph.row_store import NO_SUCH_ROW
        from belvedere.synopses.sample.results import SampleResults

        state, reads = loaded.state, loaded.definition.reads
        if isinstance(state, SampleResults):
            try:
                rows = apply_changes(state, step, reads)
            except Invalid as refused:
                if refused.reason != NO_SUCH_ROW:
                    raise
                return Rebuild("STATE_MISMATCH")
        else:
            assert state is not None
            grown = draw_from_inserts(state, step, reads)
            if grown is None:
                return Rebuild("DRAWN")
            state, rows = grown
        strategy = Strategy.MERGE if rows else Strategy.NOTHING
        return StateWrite(loaded.definition, state, strategy, rows=rows)

    def recover(self, name: str) -> None:
        """See `Advanceable`: a state is saved whole or not at all."""

    def publish(self, name: str, write: StateWrite[Any, Any], vector: Vector) -> None:
        """See `Advanceable`: a synopsis is read from memory."""

    def refresh(self, name: str, *, full: bool = False) -> Outcome:
        """See `Kind`."""
        return self._advance(name, None, full=full)

    def advance(self, name: str, tables: Sequence[str]) -> Outcome:
        """See `Kind`."""
        return self._advance(name, tables, full=False)

    def _advance(self, name: str, only: Sequence[str] | None, *, full: bool) -> Outcome:
        from belvedere.derivations.advance import advance, call_of

        self._head(name)
        with call_of(self._lake) as call:
            return advance(self, name, call, full=full, only=only)

    @property
    def _door(self) -> SparkLake:
        spark = spark_lake(self._lake)
        assert spark is not None, "a lake without Spark does not refresh"
        return spark

    def loaded(self, name: str) -> Loaded[SynopsisDefinition, SampleResults | SparkSample]:
        """A synopsis as it was saved last; one whose state is damaged is built again."""
        self._head(name)
        loaded = self.store.load(name)
        if loaded.state is None:
            if not self._lake.capabilities.runs_spark:
                self.store.saves.load(SAVED_AS, name)  # raises what is wrong with it
            self._advance(name, [], full=True)
            loaded = self.store.load(name)
        return loaded

    def handle(self, name: str) -> SynopsisHandle:
        """A synopsis by its canonical name."""
        from belvedere.synopses.handle import SynopsisHandle

        self._head(name)
        return SynopsisHandle(self, name, self._lake)

    def explain(self, name: str) -> str:
        """See `Kind`."""
        from belvedere.synopses.describe import describe

        return describe(self.loaded(name))

    def status(self) -> list[Status]:
        """See `Kind`."""
        return [self._status(name) for name in self.names()]

    def _status(self, name: str) -> Status:
        try:
            head = self._head(name)
            vector = {shown_name(self._lake, t): p for t, p in head.vector.items()}
            pending = {
                shown_name(self._lake, t): pending_of(self._lake.table(t), p, self._lake)
                for t, p in head.vector.items()
            }
        except BelvedereError as error:
            return Status(name, self.word, error=str(error), reason=error.reason)
        return Status(name, self.word, {t: p.version for t, p in vector.items()}, pending)

    def statements(self) -> Mapping[type, Callable[[Any], DataFrame]]:
        """See `Kind`."""
        return {
            CreateSynopsis: self._create,
            Refresh: self._refreshed,
            Explain: self._explained,
            Describe: self._described,
            Show: self._shown,
            Drop: self._dropped,
        }

    def close(self) -> None:
        """See `Kind`."""
        self.store.close()

    def _create(self, statement: CreateSynopsis) -> DataFrame:
        from belvedere.derivations.advance import call_of, create
        from belvedere.synopses.definition import define
        from belvedere.synopses.sample.reservoir import SampleKind as Sample

        name = canonical_name(self._door, statement.name)
        if statement.if_not_exists and name in self.names():
            return self._rows([], "result string")
        sample = Sample(statement.rows, statement.rate, statement.replacement)
        with call_of(self._lake) as call:
            definition, _ = define(
                self._door, statement.name, statement.query, sample, statement.lead
            )
            create(self, name, definition, call)
        return self._rows([], "result string")

    def _refreshed(self, statement: Refresh) -> DataFrame:
        done = self.refresh(self._named(statement.name), full=statement.full)
        row = (done.name, done.strategy, done.reason, done.rows_changed, round(done.seconds, 3))
        schema = "name string, strategy string, reason string, rows_changed bigint, seconds double"
        return self._rows([row], schema)

    def _explained(self, statement: Explain) -> DataFrame:
        return self._rows([(self.explain(self._named(statement.name)),)], "plan string")

    def _described(self, statement: Describe) -> DataFrame:
        from belvedere.synopses.describe import facts

        rows = facts(self.loaded(self._named(statement.name)))
        return self._rows(rows, "name string, value string")

    def _shown(self, _: Show) -> DataFrame:
        rows = []
        for name in self.names():
            made = self._head(name).definition
            rows.append((made["shown"], sample_text(made["sample"]), made["query"]))
        return self._rows(rows, "name string, sample string, query string")

    def _dropped(self, statement: Drop) -> DataFrame:
        if statement.if_exists and canonical_name(self._lake, statement.name) not in self.names():
            return self._rows([], "result string")
        name = self._named(statement.name)
        self.store.drop(name)
        return self._rows([], "result string")

    def _named(self, name: str) -> str:
        """The canonical name of a synopsis that there is."""
        canonical = canonical_name(self._lake, name)
        if canonical not in self.names():
            raise Invalid(
                f"no synopsis {name!r}",
                hint=self._saves.mending(SAVED_AS, canonical)
                or did_you_mean(name, self.names())
                or "SHOW SYNOPSES lists them",
                reason="UNKNOWN_SYNOPSIS",
            )
        return canonical

    @property
    def _saves(self) -> Saves:
        return the_saves(self._lake)

    def _head(self, name: str) -> Head:
        if not self._saves.has(SAVED_AS, name):
            self._named(name)
        return self._saves.head(SAVED_AS, name)

    def _rows(self, rows: list[Any], schema: str) -> DataFrame:
        return self._door.spark.createDataFrame(rows, schema)


def sample_text(sample: Sequence[Any]) -> str:
    """A sample as the statement says it.

    >>> sample_text([100, None, True]), sample_text([None, 0.001, False])
    ('SAMPLE 100 ROWS WITH REPLACEMENT', 'SAMPLE 0.1 PERCENT')
    """
    rows, rate, replacement = sample
    if rate is not None:
        return f"SAMPLE {100 * rate:g} PERCENT"
    return f"SAMPLE {rows} ROWS" + (" WITH REPLACEMENT" if replacement else "")
