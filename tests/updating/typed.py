"""A small view over tables of any types, with what a check answers of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.memory import kinds
from belvedere.sql.bind import Relation, bind
from belvedere.updating.asked import ViewRow
from belvedere.updating.checks import Check, Checker, Mode
from belvedere.updating.constraints import BaseRow, TableRules
from belvedere.updating.filter import make_filter
from belvedere.updating.normal import normal_form

Columns = Mapping[str, str]


@dataclass(frozen=True)
class Typed:
    """Tables with the types of their columns, and a view; further rules of each table."""

    query: str
    columns: Mapping[str, Columns]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def resolve(self, name: str) -> Relation:
        return Relation(columns=tuple(self.columns[name].items()), table=name)

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        rows = [dict(zip(self.columns[table], r, strict=True)) for r in self.rows.get(table, ())]
        return [r for r in rows if all(r[c] == v for c, v in equal.items())]

    def largest(self, table: str, column: str) -> int:
        return max([0, *(r[column] for r in self.where(table, {}) if r[column] is not None)])

    def first(self, table: str, column: str, most: int) -> list[Any]:
        found = dict.fromkeys(r[column] for r in self.where(table, {}))
        return [v for v in found if v is not None][:most]

    def check(
        self,
        *,
        insert: Sequence[tuple[Any, ...]] = (),
        delete: Sequence[tuple[Any, ...]] = (),
        mode: Mode = Mode.AUTO,
    ) -> Check:
        shape = normal_form(bind(self.query, self))
        names = [name for name, _ in shape.outputs]
        tables = {
            t: pa.table(
                {
                    c: pa.array([r[c] for r in self.where(t, {})], kinds.arrow(kind))
                    for c, kind in self.columns[t].items()
                }
            )
            for t in shape.tables
        }
        rules = {
            t: TableRules(columns, self.keys.get(t), **self.rules.get(t, {}))
            for t, columns in self.columns.items()
        }
        checker = Checker(make_filter(shape, tables, self.keys, root=0), rules, self)
        gone, new = (
            [ViewRow(dict(zip(names, row, strict=True))) for row in rows]
            for rows in (delete, insert)
        )
        return checker.check(gone, new, mode)
