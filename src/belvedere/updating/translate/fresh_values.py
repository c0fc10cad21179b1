"""Fresh values: values of a type that no row has, close to given values, beyond the extremes, or in gaps.

Numbers, dates, times and decimals map to integers (a decimal to its digits), so that one walk serves
all of them and never leaves the type.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from belvedere.algebra.types import DecimalType, IntegerType, parse
from belvedere.memory import kinds
from belvedere.updating.summary.domains import Domain, NormalValue, is_numeric, normalize

MOST_STEPS = 1_000
"""How many used values a walk passes before it gives up."""


@cache
def bounds(kind: str) -> tuple[int, int] | None:
    """The least and the greatest value of a type as integers; None for other types.

    >>> bounds("tinyint"), bounds("decimal(3,1)"), bounds("string")
    ((-128, 127), (-999, 999), None)
    """
    type_ = parse(kind)
    if isinstance(type_, IntegerType):
        return type_.least, type_.greatest
    if isinstance(type_, DecimalType):
        most = int(10**type_.precision) - 1
        return -most, most
    if is_numeric(kind):
        of: Any = datetime.date if kind == "date" else datetime.datetime
        low, high = normalize(of.min, kind), normalize(of.max, kind)
        return int(low or 0), int(high or 0)
    return None


def as_integer(value: int | str) -> int:
    """A number, or the text of a decimal, as an integer.

    >>> as_integer(7), as_integer("-1.50")
    (7, -150)
    """
    return int(value.replace(".", "")) if isinstance(value, str) else int(value)


def _from_integer(number: int, kind: str) -> int | str:
    """The value of a type for an integer."""
    if not parse(kind).is_decimal:
        return number
    scale = kinds.digits(kind)[1]
    digits = str(abs(number)).zfill(scale + 1)
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text


def fits_types(value: NormalValue, types: Collection[str]) -> bool:
    """Whether a value belongs to every one of some joined types."""
    ends = [bounds(kind) for kind in types]
    return value is None or all(e is None or e[0] <= as_integer(value) <= e[1] for e in ends)


def is_free(domain: Domain | None, value: NormalValue) -> bool:
    """Whether no row is known to have a value."""
    return value is not None and (domain is None or domain.code(value) is None)


@dataclass(frozen=True)
class FreshValues:
    """Fresh values of joined types. `domain` is None if the values of rows are not known."""

    types: Sequence[str]
    domain: Domain | None
    asked: Collection[NormalValue] = ()
    """Values that the request shows."""

    def is_free(self, value: NormalValue) -> bool:
        """Whether no row is known to have a value, and no row of the request shows it."""
        return is_free(self.domain, value) and value not in self.asked

    def values(self, given: Iterable[NormalValue], most: int) -> Iterator[NormalValue]:
        """The given values that fit, then fresh values: `most` beside each of them, and `most` others."""
        given_values = [
            v for v in dict.fromkeys(given) if v is not None and fits_types(v, self.types)
        ]
        yield from given_values
        if self._ends is not None:
            beside: Iterable[int | str] = (
                v
                for k in given_values
                for step in (1, -1)
                for v in self._walk(as_integer(k), step, most)
            )
            yield from chain(beside, self._others(most))
        elif self.types[0] in ("string", "binary"):
            yield from self._texts([str(k) for k in given_values], most)

    @property
    def _ends(self) -> tuple[int, int] | None:
        ends = [e for e in map(bounds, self.types) if e is not None]
        return (max(e[0] for e in ends), min(e[1] for e in ends)) if ends else None

    def _walk(self, start: int, step: int, most: int) -> Iterator[int | str]:
        """Free values from `start` in one direction, without `start`."""
        assert self._ends is not None
        low, high = self._ends
        yielded = 0
        for number in islice(count(start + step, step), MOST_STEPS + most):
            if yielded == most or not low <= number <= high:
                return
            value = _from_integer(number, self.types[0])
            if self.is_free(value):
                yielded += 1
                yield value

    def _others(self, most: int) -> Iterator[int | str]:
        """Free values beyond the extremes; in gaps between used values if those are too few."""
        assert self._ends is not None
        kind = self.types[0]
        if parse(kind).is_decimal:
            one = 10 ** kinds.digits(kind)[1]
            yield from self._walk(0, one if one <= self._ends[1] else 1, most)
            yield from self._walk(self._ends[1] + 1, -1, most)
            return
        used = self._taken()
        top, bottom = max([0, *used[-1:].tolist()]), min([0, *used[:1].tolist()])
        beyond = [*self._walk(top, 1, most), *self._walk(bottom, -1, most)]
        yield from beyond
        if len(beyond) < most:
            for place in np.flatnonzero(np.diff(used) > 1)[:most].tolist():
                yield from self._walk(int(used[place]), 1, most)

    def _taken(self) -> npt.NDArray[np.int64]:
        """The integers that rows have, sorted."""
        if self.domain is None:
            return np.zeros(0, dtype=np.int64)
        base = self.domain.base.astype(np.int64, copy=False)
        later = np.array(self.domain.later, dtype=np.int64)
        return np.unique(np.concatenate([base, later])) if len(later) else base

    def _texts(self, known: Sequence[str], most: int) -> Iterator[str]:
        """Free texts just above and just below given ones, and others."""
        if self.types[0] == "binary":
            texts = (f"new {i}".encode().hex() for i in count())
            yield from islice(filter(self.is_free, texts), most)
            return
        below = [k[:-1] + chr(ord(k[-1]) - 1) for k in known if k and ord(k[-1]) > 1]
        for lead in ["", *(f"{k} " for k in [*known, *below])]:
            texts = (f"{lead}new {i}" for i in count())
            # A condition may exclude as many values as it mentions.
            yield from islice(filter(self.is_free, texts), most + len(known))
