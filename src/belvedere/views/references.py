"""The declared foreign keys between the tables of a view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from belvedere.algebra.types import parse
from belvedere.delta.lookups import KEYS
from belvedere.execution.foreign_keys import KeyReference, verify_foreign_keys
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.declared_keys import foreign_keys
from belvedere.lake.tables.table import Table
from belvedere.views.catalog import canonical_name
from belvedere.views.definition import View

if TYPE_CHECKING:
    from belvedere.lake.pins import Pins
    from belvedere.lake.sessions.workspace import Workspace


def references(lake: ReadableLake, view: View, table: Callable[[str], Table]) -> list[KeyReference]:
    """The foreign keys that a refresh may use: the view reads both columns, of one type."""
    found = []
    for child in view.tables:
        for declared in foreign_keys(table(child)):
            parent = canonical_name(lake, declared.parent)
            if len(declared.columns) == 1 and parent in view.tables:
                column = _column(view, child, *declared.columns)
                key = _column(view, parent, *declared.parent_columns)
                if column and key and column[1] == key[1] and parse(key[1]) in KEYS:
                    found.append(KeyReference(child, column[0], parent, key[0], key[1]))
    return found


def _column(view: View, table: str, column: str) -> tuple[str, str] | None:
    """A column as the plan spells it, with its type; None if the view does not read it."""
    used = {c.lower(): (c, kind) for c, kind in view.used(table).items()}
    return used.get(column.lower())


def holding_references(
    work: Workspace, pins: Pins, view: View, versions: Mapping[str, int]
) -> frozenset[str]:
    """The foreign keys of a view that hold at some versions: Spark looks at every row."""
    return verify_foreign_keys(work, pins, references(work.door, view, pins.table), versions)


def explain_references(lake: ReadableLake, view: View) -> list[tuple[str, str]]:
    """For an explanation: which foreign keys are known to hold at the view's versions."""
    declared = references(lake, view, lake.table)
    stamp = lake.stamp(lake.table(view.stored)).stamp
    holding = stamp.holding if stamp else frozenset[str]()
    lines = [
        f"{r}: {'holds' if str(r) in holding else 'not known to hold, so not relied on'}"
        for r in declared
    ]
    return [("Foreign keys, at the versions it has", "\n".join(lines))] if lines else []
