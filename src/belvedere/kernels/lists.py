"""Under every number a list of members with counts, sorted by member, in one arena.

Adding to a count makes the member if it was not there; a count of zero takes it out. A list that
outgrows its room moves to the end of the arena with room to spare. Defined by `PlainLists` in tests/kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.hashes.interning import grown


@njit(cache=True)
def _place(members, begin, end, member):  # type: ignore[no-untyped-def]
    """The first place whose member is not less."""
    while begin < end:
        middle = (begin + end) >> 1
        if members[middle] < member:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True)
def _new(start, length, first, last, members, held):  # type: ignore[no-untyped-def]
    """How many of some members a list does not have."""
    new = 0
    for i in range(first, last):
        at = _place(held, start, start + length, members[i])
        new += at == start + length or held[at] != members[i]
    return new


@njit(cache=True)
def _merge(start, length, new, first, last, members, deltas, held, counts):  # type: ignore[no-untyped-def]
    """Changes `first` to `last` into a list that has the room, from its end; its new length."""
    old, at, i, empty = start + length - 1, start + length + new - 1, last - 1, 0
    while i >= first:
        if old >= start and held[old] > members[i]:
            held[at], counts[at] = held[old], counts[old]
            old -= 1
        elif old >= start and held[old] == members[i]:
            held[at], counts[at] = held[old], counts[old] + deltas[i]
            empty += counts[at] == 0
            old -= 1
            i -= 1
        else:
            held[at], counts[at] = members[i], deltas[i]
            i -= 1
        at -= 1
    if empty:
        at = start
        for old in range(start, start + length + new):
            if counts[old] != 0:
                held[at], counts[at] = held[old], counts[old]
                at += 1
    return length + new - empty


@njit(cache=True)
def _add(keys, members, deltas, begin, starts, lengths, rooms, held, counts, top):  # type: ignore[no-untyped-def]
    """Apply changes, sorted by key and member; the place of the first that found no room."""
    i = begin
    while i < len(keys):
        key, end = keys[i], i
        while end < len(keys) and keys[end] == key:
            end += 1
        new = _new(starts[key], lengths[key], i, end, members, held)
        most = lengths[key] + new
        if most > rooms[key]:
            room = most + (most >> 1) + 1
            if top[0] + room > len(held):
                return i
            for k in range(lengths[key]):
                held[top[0] + k] = held[starts[key] + k]
                counts[top[0] + k] = counts[starts[key] + k]
            starts[key] = top[0]
            rooms[key] = room
            top[0] += room
        lengths[key] = _merge(starts[key], lengths[key], new, i, end, members, deltas, held, counts)
        i = end
    return i


@njit(cache=True)
def _met(keys, starts, lengths, held, counts):  # type: ignore[no-untyped-def]
    """What stands under each key: the place of the key, the member, its count."""
    total = 0
    for key in keys:
        if 0 <= key < len(lengths):
            total += lengths[key]
    of = np.empty(total, dtype=np.int64)
    members = np.empty(total, dtype=np.int64)
    found = np.empty(total, dtype=np.int64)
    at = 0
    for i in range(len(keys)):
        if not 0 <= keys[i] < len(lengths):
            continue
        start = starts[keys[i]]
        for k in range(start, start + lengths[keys[i]]):
            of[at], members[at], found[at] = i, held[k], counts[k]
            at += 1
    return of, members, found


@njit(cache=True)
def _up(values, starts, lengths, held, counts, found):  # type: ignore[no-untyped-def]
    """Each key's value into its members, as often as it counts."""
    for key in range(len(values)):
        for k in range(starts[key], starts[key] + lengths[key]):
            found[held[k]] += values[key] * counts[k]


@njit(cache=True)
def _down(values, starts, lengths, held, counts, found):  # type: ignore[no-untyped-def]
    """The values of each key's members, as often as they count, summed."""
    for key in range(len(found)):
        total = 0.0
        for k in range(starts[key], starts[key] + lengths[key]):
            total += values[held[k]] * counts[k]
        found[key] = total


class Lists:
    """Members with counts under numbers from 0 on."""

    def __init__(self, width: int, keys: Any, members: Any, counts: Any) -> None:
        """From entries that are sorted by key and member."""
        # Lists to come have room from the start: the first change need not wait for it.
        ends = np.searchsorted(keys, np.arange(width + width // 8 + 65)).astype(np.int64)
        self.starts, self.lengths = ends[:-1].copy(), np.diff(ends)
        self.rooms = self.lengths.copy()
        self.top = np.array([len(members)], dtype=np.int64)
        room = len(members) + len(members) // 4 + 64
        self.members = grown(np.asarray(members, dtype=np.int64), room)
        self.counts = grown(np.asarray(counts, dtype=np.int64), room)

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def reserve(self, width: int) -> None:
        """Room for so many lists."""
        self.starts = grown(self.starts, width)
        self.lengths = grown(self.lengths, width)
        self.rooms = grown(self.rooms, width)

    def at(self, key: int | None) -> tuple[Any, Any]:
        """The members under a key and their counts; none under None."""
        if key is None or not 0 <= key < len(self.starts):
            return self.members[:0], self.counts[:0]
        some = slice(self.starts[key], self.starts[key] + self.lengths[key])
        return self.members[some], self.counts[some]

    def under(self, keys: Any) -> tuple[Any, Any, Any]:
        """What stands under some keys: which of these each is of, the member, its count."""
        return _met(keys, self.starts, self.lengths, self.members, self.counts)  # type: ignore[no-any-return]

    def entries(self) -> tuple[Any, Any, Any]:
        """All keys, members and counts, sorted."""
        return self.under(np.arange(len(self.starts)))

    def add(self, keys: Any, members: Any, deltas: Any) -> None:
        """Add to counts; sorted by key and member, each pair once, keys below the width."""
        done = 0
        while True:
            done = _add(
                keys, members, deltas, done, self.starts, self.lengths, self.rooms,
                self.members, self.counts, self.top,
            )  # fmt: skip
            if done == len(keys):
                return
            self._more_room(len(keys) + 2 * int(self.lengths[keys[done]]))

    def _more_room(self, wanted: int) -> None:
        """The lists close together at the beginning of an arena that has room behind them."""
        keys, members, counts = self.entries()
        ends = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        self.starts, self.rooms = ends[:-1].copy(), self.lengths.copy()
        self.top[0] = len(keys)
        room = len(keys) + len(keys) // 2 + 4 * wanted + 64
        self.members, self.counts = grown(members, room), grown(counts, room)

    def up(self, values: Any, width: int) -> Any:
        """For each of so many members, the sum of its keys' values times its counts."""
        found = np.zeros(width)
        _up(values, self.starts, self.lengths, self.members, self.counts, found)
        return found

    def down(self, values: Any, width: int) -> Any:
        """For each of so many keys, the sum of its members' values times their counts."""
        found = np.zeros(width)
        _down(values, self.starts, self.lengths, self.members, self.counts, found)
        return found
