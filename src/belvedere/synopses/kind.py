"""Synopses as a kind of derivation: what a lake asks of them, and the statements that make them.

To look at them reads what is saved. What computes is imported when it is used, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from belvedere.derivations.registry import the_saves
from belvedere.derivations.status import Status, pending_of
from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Head, Saves
from belvedere.sql.binder.naming import did_you_mean
from belvedere.sql.statements.derivations import Describe, Drop, Explain, Refresh, Show
from belvedere.sql.statements.synopses import CreateSynopsis
from belvedere.views.catalog import canonical_name, shown_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.lake.spark_lake import SparkLake
    from belvedere.synopses.handle import SynopsisHandle
    from belvedere.synopses.refresh import Bringer, Brought, Live

SAVED_AS = "synopsis"


class Synopses:
    """The synopses of a lake."""

    word = "SYNOPSIS"

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._live: dict[str, Live] = {}

    def names(self) -> Collection[str]:
        """See `Kind`."""
        return self._lake.saves.names(SAVED_AS) if self._lake.saves is not None else []

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        """See `Kind`."""
        found: Mapping[str, Collection[str]] = self._head(name).definition["reads"]
        return found

    def refresh(self, name: str, *, full: bool = False) -> Brought:
        """See `Kind`."""
        return self._bring(name, None, full=full)

    def advance(self, name: str, tables: Sequence[str]) -> Brought:
        """See `Kind`."""
        return self._bring(name, tables, full=False)

    def _bring(self, name: str, only: Sequence[str] | None, *, full: bool) -> Brought:
        with self._bringer(name) as bringer:
            # Until all is saved, what is in memory must not be taken for what is saved.
            live, done = bringer.bring(self._live.pop(name, None), only, full=full)
            self._live[name] = live
        return done

    @contextmanager
    def _bringer(self, name: str) -> Iterator[Bringer]:
        from belvedere.lake.pins import Pins
        from belvedere.synopses.refresh import Bringer

        saves = the_saves(self._lake)
        with saves.locked(SAVED_AS, name), Pins(self._door) as pins:
            yield Bringer(self._door, saves, name, pins)

    @property
    def _door(self) -> SparkLake:
        assert hasattr(self._lake, "spark"), "what only looks does not refresh"
        return self._lake  # type: ignore[return-value]

    def live(self, name: str) -> Live:
        """A synopsis in memory as it was last saved."""
        from belvedere.lake.records.saved_state import Corrupt
        from belvedere.synopses.refresh import load

        head = self._head(name)
        held = self._live.get(name)
        if held is None or held.vector != head.vector:
            try:
                self._live[name] = load(self._lake, self._saves, name)
            except Corrupt:
                if not hasattr(self._lake, "spark"):
                    raise
                self._bring(name, [], full=True)
        return self._live[name]

    def handle(self, name: str) -> SynopsisHandle:
        """A synopsis by its canonical name."""
        from belvedere.synopses.handle import SynopsisHandle

        self._head(name)
        return SynopsisHandle(self, name, self._lake)

    def explain(self, name: str) -> str:
        """See `Kind`."""
        from belvedere.synopses.describe import told

        return told(self.live(name))

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
        self._live.clear()

    def _create(self, statement: CreateSynopsis) -> DataFrame:
        from belvedere.synopses.refresh import declared
        from belvedere.synopses.sample.reservoir import SampleKind as Sample

        name = canonical_name(self._door, statement.name)
        if statement.if_not_exists and name in self.names():
            return self._rows([], "result string")
        sample = Sample(statement.rows, statement.rate, statement.replacement)
        with self._bringer(name) as bringer:
            definition, planned = declared(
                self._door, statement.name, statement.query, sample, statement.lead
            )
            self._live[name] = bringer.create(definition, planned)
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

        found = facts(self.live(self._named(statement.name)))
        return self._rows(found, "name string, value string")

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
        self._live.pop(name, None)
        self._saves.drop(SAVED_AS, name)
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
