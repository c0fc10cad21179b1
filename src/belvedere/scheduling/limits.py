"""The response limits of a lake: set them, calibrate, plan, serve, and show consistent states.

A view with a limit is advanced table by table. Its name shows the last consistent state, in which all
tables were at one point in time; states in between are shown on request.
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
from belvedere.scheduling.calibrate.calibration import SIZES, calibrate, calibrate_live
from belvedere.scheduling.model.arrivals import Arrival
from belvedere.scheduling.notify.notifier import Notifier
from belvedere.scheduling.schedules import (
    KIND,
    Calibration,
    drop_schedule,
    save_calibration,
    schedules,
    set_limit,
    the_schedule,
)
from belvedere.scheduling.serve.preview import Forecast, plan
from belvedere.scheduling.serve.requests import RefreshAnswer
from belvedere.scheduling.serve.service import SchedulingService, ServedLake
from belvedere.scheduling.serve.watcher import consistent_version
from belvedere.sql.names import hidden
from belvedere.sql.statements.views import AlterLimit
from belvedere.storage.store import ObjectStore
from belvedere.views.catalog import the_view
from belvedere.views.catalog_views import show
from belvedere.views.definition import View

MAX_DELIVERIES = 4
"""The webhooks and commands that are sent at the same time."""
CLOCK_TICK = 100_000_000
"""Nanoseconds after a change in which another change may leave the directory's time the same."""


class ServingLake(ServedLake, Protocol):
    """What the service and the notifier call of a lake."""

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
        """Set or remove a limit."""
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
        """Measure the costs of changes, and save them with the view."""
        if on_the_view:
            earlier = the_schedule(self.door, name).calibration
            calibration = calibrate_live(self.door, name, earlier, tables)
        else:
            calibration = calibrate(self.door, name, tables=tables, sizes=sizes)
        schedule = save_calibration(self.door, name, calibration)
        if schedule.limit is not None:
            set_limit(self.door, name, schedule.limit)  # Invalid if the limit cannot be kept
        return calibration

    def plan(self, name: str, arrivals: str | Path | Sequence[Arrival]) -> Forecast:
        """The forecast of the service for a view."""
        return plan(self.door, name, arrivals)

    def forget(self, name: str) -> None:
        """Delete the schedule of a view that is dropped or replaced."""
        drop_schedule(self.door, name)
        self._seen.clear()

    def version(self, view: View) -> int | None:
        """The version of a view's stored table to show; None means the newest."""
        limited = the_schedule(self.door, view.name).limit is not None
        return consistent_version(self.door, view) if limited else None

    def show_consistent(self) -> None:
        """Show the last consistent state of every view with a limit.

        This runs before every statement. Without limits it reads the time of one directory; with
        limits it reads the newest version of each view too.
        """
        for name in self._limited():
            try:
                store, version = self._seen.get(name, (None, -1))
                if store is None or log.newest_version(store) != version:
                    self._show(name)
            except (BelvedereError, OSError):
                # status() reports what cannot be read.
                continue

    def _limited(self) -> list[str]:
        """The views that have a limit; read again when a schedule was saved or deleted."""
        saves = self.door.saves
        at = saves.changed(KIND) if saves is not None else 0
        if at != self._read_at:
            self._names = [schedule.view for schedule in schedules(self.door)]
            # Another save within the same tick of the file system's clock would not change the time.
            settled = time.time_ns() - at > CLOCK_TICK
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
        lake: ServingLake,
        *,
        allowed: Sequence[str] = (),
        log: Callable[[str], None] = lambda _: None,
        **options: Any,
    ) -> SchedulingService:
        """A service that keeps the limits and serves subscriptions; `run` starts it."""
        service = SchedulingService(lake, self.door, log=log, **options)
        executor = ThreadPoolExecutor(MAX_DELIVERIES, thread_name_prefix="belvedere-delivery")
        access = _SubscriptionAccess(lake, service, self.door)
        notifier = Notifier(self.door, access, allowed, log=log, executor=executor)
        service.on_look, service.on_stop = notifier.turn, notifier.close
        return service


@dataclass(frozen=True)
class _SubscriptionAccess:
    lake: ServingLake
    service: SchedulingService
    door: SparkLake

    def refresh_now(self, view: str) -> RefreshAnswer:
        return self.service.refresh_now(view)

    def rows(self, query: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.lake.sql(query).collect()]

    def versions(self) -> Mapping[str, int]:
        """The newest version of every table, from the logs."""
        if self.door.home is None:
            return {}
        stores = stores_of_tables(self.door.home)
        return {name: log.newest_version(s) for name, s in stores.items() if not hidden(name)}
