"""A lake as its user holds it: SQL, views, refreshes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from belvedere.derivations.calls import Calls, refuse_broken
from belvedere.derivations.guard import created_whole, guard
from belvedere.derivations.history import History
from belvedere.derivations.ledger import readable
from belvedere.derivations.outcome import Outcome
from belvedere.derivations.registry import Kind, Together, Writable, damages, everything
from belvedere.derivations.statements import (
    Run,
    refuse_name_of_kind,
    refuse_taken_name,
    run_of,
)
from belvedere.derivations.status import Statuses, history
from belvedere.errors import BelvedereError, Invalid, Unable
from belvedere.kinds import kinds
from belvedere.lake.sessions.errors import computing
from belvedere.lake.sessions.machine import blaming_the_machine
from belvedere.lake.spark_lake import SparkLake, open_directory, open_session
from belvedere.lake.tables import declared_keys as lake_keys
from belvedere.samples.answers.answer import EstimatedAnswer
from belvedere.samples.answers.estimate import estimate_query
from belvedere.samples.answers.select_rows import CorrectedRows
from belvedere.samples.create import no_sample, samples_of
from belvedere.samples.outcome import Cleaned
from belvedere.samples.outlier_upkeep import update_bounds
from belvedere.samples.sampling_plan import SamplingPlan, sampling_plan
from belvedere.scheduling.limits import Limits
from belvedere.sketches.kind import Sketches
from belvedere.sketches.use.answers import run_query
from belvedere.sql.statements.derivations import Noun, Refresh
from belvedere.sql.statements.parser import Statement, parse_statement
from belvedere.sql.statements.samples import CleanSample, Estimate
from belvedere.sql.statements.sketches import CreateSketch
from belvedere.sql.statements.spark import CreateTable, DropTable, RefreshTable, Write
from belvedere.sql.statements.synopses import CreateSynopsis
from belvedere.sql.statements.updatable_views import CreateUpdatable, ExplainWrite
from belvedere.sql.statements.views import CreateView
from belvedere.synopses.kind import Synopses
from belvedere.view_statements import ViewStatements
from belvedere.views import catalog_views
from belvedere.views.catalog import (
    Broken,
    all_views,
    canonical_name,
    is_here,
    is_path,
    is_view,
    refuse_dotted,
    stored_of,
    the_view,
)
from belvedere.views.definition import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from belvedere.scheduling.model.arrivals import Arrival
    from belvedere.scheduling.schedules import Calibration
    from belvedere.scheduling.serve.preview import Forecast
    from belvedere.scheduling.serve.service import SchedulingService
    from belvedere.synopses.handle import SynopsisHandle

_log = logging.getLogger("belvedere")


def connect(where: str | Path | SparkSession, state: str | Path | None = None) -> Lake:
    """A lake: a directory of Delta tables with a local Spark session, or the session you have.

    `state` is for a session: the local directory for what is kept in memory, not in tables.
    """
    with blaming_the_machine():
        if not isinstance(where, str | Path):
            return Lake(open_session(where, state))
        if state is not None:
            raise Invalid(
                "a lake in a directory keeps its state there",
                hint="leave out state=",
                reason="OPTIONS",
            )
        return Lake(open_directory(where))


class Lake:
    """Delta tables and the views over them."""

    def __init__(self, door: SparkLake) -> None:
        self._door = door
        self._set_aside_damaged()
        self._kinds = kinds(door)
        for view in all_views(door):
            # What cannot be read is for status() to tell: the other views must still open.
            with suppress(BelvedereError):
                catalog_views.show(door, view)
        self._limits = Limits(door)
        self._limits.show_consistent()
        self._calls = Calls(door, after=self._limits.show_consistent)
        own: dict[type, Run] = {
            Refresh: self._refresh,
            CleanSample: self._clean,
            Estimate: self._estimate,
        }
        self._views = ViewStatements(door, self._kinds, self._limits, self._calls, own)

    def _set_aside_damaged(self) -> None:
        """Put files beside the tables that cannot be used out of the way, and tell what is lost."""
        if self._door.saves is not None:
            self._door.saves.set_aside_damaged()
        self._door.journal.mend()
        for each in damages(self._door):
            _log.warning("%s", each)

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        return self._door.spark

    def sql(self, text: str) -> DataFrame:
        """Run a statement: Belvedere's own, or any of Spark's."""
        statement = parse_statement(text)
        with _computing(_subject(statement)):
            self._refuse_taken(statement)
            run = run_of(statement, (self._views, *self._kinds))
            if run is not None and not self._is_elsewhere(statement):
                return run(statement)
            if isinstance(statement, RefreshTable) and self._is_derived(statement.name):
                return self._refresh(Refresh(Noun.VIEW, statement.name))
            if isinstance(statement, Write | ExplainWrite):
                written = self._write(statement, text)
                if written is not None:
                    return written
            guard(self._door, statement, self._views.readers)
            self._limits.show_consistent()
            with readable(self._door, text), created_whole(self._door, statement):
                return self._door.sql(text)

    def _refuse_taken(self, statement: Statement) -> None:
        """Invalid if a statement creates something under a name that is taken or cannot be."""
        match statement:
            case CreateView() | CreateSketch() | CreateSynopsis() | CreateUpdatable():
                refuse_dotted(self._door, statement.name)
                name = canonical_name(self._door, statement.name)
                view, table = is_view(self._door, name), self._door.exists(name)
                refuse_taken_name(statement, name, self._kinds, view=view, table=table)
            case CreateTable(name) if not is_path(name):
                refuse_name_of_kind(name, canonical_name(self._door, name), self._kinds)
            case _:
                pass

    def _is_elsewhere(self, statement: Statement) -> bool:
        """Whether a statement of Spark's is on a table outside the lake."""
        return isinstance(statement, DropTable) and not is_here(self._door, statement.name)

    def _is_derived(self, name: str) -> bool:
        """Whether a name is that of a view or of something else derived."""
        if not is_here(self._door, name):
            return False
        canonical = canonical_name(self._door, name)
        return self._kind(name) is not None or is_view(self._door, canonical)

    def query(self, text: str, versions: Mapping[str, int] | None = None) -> DataFrame:
        """Run a query, through a sketch where one is safe, up to date and worth it.

        `versions` asks for earlier versions of its tables; without a sketch that is kept at these,
        the tables are read at them.
        """
        with _computing("the query"):
            return run_query(self._door, self._sketches, text, versions)

    def explain_query(self, text: str, versions: Mapping[str, int] | None = None) -> Any:
        """Which sketch would answer a query, why that is safe, what is skipped; or why none would."""
        with _computing("the query"):
            return self._sketches.answer(text, versions)

    def auto_sketches(self, on: bool = True) -> None:
        """Watch queries from now on: create sketches where they pay, drop those that do not."""
        self._sketches.watch(on)

    @property
    def _sketches(self) -> Sketches:
        return next(k for k in self._kinds if isinstance(k, Sketches))

    def refresh(self, name: str | None = None, *, full: bool = False) -> Any:
        """Bring what is derived, and the views it reads, to the newest versions.

        A view gives a `Outcome`, other kinds their own; without a name, everything, in a list.
        """
        if name is None:
            return self._refresh_all(full=full)
        kind = self._kind(name)
        if kind is None:
            return self._calls.fresh(the_view(self._door, name), full=full)
        canonical = canonical_name(self._door, name)
        for view in all_views(self._door):
            if view.stored in kind.reads(canonical):
                self._calls.fresh(view)
        with _computing(repr(name)), self._door.one_call():
            return kind.refresh(canonical, full=full)

    def _refresh_all(self, *, full: bool) -> list[Any]:
        views, broken = self._calls.everything(full=full)
        done: list[Any] = list(views)
        with blaming_the_machine(), self._door.one_call():
            for kind in self._kinds:
                if isinstance(kind, Together):
                    done += kind.refresh_all(full=full)
                    continue
                for name in kind.names():
                    try:
                        done.append(self._refresh_one(kind, name, full=full))
                    except Unable:
                        raise
                    except BelvedereError as error:
                        # The others do not wait for one that cannot be refreshed.
                        broken.append(Broken(name, name, error))
        refuse_broken(broken)
        return done

    @staticmethod
    def _refresh_one(kind: Kind, name: str, *, full: bool) -> Any:
        with _computing(repr(name)):
            return kind.refresh(name, full=full)

    def advance(self, name: str, *tables: str) -> Any:
        """Apply only some tables' pending changes to what is derived; the others' stay pending."""
        kind = self._kind(name)
        if kind is not None:
            canonical = canonical_name(self._door, name)
            others = [self._input(name, kind.reads(canonical), t) for t in tables]
            _refuse_none(others, kind.reads(canonical))
            with _computing(repr(name)), self._door.one_call():
                return kind.advance(canonical, others)
        view = the_view(self._door, name)
        only = [self._input(name, view.inputs, t) for t in tables]
        _refuse_none(only, view.inputs)
        return self._calls.advance(view, only)

    def check(self, name: str, **asked: Any) -> Any:
        """Whether an update through a view can be done as asked: insert=, delete= or update=.

        A row is a mapping of the view's columns to values, several are a list, an update is a pair
        of the old and the new rows; mode= is AUTO, EXACT or FAST.
        """
        kind = self._kind(name)
        if not isinstance(kind, Writable):
            raise Invalid(
                f"{name!r} is not an updatable view",
                hint="CREATE UPDATABLE VIEW",
                reason="NOT_UPDATABLE",
            )
        with _computing(f"the update of {name!r}"), self._door.one_call():
            return kind.check(canonical_name(self._door, name), **asked)

    def explain(self, name: str) -> Any:
        """A view's plan, how changes reach it, the SQL of a refresh; after one, what ran."""
        kind = self._kind(name)
        if kind is not None:
            return kind.explain(canonical_name(self._door, name))
        return self._views.explained(name)

    def status(self) -> Statuses:
        """Everything derived: its vector, what its tables did since, its last refresh."""
        with self._door.one_call():
            return everything(self._door, self._kinds)

    def calibrate(
        self, name: str, tables: Collection[str] | None = None, *, live: bool = False
    ) -> Calibration:
        """Measure what changes of a view's tables cost it, and save that with the view.

        On a scratch copy, unless `live`: then what is pending is applied to the view itself.
        """
        with _computing(repr(name)):
            return self._limits.calibrate(name, tables=tables, on_the_view=live)

    def plan(self, name: str, arrivals: str | Path | Sequence[Arrival] = "observed") -> Forecast:
        """What the service would do for a view on a stream of arrivals, and what it would cost."""
        return self._limits.plan(name, arrivals)

    def serve(self, **options: Any) -> SchedulingService:
        """A service that keeps the response limits of views; its `run` works until `stop`."""
        return self._limits.service(self, **options)

    def history(self, name: str, limit: int | None = None) -> History:
        """The refreshes of a view, newest first, all or only the last ones."""
        return history(self._door, name, limit)

    def clean(self, name: str) -> Cleaned:
        """Bring a view's sample and its outliers, not the view, to the newest versions."""
        view = the_view(self._door, name)
        samples = samples_of(self._door, view.name)
        if not samples:
            raise no_sample(view.name)
        done = self._calls.samples(view, samples)
        for sample in samples:
            if update_bounds(self._door, view, sample):
                done += self._calls.samples(view, [the_view(self._door, sample.name)])
        return Cleaned(view.name, tuple(done))

    def estimate(
        self,
        query: str,
        *,
        confidence: float = 0.95,
        method: str = "AUTO",
        clean: bool = True,
        at: Mapping[str, int] | None = None,
    ) -> EstimatedAnswer | CorrectedRows:
        """Answer a query on a sampled view as of now, with intervals, without refreshing the view.

        `clean=False` answers as of the sample's versions; `at` says which versions these must be.
        """
        first = self.clean if clean and at is None else str
        with _computing("the estimate"):
            return estimate_query(self._door, first, query, confidence, method, at or {})

    def sampling_plan(self, name: str, **given: Any) -> SamplingPlan:
        """The best sampling ratio of a view for refreshes and cleanings that share one throughput.

        rate= is the changed rows that arrive in a second; refresh_cost= and clean_cost= are
        (seconds, seconds per row). What is not given is taken from what is recorded.
        """
        return sampling_plan(self._door, name, **given)

    def view(self, name: str) -> ViewHandle:
        """A view by name."""
        return ViewHandle(self, the_view(self._door, name))

    def synopsis(self, name: str) -> SynopsisHandle:
        """A synopsis by name."""
        kept = next(kind for kind in self._kinds if isinstance(kind, Synopses))
        return kept.handle(canonical_name(self._door, name))

    def enable_change_feed(self, table: str) -> None:
        """Record a table's changes from now on, so that views over it can be refreshed from them."""
        self._door.enable_change_feed(self._door.table(canonical_name(self._door, table)))

    def declare_key(self, table: str, columns: Iterable[str]) -> None:
        """Declare, and verify, that no two rows of a table agree on these columns."""
        lake_keys.declare_key(self._door, table, list(columns))

    def declare_foreign_key(
        self, table: str, columns: Iterable[str], parent: str, parent_columns: Iterable[str]
    ) -> None:
        """Declare, and verify, that these columns of a table refer to rows of another."""
        lake_keys.declare_foreign_key(
            self._door, table, list(columns), parent, list(parent_columns)
        )

    def close(self) -> None:
        """Let go of the lake; a Spark session that you gave stays open."""
        for kind in self._kinds:
            kind.close()
        self._door.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _kind(self, name: str) -> Kind | None:
        """The kind of derivation that a name is of; None if it is a view or nothing."""
        if not self._kinds:
            return None
        canonical = canonical_name(self._door, name)
        return next((kind for kind in self._kinds if canonical in kind.names()), None)

    def _write(self, statement: Write | ExplainWrite, text: str) -> DataFrame | None:
        """Run a write that goes through something derived; None if it does not."""
        explain = isinstance(statement, ExplainWrite)
        write = statement.write if isinstance(statement, ExplainWrite) else statement
        inner = statement.text if isinstance(statement, ExplainWrite) else text
        for name in write.names:
            kind = self._kind(name) if is_here(self._door, name) else None
            if isinstance(kind, Writable):
                with self._door.one_call():
                    return kind.write(
                        canonical_name(self._door, name), write.kind, inner, explain=explain
                    )
        return None

    def _refresh(self, statement: Refresh) -> DataFrame:
        done = self.refresh(statement.name, full=statement.full)
        name, changed = getattr(done, "name", statement.name), getattr(done, "rows_changed", None)
        row = (name, done.strategy, done.reason, changed, round(done.seconds, 3))
        schema = "view string, strategy string, reason string, rows_changed bigint, seconds double"
        return self.spark.createDataFrame([row], schema)

    def _clean(self, statement: CleanSample) -> DataFrame:
        done = self.clean(statement.view)
        return self.spark.createDataFrame([(str(done),)], "result string")

    def _estimate(self, statement: Estimate) -> DataFrame:
        return self.estimate(
            statement.query,
            confidence=statement.confidence,
            method=statement.method,
            clean=statement.clean,
        ).df()

    def _input(self, name: str, inputs: Collection[str], table: str) -> str:
        """The table of a plan that a user's name means: a view stands for its state."""
        canonical = canonical_name(self._door, table)
        for candidate in (canonical, stored_of(canonical)):
            if candidate in inputs:
                return candidate
        raise Invalid(
            f"{name!r} does not read {table!r}",
            hint=f"it reads {', '.join(inputs)}",
            reason="NOT_IN_QUERY",
        )


