"""Loops over the rows of a sample: entries put in their slots, purged ones taken out, duplicates refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def _hash(row):  # type: ignore[no-untyped-def]
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(len(row)):
        h ^= np.uint64(row[c])
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(31)
    return h


@njit(cache=True)
def _seek(table, rows, row):  # type: ignore[no-untyped-def]
    """The place of a row in a table of slots, or the free place where it would stand."""
    mask = np.uint64(len(table) - 1)
    at = _hash(row) & mask
    while table[at] >= 0:
        held = rows[table[at]]
        same = True
        for c in range(len(row)):
            same &= held[c] == row[c]
        if same:
            break
        at = (at + np.uint64(1)) & mask
    return at


@njit(cache=True)
def _refill(rows, filled, wanted, drawn, table):  # type: ignore[no-untyped-def]
    """Drawn results that are not there yet behind those that are, until there are so many."""
    for i in range(len(drawn)):
        if filled == wanted:
            break
        at = _seek(table, rows, drawn[i])
        if table[at] < 0:
            table[at] = filled
            rows[filled] = drawn[i]
            filled += 1
    return filled


@njit(cache=True)
def _table_of(rows, filled, table):  # type: ignore[no-untyped-def]
    for slot in range(filled):
        table[_seek(table, rows, rows[slot])] = slot


class Distinct:
    """The results of a sample without replacement, so that none enters twice."""

    def __init__(self, rows: Any, filled: int, wanted: int) -> None:
        self.rows = rows
        self.filled = filled
        self.wanted = wanted
        self.table = np.full(1 << (4 * wanted + 4).bit_length(), -1, dtype=np.int64)
        _table_of(rows, filled, self.table)

    def refill(self, drawn: Any) -> bool:
        """Enter drawn results that are new; whether there are as many as wanted."""
        self.filled = _refill(self.rows, self.filled, self.wanted, drawn, self.table)
        return bool(self.filled == self.wanted)
