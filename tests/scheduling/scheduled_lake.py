"""A lake without Spark with views that have limits, and a double of it that moves only vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deltalake import DeltaTable

from belvedere.delta.stamps import Position, Stamp
from belvedere.derivations.history import BEHIND, note
from belvedere.lake.offline import OfflineLake
from belvedere.scheduling.calibrate.fitting import FittedCost, JointBatch, MeasuredBatch
from belvedere.scheduling.model.cost_functions import LinearCost
from belvedere.scheduling.schedules import Calibration, Schedule, save_schedule
from belvedere.sql.names import stored_name
from tests import small_lake

BOTH = (
    "SELECT owner, count(*) AS n FROM video v JOIN log l ON v.video_id = l.video_id GROUP BY owner"
)
COSTS = (LinearCost(0.01, 0.2), LinearCost(0.001, 1.0))


def make(directory: Path, *names: str, limit: float = 5.0, kind: str = "") -> OfflineLake:
    """Tables, views `names` over both, each with a limit and a calibration."""
    small_lake.make(directory)
    shelf = OfflineLake(directory)
    for name in names:
        small_lake.view(directory, name, BOTH, {"owner": "string", "n": "bigint"}, ["video", "log"])
        fits = tuple(
            FittedCost(
                cost, 0.0, (MeasuredBatch(1, cost(1), kind), MeasuredBatch(100, cost(100), kind))
            )
            for cost in COSTS
        )
        save_schedule(
            shelf,
            Schedule(
                name, limit, Calibration(("video", "log"), fits, (JointBatch((1, 1), 1.1, kind),))
            ),
        )
    return shelf


def add(directory: Path, table: str, count: int) -> None:
    """One commit of so many rows."""
    other = {"video": "owner", "log": "bytes"}[table]
    values: list[object] = ["c"] * count if table == "video" else [1] * count
    small_lake.write(directory / table, {"video_id": [7] * count, other: values})


@dataclass
class Stand:
    """A double of a lake: moves vectors as advances do, with a simulated clock."""

    shelf: OfflineLake
    now: float = 0.0
    factor: float = 1.0
    did: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def advance(self, name: str, *tables: str) -> Any:
        return self._move(name, tables)

    def refresh(self, name: str | None = None, *, full: bool = False) -> Any:
        assert name is not None
        return self._move(name, ("video", "log"))

    def _move(self, name: str, tables: tuple[str, ...]) -> Any:
        from belvedere.views.catalog import the_view

        found = self.shelf.stamp(self.shelf.table(the_view(self.shelf, name).stored))
        assert found.stamp is not None
        newest = {t: self._position(t) for t in ("video", "log")}
        vector = {t: newest[t] if t in tables else found.stamp.vector[t] for t in newest}
        behind = [t for t in newest if vector[t].version != newest[t].version]
        how = note("merge", "", _time())
        stamp = Stamp(
            "id",
            found.stamp.refresh + 1,
            vector,
            {**how, **({BEHIND: ", ".join(behind)} if behind else {})},
        )
        small_lake._commit(self.shelf.directory / stored_name(name), [1], stamp)
        self.did.append((name, tables))
        self.now += self.factor * sum(
            c(1) for t, c in zip(newest, COSTS, strict=True) if t in tables
        )
        return SimpleNamespace(
            strategy="merge", vector_after={t: p.version for t, p in vector.items()}
        )

    def _position(self, table: str) -> Position:
        opened = DeltaTable(str(self.shelf.directory / table))
        return Position(str(opened.metadata().id), opened.version())


def _time() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)
