"""Definitions of the sketch engine's kernels, in plain Python: what the compiled loops are tested against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def place_plainly(keys: list[tuple[int, ...]], batch: Sequence[tuple[int, ...]]) -> list[int]:
    """The definition of `place`: keys are numbered in the order in which they are first seen."""
    numbers = {key: number for number, key in enumerate(keys)}
    out = []
    for row in batch:
        if row not in numbers:
            numbers[row] = len(keys)
            keys.append(row)
        out.append(numbers[row])
    return out


def touch_plainly(groups: Sequence[int]) -> list[int]:
    """The definition of `touch`."""
    return list(dict.fromkeys(groups))


def add_plainly(groups: Sequence[int], amounts: Sequence[int], totals: list[int]) -> bool:
    """The definition of `add`, and without its check of `add_doubles`."""
    for group, amount in zip(groups, amounts, strict=True):
        if not -(2**63) <= totals[group] + amount < 2**63:
            return False
        totals[group] += amount
    return True


def occurs_plainly(
    rows: Sequence[tuple[int, int, int]], shown: Sequence[bool], width: int
) -> list[int]:
    """The definition of all updates of μ: from every (group, fragment, amount) so far.

    The number of shown groups in which a fragment occurs.
    """
    counts: dict[tuple[int, int], int] = {}
    for group, fragment, amount in rows:
        if fragment >= 0:
            counts[group, fragment] = counts.get((group, fragment), 0) + amount
    occurs = [0] * width
    for (group, fragment), count in counts.items():
        occurs[fragment] += int(count > 0 and shown[group])
    return occurs


class PlainBuffer:
    """One group's buffer of least values, as a dictionary."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.counts: dict[int, int] = {}
        self.complete = True
        self.bound = 0

    def hold(self, word: int, amount: int) -> bool:
        """Take an amount of a value in or out; False if it must be there and is not."""
        if not self.complete and word > self.bound:
            return True
        self.counts[word] = self.counts.get(word, 0) + amount
        if self.counts[word] < 0:
            return False
        if self.counts[word] == 0:
            del self.counts[word]
        if len(self.counts) > self.room:
            del self.counts[max(self.counts)]
            self.complete, self.bound = False, max(self.counts)
        return True

    @property
    def least(self) -> int | None:
        """The least value; None where there is none or it is not known."""
        return min(self.counts, default=None)


class PlainFilter:
    """A Bloom filter without false positives: the set of what was added."""

    def __init__(self) -> None:
        self._words: set[int] = set()

    def add(self, words: Iterable[int]) -> None:
        """Add words."""
        self._words.update(words)

    def has(self, word: int) -> bool:
        """Whether a word was added."""
        return word in self._words
