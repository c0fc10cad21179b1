"""A small lake that things happen to: two tables, an aggregate over their join and a bag.

Whatever happens to `log`, ordinary changes come before it and after it, the refresh must give the
rows of recomputation with the strategy and the reason that are expected, and the next one must be
incremental again. What needs no Spark is written without it, for speed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import belvedere as bv
from tests.views.comparison import assert_all_fresh

VIEWS = {
    "visits": "SELECT owner, count(*) AS n, sum(bytes) AS bytes FROM log l"
    " JOIN video v ON l.video_id = v.video_id GROUP BY owner",
    "large": "SELECT video_id, bytes FROM log WHERE bytes > 10",
}
COLUMNS = "video_id INT, bytes INT, spare INT"


@dataclass
class EventsLake:
    """The lake and its directory."""

    lake: bv.Lake
    directory: Path
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def fill(self, properties: str = "") -> EventsLake:
        """The tables with a few rows, and the views."""
        self.run(f"CREATE TABLE log ({COLUMNS}) {properties}", *self.rows("log"))
        self.run("CREATE TABLE video (video_id INT, owner STRING)")
        self.run("INSERT INTO video VALUES (1, 'ada'), (2, 'bob'), (3, 'ada')")
        for name, query in VIEWS.items():
            self.run(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        return self

    def run(self, *statements: str) -> None:
        """Statements, as someone else would run them: nothing refuses any."""
        for statement in statements:
            ours = "MATERIALIZED VIEW" in statement
            (self.lake.sql if ours else self.lake.spark.sql)(statement).collect()

    def rows(self, table: str) -> list[str]:
        n = next(self.numbers)
        return [f"INSERT INTO {table} VALUES (1, {n}, 0), (2, {n + 10}, 0), (3, {n + 20}, 0)"]

    def change(self) -> None:
        """Rows come and go in both tables."""
        n = next(self.numbers)
        self.run(
            f"INSERT INTO log (video_id, bytes) VALUES (1, {n}), (2, {n + 10}), (2, {n + 20})",
            f"DELETE FROM log WHERE bytes = {n + 9}",
        )
        rows = pa.table({"video_id": pa.array([n % 5], pa.int32()), "owner": [f"o{n % 3}"]})
        write_deltalake(str(self.directory / "video"), rows, mode="append")

    def refresh(self) -> dict[str, tuple[str, str]]:
        """How each view was refreshed; its rows are those of recomputation."""
        done = self.lake.refresh()
        assert isinstance(done, list)
        assert_all_fresh(self.lake, VIEWS, ("log", "video"))
        return {r.name: (r.strategy, r.reason) for r in done}

    def outcome(self, happens: Callable[[EventsLake], None]) -> tuple[str, str]:
        """How the views are refreshed after an event among changes, and incrementally after that."""
        self.change()
        happens(self)
        self.change()
        (outcome,) = set(self.refresh().values())
        self.change()
        assert set(self.refresh().values()) == {("merge", "")}
        return outcome
