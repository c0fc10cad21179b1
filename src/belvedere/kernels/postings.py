"""The rows that have a key: those of the beginning sorted by it, later ones in a chain each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.hashes.interning import grown

_LATE = 0.1


@njit(cache=True)
def _sorted(keys, starts):  # type: ignore[no-untyped-def]
    """Rows by key in the order of their numbers; `starts` becomes where each key's begin."""
    for key in keys:
        if key >= 0:
            starts[key + 1] += 1
    for key in range(len(starts) - 1):
        starts[key + 1] += starts[key]
    order = np.empty(starts[-1], dtype=np.int64)
    at = starts.copy()
    for row in range(len(keys)):
        if keys[row] >= 0:
            order[at[keys[row]]] = row
            at[keys[row]] += 1
    return order


@njit(cache=True)
def _link(rows, keys, first, head, after):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        if keys[i] >= 0:
            after[rows[i] - first] = head[keys[i]] - 1
            head[keys[i]] = rows[i] + 1


@njit(cache=True)
def _with(keys, order, starts, first, head, after):  # type: ignore[no-untyped-def]
    """The rows that have some keys, and which of the keys each has."""
    total, sorted_keys = 0, len(starts) - 1
    for key in keys:
        if 0 <= key < sorted_keys:
            total += starts[key + 1] - starts[key]
        row = head[key] - 1 if 0 <= key < len(head) else -1
        while row >= 0:
            total += 1
            row = after[row - first]
    rows = np.empty(total, dtype=np.int64)
    of = np.empty(total, dtype=np.int64)
    at = 0
    for i in range(len(keys)):
        key = keys[i]
        if 0 <= key < sorted_keys:
            for k in range(starts[key], starts[key + 1]):
                rows[at], of[at] = order[k], i
                at += 1
        row = head[key] - 1 if 0 <= key < len(head) else -1
        while row >= 0:
            rows[at], of[at] = row, i
            at += 1
            row = after[row - first]
    return rows, of


@njit(cache=True)
def _counts(keys, starts, first, head, after):  # type: ignore[no-untyped-def]
    """How many rows have each of some keys."""
    found = np.zeros(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        key = keys[i]
        if 0 <= key < len(starts) - 1:
            found[i] = starts[key + 1] - starts[key]
        row = head[key] - 1 if 0 <= key < len(head) else -1
        while row >= 0:
            found[i] += 1
            row = after[row - first]
    return found


class Postings:
    """The rows of each key; a key below zero is none."""

    def __init__(self, keys: Any, width: int) -> None:
        self.starts = np.zeros(width + 1, dtype=np.int64)
        self.order = _sorted(keys, self.starts)
        self.first, self.late = len(keys), 0
        # One more than the last late row of each key: zeros are no memory until they are written to.
        self.head = np.zeros(0, dtype=np.int64)
        self.after = np.zeros(0, dtype=np.int64)

    @property
    def stale(self) -> bool:
        """Whether so many rows came later that sorting all again is worth it."""
        return self.late > 1000 + _LATE * len(self.order)

    def add(self, rows: Any, keys: Any, width: int) -> None:
        """Rows that came later, with numbers that follow those before."""
        self.head = grown(self.head, width)
        self.after = grown(self.after, int(rows[-1]) - self.first + 1 if len(rows) else 0, -1)
        _link(rows, keys, self.first, self.head, self.after)
        self.late += len(rows)

    def under(self, keys: Any) -> tuple[Any, Any]:
        """The rows that have some keys, and which of the keys each has."""
        found: tuple[Any, Any] = _with(
            keys, self.order, self.starts, self.first, self.head, self.after
        )
        return found

    def counts(self, keys: Any) -> Any:
        """How many rows have each of some keys."""
        return _counts(keys, self.starts, self.first, self.head, self.after)

    def rows(self, key: int) -> list[int]:
        """The rows that have a key."""
        found: list[int] = []
        if 0 <= key < len(self.starts) - 1:
            found = self.order[self.starts[key] : self.starts[key + 1]].tolist()
        row = int(self.head[key]) - 1 if self.late and 0 <= key < len(self.head) else -1
        while row >= 0:
            found.append(row)
            row = int(self.after[row - self.first])
        return found
