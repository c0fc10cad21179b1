"""Updates of a view as given by a caller, checked against the view's columns and types."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.errors import Invalid
from belvedere.joins.normal_form import ColumnRef, JoinBlock
from belvedere.memory import kinds
from belvedere.updating.request.view_rows import ViewRow, view_columns


@dataclass(frozen=True)
class ViewUpdate:
    """View rows to delete and to insert, as one update."""

    delete: tuple[Mapping[str, Any], ...] = ()
    insert: tuple[Mapping[str, Any], ...] = ()
    replaced: int = 0
    """The last `replaced` rows to insert replace the last `replaced` rows to delete, in order."""

    @property
    def replaces(self) -> dict[int, int]:
        """For inserted rows that replace one: the index of the deleted row."""
        first, last = len(self.insert) - self.replaced, len(self.delete) - self.replaced
        return {first + i: last + i for i in range(self.replaced)}

    @staticmethod
    def of(insert: Any, delete: Any, update: Any) -> ViewUpdate:
        """The update from the arguments of a call: a row, a list of rows, or a pair of old and new rows."""
        old, new = _old_and_new(update) if update is not None else ((), ())
        deleted, inserted = _given_rows(old), _given_rows(new)
        replaced = len(inserted) if len(deleted) == len(inserted) else 0
        request = ViewUpdate(
            (*_given_rows(delete), *deleted), (*_given_rows(insert), *inserted), replaced
        )
        if not request.delete and not request.insert:
            hint = "give insert=, delete= or update="
            raise Invalid("nothing was asked for", hint=hint, reason="ROWS")
        return request


def typed_rows(shape: JoinBlock, rows: Sequence[Mapping[str, Any]]) -> list[ViewRow]:
    """View rows with all columns, values converted to their types; `Invalid` if one is missing or wrong."""
    columns = dict(view_columns(shape))
    typed = [_typed_row(columns, row) for row in rows]
    for row in typed:
        _refuse_contradiction(shape, row)
    return [ViewRow(row) for row in typed]


def _refuse_contradiction(shape: JoinBlock, row: Mapping[str, Any]) -> None:
    """Refuse a row with two values for one base column that the view shows twice."""
    first: dict[ColumnRef, str] = {}
    for name, place in shape.column_outputs:
        other = first.setdefault(place, name)
        if row[other] != row[name]:
            raise Invalid(
                f"{other}={row[other]!r} and {name}={row[name]!r} cannot be in one row of the view",
                detail=f"both show {shape.positions[place[0]].table}.{place[1]}",
                hint="give them one value",
                reason="CONTRADICTION",
            )


def _typed_row(columns: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
    given = {name.lower(): value for name, value in row.items()}
    spelled = {name.lower(): name for name in columns}
    unknown = [name for name in row if name.lower() not in spelled]
    missing = [name for name in columns if name.lower() not in given]
    wrong = ""
    if unknown or missing:
        wrong = f"has no column {unknown[0]!r}" if unknown else f"needs a value of {missing[0]!r}"
    elif len(given) < len(row):
        wrong = f"is given a column twice: {', '.join(row)}"
    if wrong:
        raise Invalid(
            f"the view {wrong}", hint=f"its columns: {', '.join(columns)}", reason="COLUMNS"
        )
    return {name: _typed_value(name, given[name.lower()], kind) for name, kind in columns.items()}


def _typed_value(name: str, value: Any, kind: str) -> Any:
    """The value as Arrow converts it to a type; refused if the conversion fails or changes it."""

    if value is None:
        return None
    try:
        converted = pa.array([value], kinds.arrow(kind))[0].as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
        raise _mistyped_value(name, value, kind, str(why)) from why
    if not _is_unchanged(value, converted):
        raise _mistyped_value(name, value, kind, f"it would become {converted!r}")
    return converted


def _is_unchanged(given: Any, converted: Any) -> bool:
    """Whether conversion kept the value: no truncation, no change between boolean and number."""
    if isinstance(given, (bool, np.bool_)) != isinstance(converted, bool):
        return False
    if isinstance(given, datetime.datetime) and isinstance(converted, datetime.datetime):
        # A timestamp without a zone is read as UTC.
        converted = converted if given.tzinfo else converted.replace(tzinfo=None)
    return bool(given == converted)


def _mistyped_value(name: str, value: Any, kind: str, detail: str) -> Invalid:
    return Invalid(
        f"{value!r} is not a value of column {name!r}, which has type {kind}",
        detail=detail,
        hint=f"give a value of type {kind}, or NULL",
        reason="TYPE",
    )


def _given_rows(given: Any) -> tuple[Mapping[str, Any], ...]:
    if given is None:
        return ()
    rows = (given,) if isinstance(given, Mapping) else given
    listed = isinstance(rows, Iterable) and not isinstance(rows, (str, bytes))
    listed_rows = tuple(rows) if listed else (rows,)
    wrong = [row for row in listed_rows if not isinstance(row, Mapping) or not _has_text_names(row)]
    if wrong:
        raise Invalid(
            f"{wrong[0]!r} is not a row of a view",
            hint="give a row as a mapping from columns to values, several rows as a list",
            reason="ROWS",
        )
    return listed_rows


def _has_text_names(row: Mapping[Any, Any]) -> bool:
    """Whether all keys of a mapping are strings."""
    return all(isinstance(name, str) for name in row)


def _old_and_new(update: Any) -> tuple[Any, Any]:
    if isinstance(update, Sequence) and not isinstance(update, str) and len(update) == 2:
        return update[0], update[1]
    raise Invalid(
        f"{update!r} is not a pair of old and new rows",
        hint="give update=(old, new), each a row or a list of rows",
        reason="ROWS",
    )
