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
def _refill(rows, holes, done, drawn, table):  # type: ignore[no-untyped-def]
    """Drawn results that are not there yet into slots that are free; how many of these are filled."""
    for i in range(len(drawn)):
        if done == len(holes):
            break
        at = _seek(table, rows, drawn[i])
        if table[at] < 0:
            table[at] = holes[done]
            rows[holes[done]] = drawn[i]
            done += 1
    return done


@njit(cache=True)
def _note(rows, slots, table):  # type: ignore[no-untyped-def]
    """The results that stand in some slots, found from now on; how many places that took."""
    taken = 0
    for slot in slots:
        at = _seek(table, rows, rows[slot])
        taken += table[at] < 0
        table[at] = slot
    return taken


@njit(cache=True)
def gone(column, vertex, found):  # type: ignore[no-untyped-def]
    """Marks the results whose row of one node is not in the graph any more; whether there is one."""
    some = False
    for i in range(len(column)):
        if column[i] >= len(vertex) or vertex[column[i]] == 0:
            found[i] = True
            some = True
    return some


@njit(cache=True)
def _last_of(at, rest, slots, taken):  # type: ignore[no-untyped-def]
    n = len(slots)
    for i in range(len(slots) - 1, -1, -1):
        if not taken[slots[i]]:
            taken[slots[i]] = True
            n -= 1
            at[n], rest[n], slots[n] = at[i], rest[i], slots[i]
    return n


def last_of(at: Any, rest: Any, slots: Any, size: int) -> tuple[Any, Any, Any]:
    """Of entries into the slots of a sample the last into each.

    >>> numbers = np.array([5, 6, 7])
    >>> [a.tolist() for a in last_of(numbers, numbers.copy(), np.array([0, 1, 0]), 2)]
    [[6, 7], [6, 7], [1, 0]]
    """
    if 8 * len(slots) < size:
        return at, rest, slots
    n = _last_of(at, rest, slots, np.zeros(size, dtype=np.bool_))
    return at[n:], rest[n:], slots[n:]


class DistinctSample:
    """The results of a sample without replacement, so that none enters twice.

    A slot whose result was replaced leaves its old place in the table behind: it leads to a slot with another
    result, and so to nothing. Once half of the table is taken, it is made anew.
    """

    def __init__(self, size: int) -> None:
        self.table = np.full(1 << (8 * size + 8).bit_length(), -1, dtype=np.int32)
        self.taken = 0

    def note(self, rows: Any, slots: Any, filled: int) -> None:
        """Some slots have new results."""
        if 2 * (self.taken + len(slots)) > len(self.table):
            self.table[:] = -1
            self.taken = 0
            slots = np.arange(filled)
        self.taken += int(_note(rows, slots, self.table))

    def refill(self, rows: Any, holes: Any, done: int, drawn: Any) -> int:
        """Enter drawn results that are new into free slots; how many of these are filled now."""
        filled = int(_refill(rows, holes, done, drawn, self.table))
        self.taken += filled - done
        return filled
