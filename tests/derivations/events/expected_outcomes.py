"""What a refresh or an advance must do after an event: one table for every kind of derivation."""

from __future__ import annotations

from dataclasses import dataclass

from tests.derivations.events.table_events import Event

OLD_STATE_GONE = {"VERSION_GONE", "TABLE_REPLACED", "SCHEMA_CHANGED", "VERSION_BEHIND"}
"""Reasons for which an advance of one table becomes one of all."""


@dataclass(frozen=True)
class Needs:
    """What a kind reads of a table besides its newest state."""

    changes: bool = True
    old_state: bool = True


NEEDS = {
    "view": Needs(),
    "view of one table": Needs(),
    "sketch": Needs(),
    "synopsis": Needs(old_state=False),
    "updatable view": Needs(old_state=False),
    "updatable view, rows in tables": Needs(changes=False, old_state=False),
    "updatable view, summary in tables": Needs(),
}
"""Kinds that hold the rows of their tables need no old state; one that reads them needs no changes."""

ACTIONS = ("refresh", "advance log", "advance video")
"""All tables; the one that the event happened to; the other one."""


@dataclass(frozen=True)
class Outcome:
    """What was done, why, and which tables moved."""

    strategy: str
    reason: str = ""
    moved: frozenset[str] = frozenset(("log", "video"))


def expected(event: Event, needs: Needs, action: str) -> Outcome:
    """What must happen."""
    if event.error:
        return Outcome("error", event.error, frozenset())
    reason = event.changes if needs.changes else ""
    if action == "advance video":
        reason = event.state if needs.old_state else ""
    strategy = "rebuild" if reason else "changes"
    if action == "refresh" or reason in OLD_STATE_GONE:
        return Outcome(strategy, reason)
    return Outcome(strategy, reason, frozenset([action.removeprefix("advance ")]))


def expected_next(event: Event, needs: Needs, action: str) -> Outcome:
    """What a refresh must do after that, and more changes of both tables."""
    if not needs.changes:
        return Outcome("changes")
    if "log" in expected(event, needs, action).moved:
        return Outcome("rebuild" if event.next_changes else "changes", event.next_changes)
    return expected(event, needs, "refresh")


STRATEGIES = {"merge": "changes", "replace keys": "changes"}
"""Both ways to apply changes count as one."""
