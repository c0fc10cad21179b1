"""Doubly linked chains of rows under numbers: which rows wait for a key, refer to it, have a hash."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.hashes.interning import grown


@njit(cache=True)
def _link(rows, under, head, after, before):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        row, key = rows[i], under[i]
        first = head[key]
        after[row] = first
        before[row] = -key - 1
        if first:
            before[first - 1] = row + 1
        head[key] = row + 1


@njit(cache=True, inline="always")
def _cut(row, head, after, before):  # type: ignore[no-untyped-def]
    previous, following = before[row], after[row]
    if previous > 0:
        after[previous - 1] = following
    else:
        head[-previous - 1] = following
    if following:
        before[following - 1] = previous
    before[row] = 0


@njit(cache=True)
def _unlink(rows, head, after, before):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        _cut(rows[i], head, after, before)


@njit(cache=True)
def _under(keys, head, after):  # type: ignore[no-untyped-def]
    total = 0
    for key in keys:
        row = head[key]
        while row:
            total += 1
            row = after[row - 1]
    found = np.empty(total, dtype=np.int32)
    total = 0
    for key in keys:
        row = head[key]
        while row:
            found[total] = row - 1
            total += 1
            row = after[row - 1]
    return found


@njit(cache=True)
def _hang(rows, hashes, head, after, of):  # type: ignore[no-untyped-def]
    """Rows into the chains that their hashes say."""
    mask = np.uint64(len(head) - 1)
    for i in range(len(rows)):
        row, key = rows[i], np.int64(hashes[i] & mask)
        of[row] = hashes[i]
        after[row] = head[key]
        head[key] = row + 1


@njit(cache=True)
def _rehang(old, head, after, of):  # type: ignore[no-untyped-def]
    """All rows into more chains; of those with one hash the newest stays first."""
    mask = np.uint64(len(head) - 1)
    for chain in range(len(old)):
        back, row = 0, old[chain]
        while row:
            following = after[row - 1]
            after[row - 1] = back
            back, row = row, following
        while back:
            following = after[back - 1]
            key = np.int64(of[back - 1] & mask)
            after[back - 1] = head[key]
            head[key] = back
            back = following


@njit(cache=True)
def _take(hashes, head, after, of):  # type: ignore[no-untyped-def]
    """For each hash the newest row that has it, taken out of its chain; -1 where there is none."""
    mask = np.uint64(len(head) - 1)
    found = np.empty(len(hashes), dtype=np.int32)
    for i in range(len(hashes)):
        key = np.int64(hashes[i] & mask)
        previous, row = 0, head[key]
        while row and of[row - 1] != hashes[i]:
            previous, row = row, after[row - 1]
        found[i] = row - 1
        if row and previous:
            after[previous - 1] = after[row - 1]
        elif row:
            head[key] = after[row - 1]
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
    """Rows in chains, each row in one at most.

    Nothing is 0, and a number n stands as n + 1, so that chains of few rows of many touch little memory;
    before the first row of chain k stands -1 - k.
    """

    def __init__(self) -> None:
        self.head = np.zeros(64, dtype=np.int32)
        self.after = np.zeros(64, dtype=np.int32)
        self.before = np.zeros(64, dtype=np.int32)

    def reserve(self, keys: int, rows: int) -> None:
        """Room for so many chains and row numbers."""
        self.head = grown(self.head, keys)
        self.after = grown(self.after, rows)
        self.before = grown(self.before, rows)

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
    """Rows by a hash of their values; among equal rows the newest is found first.

    Chains as above, in one direction: whoever takes a row out has walked to it.
    """

    def __init__(self, rows: int) -> None:
        self.head = np.zeros(1 << max(6, (2 * rows).bit_length()), dtype=np.int32)
        self.after = np.zeros(64, dtype=np.int32)
        self.of = np.zeros(64, dtype=np.uint64)
        self.size = 0

    def add(self, rows: Any, hashes: Any, bound: int) -> None:
        """Rows with their hashes; `bound` is above every row number."""
        self.after, self.of = grown(self.after, bound), grown(self.of, bound)
        if self.size + len(rows) > len(self.head):
            old = self.head
            self.head = np.zeros(1 << (2 * (self.size + len(rows))).bit_length(), dtype=np.int32)
            _rehang(old, self.head, self.after, self.of)
        _hang(rows, hashes, self.head, self.after, self.of)
        self.size += len(rows)

    def take(self, hashes: Any) -> Any:
        """For each hash a row that has it, no row twice, taken out; -1 where there is none left."""
        found = _take(hashes, self.head, self.after, self.of)
        self.size -= int((found >= 0).sum())
        return found

    def put_back(self, rows: Any) -> None:
        """Rows that were taken out, into the order they were found in."""
        rows = rows[::-1].copy()
        _hang(rows, self.of[rows], self.head, self.after, self.of)
        self.size += len(rows)
