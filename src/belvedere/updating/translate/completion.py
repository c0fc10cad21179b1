"""Fill the unspecified columns of a new base row with values that its table allows.

NULL where it is allowed; for a declared key, a value that no row has. A column that is NOT NULL or in a
CHECK gets a value that the CHECK lists, or one of a foreign key's parents, or zero.
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
"""How many key values, or rows, are tried."""
MOST_PARENT_VALUES = 20

_DAYS = {"date": 1, "timestamp": 86_400_000_000, "timestamp_ntz": 86_400_000_000}
_ZEROS: dict[str, Any] = {
    "string": "", "binary": b"", "boolean": False, "float": 0.0, "double": 0.0,
    "date": datetime.date(1970, 1, 1), "timestamp": denormalize(0, "timestamp"),
    "timestamp_ntz": datetime.datetime(1970, 1, 1),
}  # fmt: skip


class NoFreeValue(Exception):
    """No free value was found for a key column; `certain` if there is none."""

    def __init__(self, column: str, kind: str, *, certain: bool) -> None:
        super().__init__(column)
        self.column, self.kind, self.certain = column, kind, certain


IsKnownValue = Callable[[str, str, Any], bool]
"""Whether a column of a table, or one that it joins with, is known to have a value."""


def complete_row(
    rules: TableRules,
    source: RowSource,
    is_known: IsKnownValue,
    new_row: NewBaseRow,
    other_rows: Sequence[BaseRow],
) -> BaseRow:
    """A row with all its columns; one that breaks no CHECK and no NOT NULL if such a row is found."""
    full = {c: new_row.values.get(c) for c in rules.columns}
    key_values = {c: new_row.values[c] for c in rules.key or () if c in new_row.values}
    for column in rules.key or ():
        if column not in new_row.values:
            free = _FreeKeyValues(
                source, is_known, new_row.table, column, key_values, {o[column] for o in other_rows}
            )
            try:
                full[column] = free.value(rules.columns[column])
            except NoFreeValue as error:
                # A taken value may be free together with another value in a further key column.
                alone = not any(c not in key_values for c in rules.key or () if c != column)
                raise NoFreeValue(column, error.kind, certain=error.certain and alone) from error
            key_values[column] = full[column]
    if rules.violation(full) is None:
        return full
    names = unspecified_columns(rules, new_row)
    if rules.violation(full, but=names) is not None:
        return full
    lists = [_values_to_try(rules, source, full, c)[0] for c in names]
    rows = ({**full, **dict(zip(names, v, strict=True))} for v in product(*lists))
    return rules.first_valid(list(islice(rows, MOST_TRIED))) or full


def unspecified_columns(rules: TableRules, new_row: NewBaseRow) -> list[str]:
    """Unspecified columns, other than the key, that a CHECK or NOT NULL constrains."""
    named = rules.required.union(*(c.columns for c in rules.checks.values()))
    return [
        c for c in rules.columns if c in named and c not in {*new_row.values, *(rules.key or ())}
    ]


def is_certainly_broken(
    rules: TableRules, source: RowSource, new_row: NewBaseRow, full: BaseRow
) -> bool:
    """Whether a row breaks a constraint however its unspecified columns are filled."""
    # Columns kept from a replaced row, and generated keys, could have other values.
    shown_row = NewBaseRow(
        new_row.table, {c: new_row.values[c] for c in new_row.given_columns}, new_row.causes
    )
    names = unspecified_columns(rules, shown_row)
    tried_values = [_values_to_try(rules, source, full, c) for c in names]
    generated = [c for c in rules.key or () if c not in new_row.given_columns]
    if (
        new_row.kept_columns.isdisjoint(names)
        and all(exhaustive for _, exhaustive in tried_values)
        and not any(c in check.columns for c in generated for check in rules.checks.values())
        and len(list(islice(product(*(v for v, _ in tried_values)), MOST_TRIED + 1))) <= MOST_TRIED
    ):
        return True
    return rules.violation(full, but=[*names, *generated]) is not None


def _values_to_try(
    rules: TableRules, source: RowSource, full: BaseRow, column: str
) -> tuple[list[Any], bool]:
    """Values to try in a column, and whether they are all there are."""
    null = [] if column in rules.required else [None]
    listed = rules.values_left_by_checks(column)
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
    """Values of the parents of a foreign key; None if the column is in no foreign key."""
    for key in rules.foreign:
        if column not in key.columns:
            continue
        pairs = dict(zip(key.columns, key.parent_columns, strict=True))
        parent_values = {
            q: full[c] for c, q in pairs.items() if c != column and full[c] is not None
        }
        if not parent_values:
            return source.first(key.parent, pairs[column], MOST_PARENT_VALUES)
        rows = source.where(key.parent, parent_values)
        return list(dict.fromkeys(r[pairs[column]] for r in rows))[:MOST_PARENT_VALUES]
    return None


@dataclass(frozen=True)
class _FreeKeyValues:
    """Key values that are free beside the other key columns, preferably values that no row joins with."""

    source: RowSource
    known: IsKnownValue
    table: str
    column: str
    at: BaseRow
    taken: set[Any]

    def value(self, kind: str) -> Any:
        """The first free value of a type; `NoFreeValue` if none is found."""
        largest = self.source.largest(self.table, self.column) if parse(kind).is_integer else 0
        values = _rarely_used_values(kind, largest)
        tried = list(islice(values, MOST_TRIED))
        free = (v for v in tried if not self.known(self.table, self.column, v))
        value = next(filter(self._is_free, chain(free, tried)), None)
        if value is None:
            raise NoFreeValue(self.column, kind, certain=bool(tried) and next(values, None) is None)
        return value

    def _is_free(self, value: Any) -> bool:
        return value not in self.taken and not self.source.where(
            self.table, {**self.at, self.column: value}
        )


def _rarely_used_values(kind: str, largest: int) -> Iterator[Any]:
    """Values of a type, rarely used ones first."""
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
