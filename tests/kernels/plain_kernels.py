"""Definitions of kernels for joins, in plain Python: what the compiled loops are tested against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belvedere.kernels.hashes.interning import Codes


def interned(codes: Codes, known: dict[tuple[int, ...], int]) -> list[int]:
    """The definition of `Interner.ids`: known keys have their numbers, new ones get the next.

    >>> interned(np.array([[7], [9], [7]]), {(9,): 0})
    [1, 0, 1]
    """
    return [known.setdefault(tuple(row), len(known)) for row in codes.tolist()]


class PlainLists:
    """The definition of `Lists`."""

    def __init__(self, entries: Mapping[tuple[int, int], int]) -> None:
        self.counts = dict(entries)

    def add(self, key: int, member: int, delta: int) -> None:
        """Add to a count."""
        self.counts[key, member] = self.counts.get((key, member), 0) + delta
        if not self.counts[key, member]:
            del self.counts[key, member]

    def at(self, key: int) -> list[tuple[int, int]]:
        """The members under a key, with their counts, in order."""
        return sorted((m, n) for (k, m), n in self.counts.items() if k == key)

    def up(self, values: list[float], width: int) -> list[float]:
        """As `Lists.up`."""
        return [
            sum(values[k] * n for (k, m), n in sorted(self.counts.items()) if m == at)
            for at in range(width)
        ]

    def down(self, values: list[float], width: int) -> list[float]:
        """As `Lists.down`."""
        return [sum(values[m] * n for m, n in self.at(key)) for key in range(width)]


def rows_with(keys: Sequence[int], key: int) -> list[int]:
    """The definition of `Postings.rows`: the numbers of rows that have a key.

    >>> rows_with([4, -1, 4], 4), rows_with([4, -1, 4], -1)
    ([0, 2], [])
    """
    return [row for row, has in enumerate(keys) if has == key and key >= 0]
