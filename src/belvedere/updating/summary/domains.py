"""Domains: values as numbers, so that joins and comparisons work on integers.

Columns that are ever equated share a domain. The values known at first are sorted; later values follow
in the order in which they appear. A number is never reassigned. NULL is -1, which joins with nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, DecimalType, parse

Codes = npt.NDArray[np.int64]
NormalValue = int | str | None
"""A normalized value: an integer or a text."""
ColumnValue = int | str | bytes | Decimal | bool | datetime.date | datetime.datetime | None

NULL = -1
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Domain:
    """The numbers of some values: integers (dates and times among them), or texts.

    >>> d = Domain.of_integers(np.array([30, 10, 10]))
    >>> d.code(30), d.code(11), d.code(None), d.codes_of(np.array([10, 30])).tolist()
    (1, None, -1, [0, 1])
    >>> d.added(11), d.code(11), d.value(2)
    (2, 2, 11)
    """

    def __init__(self, base: npt.NDArray[Any], numeric: bool, later: Sequence[Any] = ()) -> None:
        self.base, self.numeric = base, numeric
        self.later: list[Any] = list(later)
        self._codes: dict[Any, int] = {v: len(base) + i for i, v in enumerate(self.later)}

    @staticmethod
    def of_integers(values: npt.NDArray[Any]) -> Domain:
        """The domain of some integers."""
        return Domain(np.unique(values.astype(np.int64)), True)

    @staticmethod
    def of_texts(values: Sequence[str]) -> Domain:
        """The domain of some texts."""
        return Domain(np.array(sorted(set(values)), dtype=object), False)

    def __len__(self) -> int:
        return len(self.base) + len(self.later)

    def code(self, value: int | str | None) -> int | None:
        """The number of a value; None if the value is unknown."""
        if value is None:
            return NULL
        place = int(np.searchsorted(self.base, value))
        if place < len(self.base) and self.base[place] == value:
            return place
        return self._codes.get(value)

    def added(self, value: int | str | None) -> int:
        """The number of a value; an unknown value is added."""
        code = self.code(value)
        return self._later(value) if code is None else code

    def _later(self, value: Any) -> int:
        """The number of a value that is not among the sorted ones."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self)
            self.later.append(value)
        return code

    def value(self, code: int) -> Any:
        """The value of a number."""
        if code == NULL:
            return None
        value = self.base[code] if code < len(self.base) else self.later[code - len(self.base)]
        return int(value) if self.numeric else value

    def codes_of(self, values: npt.NDArray[Any]) -> Codes:
        """The numbers of values; unknown values are added."""
        place = np.searchsorted(self.base, values)
        codes = np.minimum(place, max(len(self.base) - 1, 0)).astype(np.int64)
        unknown = (
            np.ones(len(values), dtype=bool) if not len(self.base) else self.base[codes] != values
        )
        if unknown.any():
            new, inverse = np.unique(values[unknown], return_inverse=True)
            codes[unknown] = np.array([self._later(v) for v in new.tolist()], dtype=np.int64)[
                inverse
            ]
        return codes


def is_numeric(kind: str) -> bool:
    """Whether values of a type are normalized to integers."""
    type_ = parse(kind)
    return type_.is_integer or type_ in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def normalize(value: ColumnValue, kind: str) -> int | str | None:
    """A value as its domain stores it: an integer or a text.

    >>> normalize(datetime.date(1970, 1, 3), "date"), normalize(Decimal("1.5"), "decimal(5,2)")
    (2, '1.50')
    """
    if value is None:
        return None
    if kind == "date" and isinstance(value, datetime.date):
        return (value - _EPOCH).days
    if kind in ("timestamp", "timestamp_ntz") and isinstance(value, datetime.datetime):
        plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (plain - _EPOCH_TIME) // _MICROSECOND
    if is_numeric(kind):
        return int(value)  # type: ignore[arg-type]
    type_ = parse(kind)
    if isinstance(type_, DecimalType):
        return f"{Decimal(value):.{type_.scale}f}"  # type: ignore[arg-type]
    if kind == "binary":
        assert isinstance(value, bytes)
        return value.hex()
    if kind == "boolean":
        return "true" if value else "false"
    return str(value)


def denormalize(value: int | str | None, kind: str) -> ColumnValue:
    """The value of a type for a normalized value.

    >>> denormalize(2, "date"), denormalize("1.50", "decimal(5,2)")
    (datetime.date(1970, 1, 3), Decimal('1.50'))
    """
    if value is None:
        return None
    if kind == "date":
        return _EPOCH + datetime.timedelta(days=int(value))
    if kind == "timestamp":
        return (_EPOCH_TIME + int(value) * _MICROSECOND).replace(tzinfo=datetime.UTC)
    if kind == "timestamp_ntz":
        return _EPOCH_TIME + int(value) * _MICROSECOND
    if is_numeric(kind):
        return int(value)
    if parse(kind).is_decimal:
        return Decimal(value)
    if kind == "binary":
        return bytes.fromhex(str(value))
    if kind == "boolean":
        return value == "true"
    return str(value)


def normalize_column(
    column: pa.ChunkedArray, kind: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The normalized values of a column, and which of them are NULL."""
    nulls = column.is_null().to_numpy(zero_copy_only=False).astype(bool)
    if is_numeric(kind):
        whole = column.cast(pa.int32()) if kind == "date" else column
        filled = pc.fill_null(whole.cast(pa.int64()), 0)
        return filled.to_numpy(zero_copy_only=False).astype(np.int64), nulls
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    texts = np.array(
        [normalize(v, kind) for v in coded.dictionary.to_pylist()] + [""], dtype=object
    )
    indices = pc.fill_null(coded.indices, len(texts) - 1).to_numpy(zero_copy_only=False)
    return texts[indices], nulls
