"""The foreign keys of a view that hold before and after a refresh."""

from __future__ import annotations

from belvedere.execution.foreign_keys import CheckedForeignKeys, check_foreign_keys
from belvedere.execution.lookups import new_values
from belvedere.views.incremental.pending_changes import PendingChanges
from belvedere.views.references import references


def check_references(pending: PendingChanges) -> CheckedForeignKeys:
    """The foreign keys that hold before and after, and a note on each that no longer does."""
    step = pending.step
    declared = references(pending.lake, pending.view, step.pins.table)
    checked = check_foreign_keys(
        step.holding,
        declared,
        pending.moving,
        pending.in_memory,
        lambda *wanted: new_values(pending.versions, *wanted),
    )
    step.notes.extend(note for note in checked.notes if note not in step.notes)
    return checked
