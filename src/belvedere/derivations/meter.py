"""The meter: what a refresh takes, begun with it and read when it has committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from belvedere.delta.change_sizes import change_bytes, change_rows, version_bytes
from belvedere.delta.history import Event
from belvedere.delta.stamps import Vector
from belvedere.derivations.ledger import Record
from belvedere.execution.costs import Candidate
from belvedere.lake.tables.table import Table

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

FROM_CHANGES = frozenset(("merge", "replace keys"))


@dataclass(frozen=True)
class Committed:
    """An advance that was committed: of what, how, from where to where."""

    kind: str
    name: str
    id: str
    refresh: int
    strategy: str
    reason: str
    before: Vector
    after: Vector
    rows: int | None


@dataclass
class Meter:
    """One refresh: when it began, the versions of tables it opened, the jobs it ran."""

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    opened: set[tuple[str, int]] = field(default_factory=set)
    candidates: tuple[Candidate, ...] = ()
    jobs: int | None = None
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._started

    @contextmanager
    def counting(self, lake: SparkLake, name: str) -> Iterator[None]:
        """Count the Spark jobs of this block as those of the advance."""
        from belvedere.lake.sessions.job_counter import counted

        with counted(lake.spark, f"refresh {name}") as jobs:
            yield
        self.jobs = jobs.count

    def record(
        self,
        done: Committed,
        table: Callable[[str], Table],
        event: Callable[[], Event | None],
    ) -> Record | None:
        """What goes into the ledger about an advance that was committed.

        `event` finds what the log says of its commit.
        """
        try:
            return self._measured(done, table, event())
        except Exception:
            # It is committed: a log that was cleaned up meanwhile must not fail it.
            return None

    def _measured(
        self, done: Committed, table: Callable[[str], Table], event: Event | None
    ) -> Record:
        moves = list(_moves(done.before, done.after))
        pending = {t: change_rows(table(t), old, new) for t, old, new in moves}
        sizes = [version_bytes(table(t), version) for t, version in self.opened]
        if done.strategy in FROM_CHANGES:
            sizes += [change_bytes(table(t), old, new) for t, old, new in moves]
        return Record(
            kind=done.kind,
            view=done.name,
            view_id=done.id,
            refresh=done.refresh,
            started=self.began,
            seconds=self.seconds,
            strategy=done.strategy,
            reason=done.reason,
            candidates=self.candidates,
            rows=event.rows if done.rows is None and event else done.rows,
            pending={t: n for t, n in pending.items() if n is not None},
            jobs=self.jobs,
            bytes_read=_total(sizes),
            vector_before={t: p.version for t, p in done.before.items()},
            vector_after={t: p.version for t, p in done.after.items()},
            version=event.version if event else None,
            engine=event.engine if event else "",
        )


def _moves(before: Vector, after: Vector) -> Iterator[tuple[str, int, int]]:
    """The tables that went on, from where, to where."""
    for name, new in after.items():
        old = before.get(name)
        if old is not None and old.id == new.id and old != new:
            yield name, old.version, new.version


def _total(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
