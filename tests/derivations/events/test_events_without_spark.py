"""What happens to tables, for the kinds that are kept without Spark: every event, every kind.

`expected_outcomes` says what must happen.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from belvedere.errors import BelvedereError
from belvedere.sketches.upkeep import Upkeep
from tests.derivations.events.expected_outcomes import (
    ACTIONS,
    NEEDS,
    STRATEGIES,
    Outcome,
    expected,
    expected_next,
)
from tests.derivations.events.kinds_without_spark import (
    Derived,
    SketchWithoutSpark,
    SynopsisWithoutSpark,
    UpdatableWithoutSpark,
    captured,
)
from tests.derivations.events.table_events import EVENTS, EventTables, Row

KINDS: dict[str, Callable[[Path], Derived]] = {
    "sketch": SketchWithoutSpark,
    "synopsis": SynopsisWithoutSpark,
    "updatable view": UpdatableWithoutSpark,
    "updatable view, rows in tables": lambda at: UpdatableWithoutSpark(at, "TABLES"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tables, and one derivation of each kind over them."""
    directory = tmp_path_factory.mktemp("events") / "lake"
    directory.mkdir()
    EventTables(directory).fill()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Upkeep, "capture", captured)
        for create in KINDS.values():
            create(directory)
        yield directory


def act(derived: Derived, action: str) -> tuple[str, str]:
    """How it went, in the words that all kinds share."""
    try:
        if action == "refresh":
            strategy, reason = derived.refresh()
        else:
            strategy, reason = derived.advance(action.removeprefix("advance "))
    except BelvedereError as error:
        return "error", error.reason
    return STRATEGIES.get(strategy, strategy), reason


def read_by_spark(event: str, kind: str, action: str) -> bool:
    """Whether a case needs Spark: an old state that is gone is noticed when it is read."""
    late = kind == "sketch" and action == "advance video"
    return EVENTS[event].by_spark or (late and EVENTS[event].state == "VERSION_GONE")


CASES = [
    pytest.param(*case, id="-".join(case))
    for case in itertools.product(EVENTS, KINDS, ACTIONS)
    if not read_by_spark(*case)
]


@dataclass(frozen=True)
class Happened:
    """A lake in which an event happened among changes."""

    directory: Path
    rows_before: Mapping[str, list[Row]]
    last: int


@pytest.fixture(scope="module")
def happened(prepared: Path) -> Callable[[str], Happened]:
    """The lake of each event, made once for all kinds."""

    @cache
    def lake_of(name: str) -> Happened:
        directory = Path(shutil.copytree(prepared, prepared.with_name(name.replace(" ", "_"))))
        tables = EventTables(directory).goes_on()
        rows = tables.all_rows()
        tables.change()
        EVENTS[name].happens(tables)
        tables.change()
        return Happened(directory, rows, tables.last)

    return lake_of


@pytest.mark.parametrize(("name", "kind", "action"), CASES)
def test_an_event_among_changes_has_the_outcome_of_its_line(
    happened: Callable[[str], Happened], tmp_path: Path, name: str, kind: str, action: str
) -> None:
    event, needs, lake = EVENTS[name], NEEDS[kind], happened(name)
    directory = Path(shutil.copytree(lake.directory, tmp_path / "lake"))
    tables = EventTables(directory).goes_on(lake.last)
    derived = KINDS[kind](directory)
    before, rows = derived.vector(), tables.all_rows()
    strategy, reason = act(derived, action)
    after = derived.vector()
    moved = frozenset(t for t in after if after[t] != before[t])
    assert Outcome(strategy, reason, moved) == expected(event, needs, action)
    derived.assert_matches({t: (rows if t in moved else lake.rows_before)[t] for t in rows})
    tables.change()
    following = expected_next(event, needs, action)
    assert act(derived, "refresh") == (following.strategy, following.reason)
    derived.assert_matches(tables.all_rows())


def test_commits_that_change_no_row_leave_nothing_to_do(prepared: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(prepared, tmp_path / "lake"))
    tables = EventTables(directory).goes_on()
    tables.change()
    kinds = {name: create(directory) for name, create in KINDS.items()}
    for derived in kinds.values():
        derived.refresh()
    EVENTS["OPTIMIZE"].happens(tables)
    for name, derived in kinds.items():
        before = derived.vector()
        assert act(derived, "refresh")[0] in ("nothing", "changes"), name
        assert derived.vector() != before
        derived.assert_matches(tables.all_rows())
