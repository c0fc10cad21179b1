"""The page of table events says what the tests of table events expect."""

from __future__ import annotations

from pathlib import Path

from belvedere.reasons import REASONS
from tests.derivations.events.expected_outcomes import NEEDS, OLD_STATE_GONE
from tests.derivations.events.table_events import EVENTS

PAGE = (Path(__file__).parents[3] / "docs" / "table-events.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The cells of the tables of a section, without their heads."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {n - 1 for n, line in enumerate(lines) if line.startswith("|---")}
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    return [c for n, c in enumerate(cells) if n not in heads and n - 1 not in heads]


def code(reason: str, before: str = "") -> str:
    """A reason as the page writes it."""
    return f"{before}`{reason}`" if reason else ""


def test_every_event_has_its_line_with_its_reasons() -> None:
    page = {event: (changes, state) for event, changes, state, _ in rows("Events")}
    assert page == {
        name: (code(e.changes) or code(e.error, "error "), code(e.state))
        for name, e in EVENTS.items()
    }
    assert list(page) == list(EVENTS)


def test_every_kind_has_its_line_with_what_it_reads() -> None:
    page = {line[0]: line[1:] for line in rows("What a call does") if line[0] in NEEDS}
    assert page.keys() == NEEDS.keys()
    for kind, (changes, state) in page.items():
        assert changes.startswith("yes") == NEEDS[kind].changes, kind
        assert state.startswith("yes") == NEEDS[kind].old_state, kind


def test_the_reasons_that_move_all_tables_are_those_of_the_page() -> None:
    (line,) = (line for line in PAGE.splitlines() if line.startswith("Where the reason is"))
    assert {reason for reason in REASONS if f"`{reason}`" in line} == OLD_STATE_GONE
