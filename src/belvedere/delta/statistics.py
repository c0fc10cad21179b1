"""What the log of a table says of its files: rows, and between which values columns lie.

Recorded values are bounds, not values. Writers round them, each in its own way:

    timestamps     cut to milliseconds; before 1973, with an offset that may lack its seconds
    texts          cut to a prefix, the greatest with or without a character that makes it greater
    decimals       by delta-rs through a double: more than 15 digits are rounded
    float, double  NaN left out by some; the others write it as text
    float          as the shortest text of a float, or as the double that it equals

What is answered here is true for all of them: every value of a column but NULL lies between its
bounds, the ends included, as the column's type compares. Deleted rows may have been the ends.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np

from belvedere.algebra.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DecimalType,
    Type,
    parse,
)
from belvedere.analyses.spans import Range
from belvedere.delta.files import File, count, files, row_count
from belvedere.delta.snapshots import Snapshot
from belvedere.memory.kinds import digits

Ends: TypeAlias = tuple[Any, Any]
"""The least and the greatest value that there may be."""

EXACT_IN_A_DOUBLE = 15
"""Decimals of so many digits come back from a double as they were."""
_WIDE = Context(prec=60)
_ROUNDING = Decimal(2) ** -48
"""More than a decimal's way through a double changes it by, as a part of it."""
_MILLISECOND = datetime.timedelta(milliseconds=1)
_MINUTE = datetime.timedelta(minutes=1)
_WHOLE_OFFSETS = 1973
"""From which year on all time zones differ by whole minutes."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d(:\d\d)?)?")
_NOT_A_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of the values that a file has in one column."""

    bounds: Ends | None = None
    """Between which all but NULL lie; None if that is not known. Of texts these are bytes."""
    may_have_nulls: bool = True
    may_have_values: bool = True


@dataclass(frozen=True)
class TableSize:
    """The rows of a version, and the bounds of its columns."""

    rows: int
    bounds: Mapping[str, Range] = field(default_factory=dict)


def column_facts(table: Snapshot, file: File, column: str) -> ColumnFacts:
    """What the statistics of a file prove about a column of its table."""
    kind, name = table.types.get(column.lower(), ""), _recorded_name(table, column)
    if name is None:
        return ColumnFacts()
    rows, nulls = row_count(file.stats), _recorded(file, "nullCount", name)
    if type(nulls) is not int:
        nulls = None
    low, high = (_recorded(file, side, name) for side in ("minValues", "maxValues"))
    # CHAR is padded when it is read: what files hold, and record, is another text.
    told = low is not None and high is not None and (kind != "string" or table.plain)
    return ColumnFacts(
        bounds=_ends(kind, low, high) if told else None,
        may_have_nulls=nulls != 0,
        may_have_values=rows is None or rows not in (0, nulls),
    )


def misleads_spark(kind: str) -> bool:
    """Whether Spark may skip rows by what Arrow and delta-rs record of columns of a type.

    Spark believes that NaN is recorded, that 0.0 and -0.0 are one, and every digit of a decimal.
    """
    type_ = parse(kind)
    return type_.is_float or (
        isinstance(type_, DecimalType) and type_.precision > EXACT_IN_A_DOUBLE
    )


def bounds_of_all(table: Snapshot, some: Iterable[File], column: str) -> Ends | None:
    """The bounds of a column over several files; None if one does not say, or none has a value."""
    found = [column_facts(table, f, column) for f in some if f.rows != 0]
    told = [f.bounds for f in found if f.may_have_values]
    known = [ends for ends in told if ends is not None]
    if not known or len(known) < len(told):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def table_size(table: Snapshot) -> TableSize | None:
    """What is recorded of the version of a table; None if not every file has a row count."""
    some = files(table.store, table.version)
    rows = None if some is None else count(some)
    if some is None or rows is None:
        return None
    kinds = {name: kind for name, kind in table.columns if kind == "date" or parse(kind).is_integer}
    ends = {name: bounds_of_all(table, some, name) for name in kinds}
    return TableSize(rows, {name: at for name, at in ends.items() if at is not None})


