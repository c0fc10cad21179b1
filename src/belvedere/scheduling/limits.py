"""Response limits, as a lake has them: set, measured, planned, served, and what is shown meanwhile.

A view with a limit is advanced table by table. Under its name stands its last state in which all
tables were at one point; the one in between is for those who ask for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from belvedere.delta import log
from belvedere.delta.snapshots import stores_of_tables
from belvedere.errors import BelvedereError
from belvedere.lake.capabilities import reads_files
from belvedere.lake.spark_lake import SparkLake
from belvedere.scheduling.calibrate.calibration import SIZES, calibrate, live
from belvedere.scheduling.model.arrivals import Arrival
from belvedere.scheduling.notify.subscriptions import Desk
from belvedere.scheduling.schedules import (
    KIND,
    Calibration,
    calibrated,
    forget,
    schedules,
    set_limit,
    the_schedule,
)
from belvedere.scheduling.serve.preview import Outlook, plan
from belvedere.scheduling.serve.service import Answer, Served, Service
from belvedere.scheduling.serve.watcher import consistent_version
from belvedere.sql.names import hidden
from belvedere.sql.statements.views import AlterLimit
from belvedere.storage.store import ObjectStore
from belvedere.views.catalog import the_view
from belvedere.views.catalog_views import show
from belvedere.views.definition import View

SENDERS = 4
"""Webhooks and commands on their way at a time."""
SETTLED = 100_000_000
"""Nanoseconds after which a directory's time is sure to be of its last change."""


class Lakelike(Served, Protocol):
    """What a lake does for the service and its subscriptions."""

    def sql(self, text: str) -> Any: ...


@dataclass
class Limits:
    """The limits of one lake."""

    door: SparkLake
    shown: dict[str, int | None] = field(default_factory=dict)
    _seen: dict[str, tuple[ObjectStore, int]] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _read_at: int = -1

    def alter(self, statement: AlterLimit) -> None:
        """Set a limit, or take it away."""
        set_limit(self.door, statement.name, statement.seconds)
        if statement.seconds is None:
            view = the_view(self.door, statement.name)
            self.shown.pop(view.stored, None)
            self._seen.pop(view.name, None)
            show(self.door, view)
        self.show_consistent()

    def calibrate(
        self,
        name: str,
        *,
        tables: Collection[str] | None = None,
        sizes: Sequence[int] = SIZES,
        on_the_view: bool = False,
    ) -> Calibration:
        """Measure what changes cost, and save it with the view."""
        if on_the_view:
            known = the_schedule(self.door, name).calibration
            found = live(self.door, name, known, tables)
        else:
            found = calibrate(self.door, name, tables=tables, sizes=sizes)
        schedule = calibrated(self.door, name, found)
        if schedule.limit is not None:
            set_limit(self.door, name, schedule.limit)  # refused if it cannot be kept
        return found

    def plan(self, name: str, arrivals: str | Path | Sequence[Arrival]) -> Outlook:
        """What the service would do."""
        return plan(self.door, name, arrivals)

    def forget(self, name: str) -> None:
        """A view is dropped or replaced."""
        forget(self.door, name)
        self._seen.clear()

    def version(self, view: View) -> int | None:
        """The version of a view's state to show; None is the newest."""
        limited = the_schedule(self.door, view.name).limit is not None
        return consistent_version(self.door, view) if limited else None

    def show_consistent(self) -> None:
        """Put the last state at one point of every view with a limit under its name.

        Before every statement: so without limits it looks at one directory, and with limits at the
        newest version of each view.
        """
        for name in self._limited():
            try:
                store, version = self._seen.get(name, (None, -1))
                if store is None or log.newest_version(store) != version:
                    self._show(name)
            except (BelvedereError, OSError):
                # What cannot be read is for status() to tell.
                continue

    def _limited(self) -> list[str]:
        """The views that have a limit, read again when any schedule was saved or dropped."""
        saves = self.door.saves
        at = saves.changed(KIND) if saves is not None else 0
        if at != self._read_at:
            self._names = [schedule.view for schedule in schedules(self.door)]
            # What was saved within the same tick of the file system's clock could be missed.
            settled = time.time_ns() - at > SETTLED
            self._read_at = at if settled else -1
        return self._names if at else []

    def _show(self, name: str) -> None:
        view = the_view(self.door, name)
        table = self.door.table(view.stored)
        version = consistent_version(self.door, view)
        if self.shown.get(view.stored, -1) != version:
            show(self.door, view, version)
            self.shown[view.stored] = version
        if reads_files(table):
            self._seen[name] = table.store, table.version

    def service(
        self,
        lake: Lakelike,
        *,
        allowed: Sequence[str] = (),
        told: Callable[[str], None] = lambda _: None,
        **options: Any,
    ) -> Service:
        """A service that keeps the limits and looks after subscriptions; `run` starts it."""
        service = Service(lake, self.door, told=told, **options)
        apart = ThreadPoolExecutor(SENDERS, thread_name_prefix="belvedere-delivery")
        asking = _Asking(lake, service, self.door)
        desk = Desk(self.door, asking, allowed, told=told, apart=apart)
        service.between, service.after = desk.turn, desk.close
        return service


@dataclass(frozen=True)
class _Asking:
    lake: Lakelike
    service: Service
    door: SparkLake

    def ask(self, view: str) -> Answer:
        return self.service.ask(view)

    def rows(self, query: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.lake.sql(query).collect()]

    def versions(self) -> Mapping[str, int]:
        """The newest version of every table, from the logs."""
        if self.door.home is None:
            return {}
        stores = stores_of_tables(self.door.home)
        return {name: log.newest_version(s) for name, s in stores.items() if not hidden(name)}
