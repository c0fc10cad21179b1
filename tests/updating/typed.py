"""A small view over tables of any types, with what a check answers of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.memory import kinds
from belvedere.sql.binder.bind import Relation, bind
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker
from belvedere.updating.summary.filter import build_filter
from belvedere.updating.translate.constraints import TableRules
from belvedere.updating.updatable_block import updatable_block
from tests.updating.translate.listed import Listed

Columns = Mapping[str, str]


@dataclass(frozen=True)
class Typed:
    """A view, and tables with the types of their columns; further rules of each table."""

    query: str
    columns: Mapping[str, Columns]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def source(self) -> Listed:
        """The tables' rows."""
        return Listed(self.columns, self.rows)

    def resolve(self, name: str) -> Relation:
        return Relation(columns=tuple(self.columns[name].items()), table=name)

    def check(
        self,
        *,
        insert: Sequence[tuple[Any, ...]] = (),
        delete: Sequence[tuple[Any, ...]] = (),
        mode: CheckMode = CheckMode.AUTO,
    ) -> UpdateCheck:
        shape = updatable_block(bind(self.query, self))
        names = [name for name, _ in shape.column_outputs]
        tables = {
            t: pa.table(
                {
                    c: pa.array([r[c] for r in self.source.where(t, {})], kinds.arrow(kind))
                    for c, kind in self.columns[t].items()
                }
            )
            for t in shape.tables
        }
        rules = {
            t: TableRules(columns, self.keys.get(t), **self.rules.get(t, {}))
            for t, columns in self.columns.items()
        }
        checker = UpdateChecker(build_filter(shape, tables, self.keys, root=0), rules, self.source)
        gone, new = (
            [ViewRow(dict(zip(names, row, strict=True))) for row in rows]
            for rows in (delete, insert)
        )
        return checker.check(gone, new, mode)
