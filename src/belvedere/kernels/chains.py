"""Doubly linked chains of rows under numbers: which rows wait for a key, refer to it, have a hash."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.interning import grown


@njit(cache=True)
def _link(rows, under, head, after, before):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        row, key = rows[i], under[i]
        first = head[key]
        after[row] = first
        before[row] = -key - 2
        if first >= 0:
            before[first] = row
        head[key] = row


@njit(cache=True)
def _unlink(rows, head, after, before):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        row = rows[i]
        previous, following = before[row], after[row]
        if previous >= 0:
            after[previous] = following
        else:
            head[-previous - 2] = following
        if following >= 0:
            before[following] = previous
        before[row] = -1


@njit(cache=True)
def _under(keys, head, after):  # type: ignore[no-untyped-def]
    total = 0
    for key in keys:
        row = head[key]
        while row >= 0:
            total += 1
            row = after[row]
    found = np.empty(total, dtype=np.int32)
    total = 0
    for key in keys:
        row = head[key]
        while row >= 0:
            found[total] = row
            total += 1
            row = after[row]
    return found


@njit(cache=True)
def _take(hashes, head, after, before, of):  # type: ignore[no-untyped-def]
    """For each hash the newest row that has it, taken out of its chain; -1 where there is none."""
    mask = np.uint64(len(head) - 1)
    found = np.empty(len(hashes), dtype=np.int32)
    one = np.empty(1, dtype=np.int32)
    for i in range(len(hashes)):
        row = head[np.int64(hashes[i] & mask)]
        while row >= 0 and of[row] != hashes[i]:
            row = after[row]
        found[i] = row
        if row >= 0:
            one[0] = row
            _unlink(one, head, after, before)
    return found


@njit(cache=True)
def first_clash(keys, owner):  # type: ignore[no-untyped-def]
    """Two places with one key, or -1 - the row that has a key and the place that has it too; else -1, -1."""
    one, other = -1, -1
    done = len(keys)
    for i in range(len(keys)):
        held = owner[keys[i]]
        if held != -1:
            one, other = (-1 - held if held >= 0 else -2 - held), i
            done = i
            break
        owner[keys[i]] = -2 - i
    for i in range(done):
        owner[keys[i]] = -1
    return one, other


class Chains:
    """Rows in chains, each row in one at most."""

    def __init__(self) -> None:
        self.head = np.full(64, -1, dtype=np.int32)
        self.after = np.full(64, -1, dtype=np.int32)
        self.before = np.full(64, -1, dtype=np.int32)

    def reserve(self, keys: int, rows: int) -> None:
        """Room for so many chains and row numbers."""
        self.head = grown(self.head, keys, -1)
        self.after = grown(self.after, rows, -1)
        self.before = grown(self.before, rows, -1)

    def link(self, rows: Any, under: Any) -> None:
        """Rows to the front of the chains under some numbers."""
        _link(rows, under, self.head, self.after, self.before)

    def unlink(self, rows: Any) -> None:
        """Rows out of the chains they are in."""
        _unlink(rows, self.head, self.after, self.before)

    def under(self, keys: Any) -> Any:
        """The rows under some numbers, each number given once."""
        return _under(keys, self.head, self.after)


class RowIndex:
    """Rows by a hash of their values; among equal rows the newest is found first."""

    def __init__(self, rows: int) -> None:
        self.chains = Chains()
        self.of = np.zeros(64, dtype=np.uint64)
        self.size = 0
        self._buckets(1 << max(6, (2 * rows).bit_length()))

    def _buckets(self, buckets: int) -> None:
        self.chains.head = np.full(buckets, -1, dtype=np.int32)

    def _bucket(self, hashes: Any) -> Any:
        return (hashes & np.uint64(len(self.chains.head) - 1)).astype(np.int64)

    def add(self, rows: Any, hashes: Any, bound: int) -> None:
        """Rows with their hashes; `bound` is above every row number."""
        self.chains.reserve(0, bound)
        self.of = grown(self.of, bound)
        if self.size + len(rows) > len(self.chains.head):
            held = np.flatnonzero(self.chains.before[:bound] != -1).astype(np.int32)
            self._buckets(1 << (2 * (self.size + len(rows))).bit_length())
            self.chains.link(held, self._bucket(self.of[held]))
        self.of[rows] = hashes
        self.chains.link(rows, self._bucket(hashes))
        self.size += len(rows)

    def take(self, hashes: Any) -> Any:
        """For each hash a row that has it, no row twice, taken out; -1 where there is none left."""
        found = _take(hashes, self.chains.head, self.chains.after, self.chains.before, self.of)
        self.size -= int((found >= 0).sum())
        return found

    def put_back(self, rows: Any) -> None:
        """Rows that were taken out, into the order they were found in."""
        rows = rows[::-1].copy()
        self.chains.link(rows, self._bucket(self.of[rows]))
        self.size += len(rows)
