"""View rows of a request, decomposed into segments: what each position shows, and what it hides.

A column that the view uses (in a join or a selection) but does not show is hidden. Its value is either
that of a join class, shared by the positions of the class, or that of one column. Each hidden value has
a list of candidate values (`translate/options.py`), beside those of existing rows that agree with what
the view row shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from belvedere.joins.normal_form import JoinBlock
from belvedere.memory import kinds
from belvedere.updating.side_effects.in_memory import (
    NewRow,
    Signature,
    shown_held_columns,
    shown_unheld_columns,
    tagged_positions,
)
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.domains import (
    NULL,
    ColumnValue,
    Domain,
    NormalValue,
    denormalize,
    normalize,
)
from belvedere.updating.summary.loading import selected_rows
from belvedere.updating.translate.constraints import BaseRow, RowSource

HiddenValue = tuple[str, int, str]
"""A hidden value: ("class", number of the join class, "") or ("place", position, column)."""


def view_columns(shape: JoinBlock) -> list[tuple[str, str]]:
    """The columns of the view with their types."""
    return [(name, shape.positions[p].types[c]) for name, (p, c) in shape.column_outputs]


@dataclass(frozen=True)
class ViewRow:
    """A row that the view has, or that a request inserts: a value for every column."""

    values: Mapping[str, ColumnValue]

    def values_at(self, shape: JoinBlock, p: int) -> dict[str, ColumnValue]:
        """The values that the row shows for the columns of a position."""
        names = {c: shape.output_of.get((p, c)) for c, _ in shape.positions[p].columns}
        return {c: self.values[name] for c, name in names.items() if name is not None}

    def text(self) -> str:
        """The row as text, for error messages."""
        return "(" + ", ".join(f"{k}={v!r}" for k, v in self.values.items()) + ")"


@dataclass
class SegmentOptions:
    """The rows and values that can stand at a position for a view row."""

    shown: dict[str, NormalValue]
    hidden: list[HiddenValue]
    existing: list[int] = field(default_factory=list)
    values: dict[HiddenValue, list[NormalValue]] = field(default_factory=dict)


class Coder:
    """Numbers values for one request. A value that no table has is numbered below -1."""

    def __init__(self, base: BaseTables, source: RowSource | None = None) -> None:
        self.base, self.shape, self._source = base, base.shape, source
        self._tags: dict[tuple[Any, ...], int] = {}
        self._strange: dict[tuple[int, NormalValue], int] = {}

    def code(self, table: str, column: str, value: NormalValue) -> int:
        """The number of a value of a column held in memory."""
        domain: Domain = self.base.domains[table, column]
        # A number given earlier stays valid, although the domain may have gained the value since.
        code = self._strange.get((id(domain), value), domain.code(value))
        if code is None:
            code = self._strange[id(domain), value] = -2 - len(self._strange)
        return code

    def is_known_value(self, table: str, column: str, value: ColumnValue) -> bool:
        """Whether a column held in memory has a value, in a table or in this request."""
        domain: Domain | None = self.base.domains.get((table, column))
        if domain is None:
            return False
        normal = normalize(value, self.shape.used[table][column])
        return domain.code(normal) is not None or (id(domain), normal) in self._strange

    def value(self, table: str, column: str, code: int) -> NormalValue:
        """The value of a number, given by a table or by this request."""
        if code >= NULL:
            value: NormalValue = self.base.domains[table, column].value(code)
            return value
        return list(self._strange)[-2 - code][1]

    def signature(self, row: ViewRow) -> Signature:
        """The numbers by which a view row differs from others."""
        names = {place: name for name, place in reversed(self.shape.column_outputs)}
        codes = [
            self.code(
                self.shape.positions[p].table,
                c,
                normalize(row.values[names[p, c]], self._kind(p, c)),
            )
            for p, c in shown_held_columns(self.base)
        ]
        return (
            *codes,
            *(self._tag(p, self.shown_values(p, row)) for p in tagged_positions(self.base)),
        )

    def _tag(self, p: int, values: Mapping[str, NormalValue]) -> int:
        """0 if the values equal those of the stored row of the same key; a number of its own otherwise."""
        if self._source is None:
            return 0
        table = self.shape.positions[p].table
        told_of = {
            c: values.get(c) for c in self.base.held[table] if (p, c) in self.shape.output_of
        }
        content = tuple(values.get(c) for c in shown_unheld_columns(self.base, p))
        stored = self._source.where(
            table, {c: denormalize(v, self._kind(p, c)) for c, v in told_of.items()}
        )
        if any(self.unheld_values(p, r) == content for r in stored):
            return 0
        key = p, tuple(told_of.values()), content
        return self._tags.setdefault(key, 1 + len(self._tags))

    def base_rows_of(self, table: str, number: int) -> list[BaseRow] | None:
        """The base rows that a row in memory stands for; None if there is no source to read them from."""
        if self._source is None:
            return None
        types = self.shape.used[table]
        values = self.base.values(table, self.base.tables[table].row(number))
        return self._source.where(table, {c: denormalize(v, types[c]) for c, v in values.items()})

    def unheld_values(self, p: int, row: BaseRow) -> tuple[NormalValue, ...]:
        return tuple(
            normalize(row[c], self._kind(p, c)) for c in shown_unheld_columns(self.base, p)
        )

    def shown_values(self, p: int, row: ViewRow) -> dict[str, NormalValue]:
        """The values that a view row shows for a position, normalized."""
        kinds_of = self.shape.positions[p].types
        return {c: normalize(v, kinds_of[c]) for c, v in row.values_at(self.shape, p).items()}

    def hidden_values(self, p: int) -> list[HiddenValue]:
        """The hidden values of a position."""
        hidden: list[HiddenValue] = []
        for c, _ in self.shape.positions[p].columns:
            if (p, c) not in self.shape.output_of:
                k = self.shape.class_of.get((p, c))
                hidden.append(("place", p, c) if k is None else ("class", k, ""))
        return list(dict.fromkeys(hidden))

    def columns(self, p: int, h: HiddenValue) -> list[str]:
        """The columns of a position that hold a hidden value."""
        if h[0] == "place":
            return [h[2]]
        return [c for q, c in self.shape.classes[h[1]] if q == p]

    def hidden_value_of_row(self, p: int, number: int, h: HiddenValue) -> NormalValue:
        """The hidden value of an existing row; None if its column is not held in memory."""
        table = self.shape.positions[p].table
        column = self.columns(p, h)[0]
        if column not in self.base.held[table]:
            return None
        rows = self.base.tables[table]
        value: NormalValue = self.base.domains[table, column].value(
            int(rows.column(column)[number])
        )
        return value

    def hidden_values_of_row(self, p: int, number: int, h: HiddenValue) -> list[NormalValue]:
        """The hidden values of the base rows that a row in memory stands for."""
        value = self.hidden_value_of_row(p, number, h)
        if value is not None:
            return [value]
        column = self.columns(p, h)[0]
        rows = self.base_rows_of(self.shape.positions[p].table, number) or ()
        return [normalize(r[column], self._kind(p, column)) for r in rows]

    def new_base_row(
        self, p: int, o: SegmentOptions, values: Mapping[HiddenValue, NormalValue]
    ) -> BaseRow:
        """The known columns of a new base row at a position."""
        told_of = dict(o.shown)
        for h in o.hidden:
            told_of.update(dict.fromkeys(self.columns(p, h), values[h]))
        types = self.shape.used[self.shape.positions[p].table]
        return {c: denormalize(v, types[c]) for c, v in told_of.items()}

    def encode(self, table: str, row: Mapping[str, Any]) -> NewRow:
        """A base row as numbers, with the positions whose selection it satisfies."""
        types = self.shape.used[table]
        codes = tuple(
            self.code(table, c, normalize(row.get(c), types[c])) for c in self.base.held[table]
        )
        members = self._members(table, row)
        tags = [
            (q, self._tag(q, {c: normalize(row.get(c), k) for c, k in types.items()}))
            for q in self.shape.at(table)
            if shown_unheld_columns(self.base, q)
        ]
        return NewRow(codes, frozenset(members), tuple(tags))

    def _members(self, table: str, row: Mapping[str, Any]) -> Iterable[int]:
        """The positions of a table whose selection a row satisfies."""
        positions = self.shape.at(table)
        if not any(self.shape.positions[q].selection.conjuncts for q in positions):
            return positions
        types = self.shape.used[table]
        single_row = pa.table({c: pa.array([row.get(c)], kinds.arrow(k)) for c, k in types.items()})
        return [q for q in positions if selected_rows(self.shape, q, single_row)[0]]

    def row_number(self, table: str, row: Mapping[str, Any]) -> int | None:
        """The number of a base row; None if the tables in memory do not have it."""
        types = self.shape.used[table]
        codes = (
            self.code(table, c, normalize(row.get(c), types[c])) for c in self.base.held[table]
        )
        number = self.base.find(table, tuple(codes))
        return number if number is not None and self.base.tables[table].counts[number] > 0 else None

    def _kind(self, p: int, c: str) -> str:
        return self.shape.positions[p].types[c]