def _recorded_name(table: Snapshot, column: str) -> str | None:
    """Under which name, in lower case, a column's statistics stand; None if it has none."""
    if column.lower() in {c.lower() for c in table.partition_columns}:
        return None
    return table.places.get(column.lower(), column.lower())


def _recorded(file: File, what: str, name: str) -> Any:
    """One entry of a file's statistics, by a name in lower case."""
    entries = file.stats.get(what)
    if not isinstance(entries, Mapping):
        return None
    if name in entries:
        return entries[name]
    return next((value for key, value in entries.items() if key.lower() == name), None)


def _ends(kind: str, low: Any, high: Any) -> Ends | None:
    """Bounds of a type that hold whatever a writer rounded; None if they cannot be relied on."""
    type_ = parse(kind)
    read = _decimals if type_.is_decimal else _READ.get(type_)
    ends = None if read is None else read(kind, low, high)
    return None if ends is None or ends[0] > ends[1] else ends


def _integers(_kind: str, low: Any, high: Any) -> Ends | None:
    return (low, high) if type(low) is int and type(high) is int else None


def _decimals(kind: str, low: Any, high: Any) -> Ends | None:
    if type(low) not in (int, Decimal) or type(high) not in (int, Decimal):
        return None
    least, most = Decimal(low), Decimal(high)
    if digits(kind)[0] <= EXACT_IN_A_DOUBLE:
        return least, most
    room = _WIDE.multiply(_ROUNDING, max(abs(least), abs(most)))
    return _WIDE.subtract(least, room), _WIDE.add(most, room)


def _floats(kind: str, low: Any, _high: Any) -> Ends | None:
    """From the least number on: NaN is greater than all, and may be there unrecorded."""
    if type(low) not in (int, Decimal, str):
        return None
    try:
        least = float(low)
    except (ValueError, OverflowError):
        return None
    if kind == "float" and math.isfinite(least):
        with np.errstate(over="ignore"):
            least = float(np.float32(least))
    return (-math.inf if math.isnan(least) else least), math.nan


def _dates(_kind: str, low: Any, high: Any) -> Ends | None:
    if not (_matches(_DAY, low) and _matches(_DAY, high)):
        return None
    try:
        return datetime.date.fromisoformat(low), datetime.date.fromisoformat(high)
    except ValueError:
        return None


def _timestamps(kind: str, low: Any, high: Any) -> Ends | None:
    if not (_matches(_TIME, low) and _matches(_TIME, high)):
        return None
    try:
        least, most = (datetime.datetime.fromisoformat(text) for text in (low, high))
        # A time without a zone is in that of its writer, which is not known here.
        if any((at.tzinfo is None) != (kind == "timestamp_ntz") for at in (least, most)):
            return None
        return least - _rounded(least), most + _rounded(most)
    except (ValueError, OverflowError):
        return None


def _rounded(at: datetime.datetime) -> datetime.timedelta:
    """How far a recorded time may be from what it stands for."""
    zoned = at.tzinfo is not None
    return _MILLISECOND + _MINUTE if zoned and at.year < _WHOLE_OFFSETS else _MILLISECOND


def _texts(_kind: str, low: Any, high: Any) -> Ends | None:
    """As bytes, which is how they are compared; the greatest with all that begins with it."""
    if type(low) is not str or type(high) is not str:
        return None
    try:
        least, most = low.encode(), high.encode() + b"\xff"
    except UnicodeEncodeError:
        return None
    # What stands for bytes that are no text says nothing about their order.
    return None if _NOT_A_CHARACTER in low + high else (least, most)


def _matches(form: re.Pattern[str], value: Any) -> bool:
    return type(value) is str and form.fullmatch(value) is not None


_READ: Mapping[Type, Callable[[str, Any, Any], Ends | None]] = {
    **dict.fromkeys((TINYINT, SMALLINT, INT, BIGINT), _integers),
    **dict.fromkeys((FLOAT, DOUBLE), _floats),
    **dict.fromkeys((TIMESTAMP, TIMESTAMP_NTZ), _timestamps),
    DATE: _dates,
    STRING: _texts,
}