@contextmanager
def _computing(what: str) -> Iterator[None]:
    """Errors in the data, and what the machine could not do, leave this block as ours."""
    with blaming_the_machine(), computing(what):
        yield


def _subject(statement: Statement) -> str:
    """What a statement computes, for errors."""
    name = getattr(statement, "name", "") or getattr(statement, "view", "")
    return repr(name) if name else "the statement"


def _refuse_none(tables: list[str], inputs: Collection[str]) -> None:
    if not tables:
        raise Invalid(
            "advance needs a table", hint=f"it reads {', '.join(inputs)}", reason="BAD_VALUE"
        )


class ViewHandle:
    """A view of a lake."""

    def __init__(self, lake: Lake, view: View) -> None:
        self._lake = lake
        self._view = view

    @property
    def name(self) -> str:
        return self._view.name

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The declared columns with their types."""
        return self._view.definition.columns

    def df(self, *, between: bool = False) -> DataFrame:
        """The view's rows: exactly the declared columns.

        Of a view with a response limit those of its last state in which all tables were at one
        point, or if asked for the newest, which may be in between.
        """
        lake = self._lake
        version = None if between else lake._limits.version(self._view)
        return lake.spark.sql(catalog_views.read_sql(lake._door, self._view, version))

    def refresh(self, *, full: bool = False) -> Outcome:
        """Bring it to the newest versions."""
        done: Outcome = self._lake.refresh(self.name, full=full)
        return done
