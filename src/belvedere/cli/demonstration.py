"""The demonstration: a lake, a view, changes, refreshes, and a comparison with recomputation."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from belvedere.api import Lake, connect
from belvedere.cli.progress import working
from belvedere.derivations.outcome import Outcome
from belvedere.errors import Internal, Invalid
from belvedere.listing import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Say = Callable[[str], None]

VIDEOS, VISITS = 20_000, 2_000_000

TABLES = (
    "CREATE TABLE video (video_id BIGINT, owner STRING, duration DOUBLE)",
    "CREATE TABLE log (visit_id BIGINT, video_id BIGINT, bytes BIGINT)",
    f"INSERT INTO video SELECT id, concat('owner ', id % 500), id % 600 + 0.5 FROM range({VIDEOS})",
    f"INSERT INTO log SELECT id, pmod(hash(id), {VIDEOS}), id % 9000 FROM range({VISITS})",
)
QUERY = """\
SELECT v.video_id, owner, count(*) AS n, sum(bytes) AS bytes
FROM log l JOIN video v ON l.video_id = v.video_id
GROUP BY v.video_id, owner"""
SAMPLE = "SELECT * FROM visits ORDER BY n DESC, video_id LIMIT 4"
BOTH_CHANGE = (
    f"INSERT INTO log SELECT {VISITS} + id, id % 50, 700 FROM range(1000)",
    f"DELETE FROM log WHERE visit_id BETWEEN {VISITS // 2} AND {VISITS // 2 + 500}",
    "UPDATE video SET owner = 'owner of many' WHERE video_id < 10",
    "DELETE FROM video WHERE video_id = 100",
)
MORE_CHANGES = (
    f"INSERT INTO log SELECT {2 * VISITS} + id, {VIDEOS} - 1 - id % 20, 5 FROM range(400)",
    "UPDATE video SET owner = 'owner 1' WHERE video_id = 0",
)


def demonstrate(say: Say, keep: Path | None = None) -> None:
    """Demonstrate Belvedere in a temporary directory, or in the directory `keep`, which stays."""
    if keep is not None:
        if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
            raise Invalid(
                f"{keep} is not an empty directory", hint="name a new one", reason="UNREADABLE_FILE"
            )
        _Demonstration(say, keep).run()
        say(f"\nThe lake stays in {keep}. Look at it: belvedere status --lake {keep}")
        return
    with tempfile.TemporaryDirectory(prefix="belvedere-demo-") as directory:
        _Demonstration(say, Path(directory) / "lake").run()
    say("\nKeep the lake next time: belvedere demo --keep DIR")


class _Demonstration:
    def __init__(self, say: Say, directory: Path) -> None:
        self.say = say
        self.directory = directory

    def run(self) -> None:
        started = time.monotonic()
        with timed("starting Spark") as took:
            lake = connect(self.directory)
        with lake:
            self.say(f"Spark is up ({took()}). The lake is a directory of Delta tables.")
            self._tables(lake)
            self._view(lake)
            self._refresh(lake)
            last = self._advance(lake)
            self._explain(lake)
            self._verify(lake, last)
        self.say(f"\nDone in {time.monotonic() - started:.0f} s.")

    def _tables(self, lake: Lake) -> None:
        self._title("Two tables")
        with timed("writing tables") as took:
            for statement in TABLES:
                lake.sql(statement)
        self.say(f"video has {VIDEOS:,} rows, log has {VISITS:,} ({took()}).")

    def _view(self, lake: Lake) -> None:
        self._title("A materialized view over both")
        statement = f"CREATE MATERIALIZED VIEW visits AS\n{QUERY}"
        self.say(statement)
        with timed("filling the view") as took:
            lake.sql(statement)
        self.say(f"\nIt is filled ({took()}) and reads like a table:\n")
        self._show(lake.sql(SAMPLE))

    def _refresh(self, lake: Lake) -> None:
        self._title("Both tables change, then the view follows")
        self._change(lake, BOTH_CHANGE)
        self.say(f"\n{lake.status()}\n\nREFRESH MATERIALIZED VIEW visits")
        with working("refreshing"):
            outcome = _one(lake.refresh("visits"))
        self._report(outcome)
        self._show(lake.sql(SAMPLE))

    def _advance(self, lake: Lake) -> Outcome:
        self._title("One table at a time: advance visits by log only")
        self._change(lake, MORE_CHANGES)
        with working("advancing"):
            outcome = lake.advance("visits", "log")
        self._report(outcome)
        self.say(f"{lake.status()}\n\nA refresh then applies the rest:")
        with working("refreshing"):
            outcome = _one(lake.refresh("visits"))
        self._report(outcome)
        return outcome

    def _explain(self, lake: Lake) -> None:
        self._title("How a change passes each operator (more: belvedere explain visits)")
        explanation = lake.explain("visits")
        self.say(explanation.part("Plan, and how a change passes each operator"))
        self.say("\nIncremental?\n" + explanation.part("Incremental"))

    def _verify(self, lake: Lake, last: Outcome) -> None:
        self._title("Is it right, and what did it cost?")
        with working("comparing"):
            missing, extra = differences(lake, "visits", QUERY)
        if missing or extra:
            raise Internal(f"the view lacks {missing} rows and has {extra} too many")
        self.say("The view equals its query run again: EXCEPT ALL is empty in both directions.")
        with working("recomputing"):
            full = _one(lake.refresh("visits", full=True))
        self.say(
            f"The last refresh from changes took {last.seconds:.1f} s; "
            f"computing the view from scratch takes {full.seconds:.1f} s."
        )

    def _change(self, lake: Lake, statements: tuple[str, ...]) -> None:
        for statement in statements:
            self.say(statement)
            with working("changing data"):
                lake.sql(statement)

    def _report(self, outcome: Outcome) -> None:
        before, after = _vector(outcome.vector_before), _vector(outcome.vector_after)
        self.say(f"{outcome}\nvector {before} -> {after}\n")

    def _show(self, frame: DataFrame) -> None:
        self.say(table(frame.columns, [tuple(row) for row in frame.collect()], null="NULL"))

    def _title(self, text: str) -> None:
        self.say(f"\n== {text}\n")


@contextmanager
def timed(step: str) -> Iterator[Callable[[], str]]:
    """Run a step with a progress line; the value is a function that returns the time it took."""
    started = time.monotonic()
    seconds = 0.0
    with working(step):
        yield lambda: f"{seconds:.1f} s"
        seconds = time.monotonic() - started


def differences(lake: Lake, view: str, query: str) -> tuple[int, int]:
    """The numbers of rows that a view lacks, and has too many, compared with its query run again."""
    counts = [
        f"(SELECT count(*) FROM ({a} EXCEPT ALL {b}))"
        for a, b in ((query, f"TABLE {view}"), (f"TABLE {view}", query))
    ]
    row = lake.sql(f"SELECT {', '.join(counts)}").collect()[0]
    return int(row[0]), int(row[1])


def _one(outcome: Outcome | list[Outcome]) -> Outcome:
    assert isinstance(outcome, Outcome)
    return outcome


def _vector(vector: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {version}" for name, version in vector.items()) + "}"
