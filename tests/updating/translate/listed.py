"""Base tables as lists of rows, for searches that need no tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from belvedere.updating.translate.constraints import BaseRow


@dataclass(frozen=True)
class Listed:
    """The columns of some tables, and their rows."""

    columns: Mapping[str, Iterable[str]]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        rows = [dict(zip(self.columns[table], r, strict=True)) for r in self.rows.get(table, ())]
        return [r for r in rows if all(r[c] == v for c, v in equal.items())]

    def largest(self, table: str, column: str) -> int:
        return max([0, *(r[column] for r in self.where(table, {}) if r[column] is not None)])

    def first(self, table: str, column: str, most: int) -> list[Any]:
        found = dict.fromkeys(r[column] for r in self.where(table, {}))
        return [v for v in found if v is not None][:most]
