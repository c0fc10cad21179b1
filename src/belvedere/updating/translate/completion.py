"""What nobody tells of a row to put in: values that its table allows.

NULL where that is allowed; of a declared key, a value that no row has. Where a column must have a
value, or a CHECK speaks of it: one that the CHECK lists, that a foreign key's parent has, or zero.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, count, islice, product, takewhile
from typing import Any

from belvedere.algebra.types import parse
from belvedere.memory import kinds
from belvedere.updating.summary.domains import denormalize
from belvedere.updating.translate.constraints import BaseRow, RowSource, TableRules
from belvedere.updating.translate.fresh_values import bounds
from belvedere.updating.translate.new_rows import NewBaseRow

MOST_TRIED = 300
"""Values of a key, or rows, that are tried."""
MOST_PARENT_VALUES = 20

_DAYS = {"date": 1, "timestamp": 86_400_000_000, "timestamp_ntz": 86_400_000_000}
_ZEROS: dict[str, Any] = {
    "string": "", "binary": b"", "boolean": False, "float": 0.0, "double": 0.0,
    "date": datetime.date(1970, 1, 1), "timestamp": denormalize(0, "timestamp"),
    "timestamp_ntz": datetime.datetime(1970, 1, 1),
}  # fmt: skip


class NoFreeValue(Exception):
    """No value was found for a column of a key, and whether there is none."""

    def __init__(self, column: str, kind: str, *, certain: bool) -> None:
        super().__init__(column)
        self.column, self.kind, self.certain = column, kind, certain


IsKnownValue = Callable[[str, str, Any], bool]
"""Whether a column of a table, or one it is joined with, is known to have a value."""


def complete_row(
    rules: TableRules,
    source: RowSource,
    known: IsKnownValue,
    put: NewBaseRow,
    others: Sequence[BaseRow],
) -> BaseRow:
    """A row with all its columns, one that breaks no CHECK and no NOT NULL if that is found."""
    full = {c: put.known.get(c) for c in rules.columns}
    at = {c: put.known[c] for c in rules.key or () if c in put.known}
    for column in rules.key or ():
        if column not in put.known:
            free = _FreeKeyValues(source, known, put.table, column, at, {o[column] for o in others})
            try:
                full[column] = free.value(rules.columns[column])
            except NoFreeValue as none:
                # With another value in a further column, one that is taken may do.
                alone = not any(c not in at for c in rules.key or () if c != column)
                raise NoFreeValue(column, none.kind, certain=none.certain and alone) from none
            at[column] = full[column]
    if rules.broken(full) is None:
        return full
    names = unspecified_columns(rules, put)
    if rules.broken(full, but=names) is not None:
        return full
    lists = [_values_to_try(rules, source, full, c)[0] for c in names]
    rows = ({**full, **dict(zip(names, v, strict=True))} for v in product(*lists))
    return rules.first_sound(list(islice(rows, MOST_TRIED))) or full


def unspecified_columns(rules: TableRules, put: NewBaseRow) -> list[str]:
    """Columns of which nobody tells anything and that a CHECK or NOT NULL is about."""
    named = rules.required.union(*(c.columns for c in rules.checks.values()))
    return [c for c in rules.columns if c in named and c not in {*put.known, *(rules.key or ())}]


def is_certainly_broken(
    rules: TableRules, source: RowSource, put: NewBaseRow, full: BaseRow
) -> bool:
    """Whether a row that breaks a constraint breaks one whatever else is filled in."""
    # What is kept of a row that goes could be something else, and so could a new key.
    told = NewBaseRow(put.table, {c: put.known[c] for c in put.given_columns}, put.why)
    names = unspecified_columns(rules, told)
    found = [_values_to_try(rules, source, full, c) for c in names]
    made_up = [c for c in rules.key or () if c not in put.given_columns]
    if (
        put.kept.isdisjoint(names)
        and all(every for _, every in found)
        and not any(c in check.columns for c in made_up for check in rules.checks.values())
        and len(list(islice(product(*(v for v, _ in found)), MOST_TRIED + 1))) <= MOST_TRIED
    ):
        return True
    return rules.broken(full, but=[*names, *made_up]) is not None


def _values_to_try(
    rules: TableRules, source: RowSource, full: BaseRow, column: str
) -> tuple[list[Any], bool]:
    """Values to try in a column, and whether there are no others."""
    null = [] if column in rules.required else [None]
    listed = rules.finite(column)
    if listed is not None:
        return [*null, *(v for v in listed if v is not None)], True
    parents = _values_of_parents(rules, source, full, column)
    if parents is not None:
        return [*null, *parents], False
    kind = rules.columns[column]
    if parse(kind).is_integer:
        return [*null, 0, 1], False
    if parse(kind).is_decimal:
        return [*null, Decimal(0)], False
    return [*null, *([_ZEROS[kind]] if kind in _ZEROS else [])], False


def _values_of_parents(
    rules: TableRules, source: RowSource, full: BaseRow, column: str
) -> list[Any] | None:
    """Values that the parents of a foreign key have; None if the column is in none."""
    for key in rules.foreign:
        if column not in key.columns:
            continue
        pairs = dict(zip(key.columns, key.parent_columns, strict=True))
        at = {q: full[c] for c, q in pairs.items() if c != column and full[c] is not None}
        if not at:
            return source.first(key.parent, pairs[column], MOST_PARENT_VALUES)
        rows = source.where(key.parent, at)
        return list(dict.fromkeys(r[pairs[column]] for r in rows))[:MOST_PARENT_VALUES]
    return None


@dataclass(frozen=True)
class _FreeKeyValues:
    """Values of a key's column that no row has beside the rest of its key; best, that no row joins with."""

    source: RowSource
    known: IsKnownValue
    table: str
    column: str
    at: BaseRow
    taken: set[Any]

    def value(self, kind: str) -> Any:
        """The first of a type; `NoFreeValue` if none is found."""
        largest = self.source.largest(self.table, self.column) if parse(kind).is_integer else 0
        values = _rarely_used_values(kind, largest)
        tried = list(islice(values, MOST_TRIED))
        free = (v for v in tried if not self.known(self.table, self.column, v))
        found = next(filter(self._is_free, chain(free, tried)), None)
        if found is None:
            raise NoFreeValue(self.column, kind, certain=bool(tried) and next(values, None) is None)
        return found

    def _is_free(self, value: Any) -> bool:
        return value not in self.taken and not self.source.where(
            self.table, {**self.at, self.column: value}
        )


def _rarely_used_values(kind: str, largest: int) -> Iterator[Any]:
    """Values of a type, those first that are hardly in use."""
    ends = bounds(kind) if parse(kind).is_integer else None
    if ends is not None:
        low, high = ends
        return chain(range(largest + 1, high + 1), range(-1, low - 1, -1), range(largest, -1, -1))
    if kind in _DAYS:
        days = chain((1 << i for i in range(21)), (-(1 << i) for i in range(19)), range(MOST_TRIED))
        return (denormalize(d * _DAYS[kind], kind) for d in days)
    if kind == "boolean":
        return iter((False, True))
    if parse(kind).is_decimal:
        precision, scale = kinds.digits(kind)
        end = 10 ** (precision - scale)
        return map(
            Decimal,
            chain(takewhile(lambda n: n < end, _powers_of_two()), range(min(end, MOST_TRIED))),
        )
    if kind in ("string", "binary"):
        texts = (f"new {n}" for n in _powers_of_two())
        return texts if kind == "string" else (t.encode() for t in texts)
    return iter(())


def _powers_of_two() -> Iterator[int]:
    return (1 << i for i in count())
