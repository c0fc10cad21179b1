"""Numbers of groups: the keys of a block's groups, of any types, as rows of words."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.joins.value_words import Flags, fits, nulls, values_of, words
from belvedere.kernels.grouping import Slots, Words, enter, place

Arrays = dict[str, npt.NDArray[Any]]


class TextNumbers:
    """Values that are no words, numbered in the order of their first occurrence."""

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self._values = list(values)
        self._numbers = {v: i for i, v in enumerate(self._values)}

    def number(self, values: pa.Array) -> Words:
        """The number of each value; NULL slots have arbitrary numbers."""
        encoded = pc.dictionary_encode(values)
        numbers = self._numbers
        own = []
        for value in encoded.dictionary.to_pylist():
            if value not in numbers:
                numbers[value] = len(self._values)
                self._values.append(value)
            own.append(numbers[value])
        places = pc.fill_null(encoded.indices, len(own)).to_numpy().astype(np.int64)
        by_row: Words = np.array([*own, 0], dtype=np.int64)[places]
        return by_row

    def values(self, numbers: Words, absent: Flags, kind: pa.DataType) -> pa.Array:
        """The values of numbers."""
        values = pa.array(self._values, kind)
        return values.take(pa.array(numbers, mask=absent))

    def save(self) -> tuple[npt.NDArray[np.uint8], Words]:
        """All values as bytes, and the end of each."""
        raw = [str(v).encode() for v in self._values]
        ends = np.cumsum([len(r) for r in raw], dtype=np.int64)
        return np.frombuffer(b"".join(raw), dtype=np.uint8), ends

    @staticmethod
    def restore(raw: npt.NDArray[np.uint8], ends: Words, kind: pa.DataType) -> TextNumbers:
        """Saved values."""
        whole, starts = raw.tobytes(), [0, *ends.tolist()]
        texts = [whole[a:b].decode() for a, b in itertools.pairwise(starts)]
        return TextNumbers(pa.array(texts, pa.string()).cast(kind).to_pylist())


class KeyedGroups:
    """The groups of a block, and their numbers."""

    def __init__(self, kinds: Sequence[str], types: Sequence[pa.DataType]) -> None:
        self._kinds, self._types = tuple(kinds), tuple(types)
        self._texts = {i: TextNumbers() for i, kind in enumerate(kinds) if not fits(kind)}
        self.known = 0
        # The last word has a bit for each column that is NULL.
        self._keys: Words = np.zeros((16, len(kinds) + 1), dtype=np.int64)
        self._slots: Slots = np.full(64, -1, dtype=np.int32)

    def number(self, columns: Sequence[pa.Array], rows: int) -> Words:
        """The number of each row's group; new groups get new numbers."""
        batch = self._words(columns, rows)
        out = np.empty(rows, dtype=np.int64)
        done = 0
        while True:
            self.known, done = place(self._slots, self._keys, self.known, batch, done, out)
            if done == rows:
                return out
            self._widen()

    def column(self, place: int, groups: Words) -> pa.Array:
        """The values of one key column of some groups."""
        numbers, mask = self._keys[groups, place], self._keys[groups, -1]
        absent = (mask >> place & 1).astype(np.bool_)
        if place in self._texts:
            return self._texts[place].values(numbers, absent, self._types[place])
        return values_of(numbers, absent, self._kinds[place])

    def _words(self, columns: Sequence[pa.Array], rows: int) -> Words:
        batch = np.zeros((rows, len(self._kinds) + 1), dtype=np.int64)
        for i, column in enumerate(columns):
            absent = nulls(column)
            text = self._texts.get(i)
            numbers = words(column) if text is None else text.number(column)
            assert numbers is not None
            batch[:, i] = np.where(absent, 0, numbers)
            batch[:, -1] |= absent.astype(np.int64) << i
        return batch

    def _widen(self) -> None:
        keys = np.zeros((2 * len(self._keys), self._keys.shape[1]), dtype=np.int64)
        keys[: self.known] = self._keys[: self.known]
        self._keys = keys
        self._slots = np.full(4 * len(keys), -1, dtype=np.int32)
        enter(self._slots, self._keys, self.known)

    @property
    def bytes(self) -> int:
        """The memory of the state, about."""
        return self._keys.nbytes + self._slots.nbytes

    def save(self) -> Arrays:
        """What `restore` needs."""
        arrays: Arrays = {"keys": self._keys[: self.known]}
        for i, texts in self._texts.items():
            arrays[f"text{i}"], arrays[f"ends{i}"] = texts.save()
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Load saved arrays."""
        keys = arrays["keys"]
        self.known = len(keys)
        room = max(16, 1 << (2 * self.known).bit_length())
        self._keys = np.zeros((room, keys.shape[1]), dtype=np.int64)
        self._keys[: self.known] = keys
        self._slots = np.full(4 * room, -1, dtype=np.int32)
        enter(self._slots, self._keys, self.known)
        for i in self._texts:
            self._texts[i] = TextNumbers.restore(
                arrays[f"text{i}"], arrays[f"ends{i}"], self._types[i]
            )
