"""A lake as its user holds it: SQL, views, refreshes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake import catalog as lake_catalog
from belvedere.lake import keys as lake_keys
from belvedere.lake.door import Door, open_directory, open_session
from belvedere.lake.machine import blaming_the_machine
from belvedere.sql.statements import (
    AlterPolicy,
    CreateView,
    DescribeView,
    DropTable,
    DropView,
    ExplainCreate,
    ExplainView,
    Refresh,
    ShowViews,
    parse_statement,
)
from belvedere.views import create as creation
from belvedere.views.catalog import (
    Broken,
    all_views,
    canonical_name,
    is_view,
    sound_and_broken,
    stored_of,
    the_view,
)
from belvedere.views.costs import learn
from belvedere.views.definition import View
from belvedere.views.describe import describe, show
from belvedere.views.explain import Explanation, explain
from belvedere.views.guard import guard
from belvedere.views.history import History
from belvedere.views.ledger import Ledger, readable
from belvedere.views.pins import Pins
from belvedere.views.references import told
from belvedere.views.refresh import Refreshed, refresh
from belvedere.views.status import Statuses, history, status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SIDE_BY_SIDE = 2
"""How many views refresh at once: most of a small refresh is waiting for the driver."""


def connect(where: str | Path | SparkSession) -> Lake:
    """A lake: a directory of Delta tables with a local Spark session, or the session you have."""
    with blaming_the_machine():
        door = open_directory(where) if isinstance(where, str | Path) else open_session(where)
        return Lake(door)


class Lake:
    """Delta tables and the views over them."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._last: dict[str, Refreshed] = {}
        for view in all_views(door):
            # What cannot be read is for status() to tell: the other views must still open.
            with suppress(BelvedereError):
                creation.show(door, view)

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        return self._door.spark

    def sql(self, text: str) -> DataFrame:
        """Run a statement: Belvedere's own, or any of Spark's."""
        statement = parse_statement(text)
        with blaming_the_machine():
            for kind, run in self._own().items():
                if isinstance(statement, kind):
                    return run(statement)
            guard(self._door, statement)
            with readable(self._door, text):
                return self._door.sql(text)

    def refresh(
        self, name: str | None = None, *, full: bool = False
    ) -> Refreshed | list[Refreshed]:
        """Bring a view, and the views it reads, to the newest versions; without a name, every view."""
        with self._refreshing() as ledger:
            if name is None:
                views, broken = sound_and_broken(self._door)
                with Pins(self._door, views) as pins:
                    done = self._bring_all(views, pins, ledger, full=full)
                _refuse_broken(broken)
                return done
            view = the_view(self._door, name)
            below = self._below(view)
            with Pins(self._door, [*below, view]) as pins:
                for needed in below:
                    self._bring(needed, pins, ledger)
                return self._bring(view, pins, ledger, full=full)

    def advance(self, name: str, *tables: str) -> Refreshed:
        """Apply only some tables' pending changes to a view; the others' stay pending."""
        with self._refreshing() as ledger:
            view = the_view(self._door, name)
            only = [self._input(view, t) for t in tables]
            if not only:
                raise Invalid("advance needs a table", hint=f"it reads {', '.join(view.inputs)}")
            with Pins(self._door) as pins:
                return self._bring(view, pins, ledger, only=only)

    def explain(self, name: str) -> Explanation:
        """A view's plan, how changes reach it, the SQL of a refresh; after one, what ran."""
        view = the_view(self._door, name)
        keys, last = told(self._door, view), self._last.get(view.stored)
        if last is None:
            return explain(view, keys)
        ran = [("SQL that ran", sql) for sql in last.sql]
        return explain(view, [*keys, ("Last refresh here", str(last)), *ran])

    def status(self) -> Statuses:
        """Every view: its vector, what its tables did since, its last refresh."""
        with self._door.one_call():
            return status(self._door)

    def history(self, name: str, limit: int | None = None) -> History:
        """The refreshes of a view, newest first, all or only the last ones."""
        return history(self._door, name, limit)

    def view(self, name: str) -> ViewHandle:
        """A view by name."""
        return ViewHandle(self, the_view(self._door, name))

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

    def _own(self) -> dict[type, Callable[[Any], DataFrame]]:
        """Belvedere's statements and what runs them."""
        return {
            CreateView: self._create,
            Refresh: self._refresh,
            ExplainCreate: self._explain_create,
            ExplainView: self._explain,
            ShowViews: self._show,
            DescribeView: self._describe,
            AlterPolicy: self._alter,
            DropView: self._drop,
            DropTable: self._drop_table,
        }

    def _create(self, statement: CreateView) -> DataFrame:
        creation.create_view(self._door, statement)
        return self._nothing()

    def _refresh(self, statement: Refresh) -> DataFrame:
        done = self.refresh(statement.name, full=statement.full)
        assert isinstance(done, Refreshed)
        row = (done.view, done.strategy, done.reason, done.rows_changed, round(done.seconds, 3))
        schema = "view string, strategy string, reason string, rows_changed bigint, seconds double"
        return self.spark.createDataFrame([row], schema)

    def _explain_create(self, statement: ExplainCreate) -> DataFrame:
        return self._text(explain(creation.plan_view(self._door, statement.create)))

    def _explain(self, statement: ExplainView) -> DataFrame:
        return self._text(self.explain(statement.name))

    def _show(self, _: ShowViews) -> DataFrame:
        schema = "name string, policy string, query string, error string"
        return self.spark.createDataFrame(list(show(self._door)), schema)

    def _describe(self, statement: DescribeView) -> DataFrame:
        view = the_view(self._door, statement.name)
        schema = "name string, value string, kind string"
        return self.spark.createDataFrame(list(describe(self._door, view)), schema)

    def _alter(self, statement: AlterPolicy) -> DataFrame:
        creation.alter_policy(self._door, statement.name, statement.policy)
        return self._nothing()

    def _drop(self, statement: DropView) -> DataFrame:
        creation.drop_view(self._door, statement.name, if_exists=statement.if_exists)
        return self._nothing()

    def _drop_table(self, statement: DropTable) -> DataFrame:
        name = canonical_name(self._door, statement.name)
        if is_view(self._door, name):
            raise Invalid(
                f"{statement.name!r} is a materialized view",
                hint=f"DROP MATERIALIZED VIEW {statement.name}",
            )
        creation.refuse_if_read(self._door, name, statement.name)
        if statement.if_exists and not self._door.exists(name):
            return self._nothing()
        if statement.view:
            lake_catalog.drop_view(self._door, name)
        else:
            lake_catalog.drop_table(self._door, name)
        return self._nothing()

    @contextmanager
    def _refreshing(self) -> Iterator[Ledger]:
        """One call that refreshes views, and records what it did."""
        with blaming_the_machine(), self._door.one_call(), Ledger(self._door.journal) as ledger:
            yield ledger

    def _bring_all(
        self, views: list[View], pins: Pins, ledger: Ledger, *, full: bool
    ) -> list[Refreshed]:
        """Refresh views side by side, each after those it reads; `views` has these first."""
        running: dict[str, Future[Refreshed]] = {}

        def after(view: View, below: list[Future[Refreshed]]) -> Refreshed:
            for input_refresh in below:
                input_refresh.result()
            return self._bring(view, pins, ledger, full=full)

        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for view in views:
                below = [running[t] for t in view.inputs if t in running]
                running[view.stored] = pool.submit(after, view, below)
        return [done.result() for done in running.values()]

    def _bring(
        self,
        view: View,
        pins: Pins,
        ledger: Ledger,
        *,
        full: bool = False,
        only: list[str] | None = None,
    ) -> Refreshed:
        done = refresh(self._door, view.name, full=full, only=only, pins=pins)
        for each in (*done.parts, done):
            ledger.add(each.record)
            learn(self._door, each.record)
        self._last[view.stored] = done
        return done

    def _text(self, explanation: Explanation) -> DataFrame:
        return self.spark.createDataFrame([(str(explanation),)], "plan string")

    def _below(self, view: View) -> list[View]:
        """The views that a view reads, directly or not, in the order to refresh them."""
        wanted: set[str] = set()
        every = {v.stored: v for v in all_views(self._door)}

        def visit(v: View) -> None:
            for table in v.inputs:
                if table in every and table not in wanted:
                    wanted.add(table)
                    visit(every[table])

        visit(view)
        return [v for stored, v in every.items() if stored in wanted]

    def _input(self, view: View, table: str) -> str:
        """The table of a view's plan that a user's name means: a view stands for its state."""
        canonical = canonical_name(self._door, table)
        for candidate in (canonical, stored_of(canonical)):
            if candidate in view.inputs:
                return candidate
        raise Invalid(
            f"{view.name!r} does not read {table!r}", hint=f"it reads {', '.join(view.inputs)}"
        )

    def _nothing(self) -> DataFrame:
        return self.spark.createDataFrame([], "result string")


def _refuse_broken(broken: list[Broken]) -> None:
    """An error for views that cannot be compiled, when the others are fresh."""
    if broken:
        names = ", ".join(repr(view.name) for view in broken)
        first = broken[0].error
        raise Invalid(
            f"every view is fresh but {names}: {first.message}",
            detail=first.detail,
            hint=first.hint,
            reason=first.reason,
        ) from first


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

    def df(self) -> DataFrame:
        """The view's rows as of its vector: exactly the declared columns."""
        return self._lake.spark.sql(creation.read_sql(self._lake._door, self._view))

    def refresh(self, *, full: bool = False) -> Refreshed:
        """Bring it to the newest versions."""
        done = self._lake.refresh(self.name, full=full)
        assert isinstance(done, Refreshed)
        return done
