"""References: the declared foreign keys that a view may rely on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belvedere.delta.lookups import KEYS
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.declared_keys import foreign_keys
from belvedere.lake.tables.table import Table
from belvedere.views.catalog import canonical_name
from belvedere.views.definition import View


@dataclass(frozen=True)
class Reference:
    """A declared foreign key of one column, between two tables of a view."""

    child: str
    column: str
    parent: str
    key: str
    kind: str

    def __str__(self) -> str:
        return f"{self.child}.{self.column} -> {self.parent}.{self.key}"


def references(lake: ReadableLake, view: View, table: Callable[[str], Table]) -> list[Reference]:
    """The foreign keys that a view may rely on: it reads both columns, which are of one type."""
    found = []
    for child in view.tables:
        for declared in foreign_keys(table(child)):
            parent = canonical_name(lake, declared.parent)
            if len(declared.columns) == 1 and parent in view.tables:
                column = _read(view, child, *declared.columns)
                key = _read(view, parent, *declared.parent_columns)
                if column and key and column[1] == key[1] and key[1] in KEYS:
                    found.append(Reference(child, column[0], parent, key[0], key[1]))
    return found


def _read(view: View, table: str, column: str) -> tuple[str, str] | None:
    """A column as the plan spells it with its type, if it reads it."""
    used = {c.lower(): (c, kind) for c, kind in view.used(table).items()}
    return used.get(column.lower())


def told(lake: ReadableLake, view: View) -> list[tuple[str, str]]:
    """For an explanation: which of them are known to hold at the versions the view has."""
    found = references(lake, view, lake.table)
    stamp = lake.stamp(lake.table(view.stored)).stamp
    holding = stamp.holding if stamp else frozenset[str]()
    lines = [
        f"{r}: {'holds' if str(r) in holding else 'not known to hold, so not relied on'}"
        for r in found
    ]
    return [("Foreign keys, at the versions it has", "\n".join(lines))] if lines else []
