"""The state of aggregates: arrays with a place for each group.

sum, count, avg of exact numbers    n and the sum of words (IMP §5.6); exact
sum, avg of floating point          n, the sum, and the sum of the sizes of all values that were added
                                    or removed, which bounds the rounding error of the sum
min, max                            n and a bounded buffer of least words (IMP §5.7, §9.4.3)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from belvedere.errors import BelvedereError
from belvedere.joins.value_words import Flags
from belvedere.kernels.grouping import Doubles, Words, add, add_doubles
from belvedere.kernels.least import hold

Arrays = dict[str, npt.NDArray[Any]]
_EPSILON = float(np.finfo(np.float64).eps)


class Recapture(BelvedereError):
    """The state does not determine the sketch: it must be captured again."""


class PerGroup:
    """Named arrays with a place for each group, zero where nothing is written."""

    def __init__(self) -> None:
        self._room = 16
        self._arrays: Arrays = {}

    def add(self, name: str, kind: Any, width: int = 0, fill: Any = 0) -> None:
        """Add an array; with a width, each place has a row of that width."""
        shape = (self._room, width) if width else (self._room,)
        self._arrays[name] = np.full(shape, fill, dtype=kind)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def reserve(self, count: int, fills: Mapping[str, Any]) -> None:
        """Make room for so many groups."""
        if count <= self._room:
            return
        room = max(2 * self._room, count)
        for name, old in self._arrays.items():
            new = np.full((room, *old.shape[1:]), fills.get(name, 0), dtype=old.dtype)
            new[: self._room] = old
            self._arrays[name] = new
        self._room = room

    @property
    def bytes(self) -> int:
        """The memory of the state, about."""
        return sum(a.nbytes for a in self._arrays.values())

    def save(self, count: int) -> Arrays:
        """The places of the first groups."""
        return {name: array[:count] for name, array in self._arrays.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], count: int) -> None:
        """Load saved arrays."""
        for name in self._arrays:
            self._arrays[name] = self._arrays[name].copy()
            self._arrays[name][:count] = arrays[name]


FILLS: Mapping[str, Any] = {"complete": True}


class ExactSum:
    """The sum and the count of an argument's values, exact."""

    def __init__(self) -> None:
        self.state = PerGroup()
        self.state.add("n", np.int64)
        self.state.add("total", np.int64)

    def take(self, groups: Words, counts: Words, amounts: Words) -> None:
        """Add the counts and sums of values that are not NULL to groups; negative counts remove values."""
        add(groups, counts, self.state["n"])
        if not add(groups, amounts, self.state["total"]):
            raise Recapture("a sum has more digits than a word", reason="SKETCH_SUM_TOO_LARGE")


class FloatingSum:
    """The sum and the count of floating point values, and a bound on the sum's error."""

    def __init__(self) -> None:
        self.state = PerGroup()
        for name in ("n", "steps"):
            self.state.add(name, np.int64)
        for name in ("total", "spent"):
            self.state.add(name, np.float64)

    def take(self, groups: Words, counts: Words, amounts: Doubles, sizes: Doubles) -> None:
        """Add the counts, sums and sums of sizes of values to groups."""
        state = self.state
        if not (np.isfinite(amounts).all() and np.isfinite(sizes).all()):
            raise Recapture("a sum is not finite", reason="SKETCH_NOT_FINITE")
        add(groups, counts, state["n"])
        add(groups, np.abs(counts), state["steps"])
        add_doubles(groups, amounts, sizes, state["total"], state["spent"])

    def settle(self, touched: Words) -> None:
        """End a batch: the sum of no values is zero, without a rest of rounding."""
        none = touched[self.state["n"][touched] == 0]
        for name in ("total", "spent", "steps"):
            self.state[name][none] = 0

    def error(self, groups: Words) -> Doubles:
        """The greatest difference between the sums of groups and those of Spark, which adds in any order.

        The error of an addition is at most half a unit in the last place of a partial sum, and no
        partial sum exceeds the sum of all sizes. The result is four times that, for both sums and
        for the addition of sizes here.
        """
        steps = self.state["steps"][groups].astype(np.float64) + 2.0
        return np.asarray(2.0 * _EPSILON * steps * self.state["spent"][groups], dtype=np.float64)


class LeastValues:
    """The least words of an argument in each group, at most as many as a buffer has room for."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.state = PerGroup()
        self.state.add("n", np.int64)
        self.state.add("values", np.int64, room)
        self.state.add("counts", np.int64, room)
        self.state.add("sizes", np.int32)
        self.state.add("complete", np.bool_, fill=True)
        self.state.add("bounds", np.int64)

    def take(self, groups: Words, values: Words, amounts: Words) -> None:
        """Add a batch of values that are not NULL, each as often as its amount; a negative one removes values."""
        state = self.state
        add(groups, amounts, state["n"])
        net = _net(groups, values, amounts)
        buffers = (state[n] for n in ("values", "counts", "sizes", "complete", "bounds"))
        if not hold(*net, *buffers):
            raise Recapture("a value went that never came", reason="SKETCH_NEGATIVE_COUNT")

    def settle(self, touched: Words) -> None:
        """End a batch: mark the buffers that hold all values of their group."""
        state = self.state
        n, counts = state["n"][touched], state["counts"][touched]
        used = np.arange(self.room) < state["sizes"][touched][:, None]
        whole = (counts * used).sum(axis=1) == n
        state["complete"][touched[whole]] = True

    def dry(self, groups: Words) -> Flags:
        """Which groups have values but an empty buffer."""
        state = self.state
        return np.asarray((state["sizes"][groups] == 0) & (state["n"][groups] > 0), dtype=np.bool_)

    def load(self, groups: Words, values: Words, counts: Words, totals: Words) -> None:
        """Load the first values of each group and the number of all its values, from the capture.

        Another part of a union may load more values of a group later. The buffer holds the values up
        to the least bound behind which a part omitted values.
        """
        state = self.state
        self.take(groups, values, counts)
        # `take` counts the loaded values; n also counts the omitted ones.
        each, first = np.unique(groups, return_index=True)
        loaded = np.zeros(len(each), dtype=np.int64)
        np.add.at(loaded, np.searchsorted(each, groups), counts)
        missing = totals[first] - loaded
        state["n"][each] += missing
        last = np.full(len(each), np.iinfo(np.int64).min)
        np.maximum.at(last, np.searchsorted(each, groups), values)
        self._bound(each[missing > 0], last[missing > 0])

    def _bound(self, groups: Words, last: Words) -> None:
        """Drop the values behind a bound up to which the buffer has all values."""
        state = self.state
        whole = state["complete"][groups]
        bounds = np.where(whole, last, np.minimum(state["bounds"][groups], last))
        state["bounds"][groups], state["complete"][groups] = bounds, False
        inside = np.arange(self.room) < state["sizes"][groups][:, None]
        inside &= state["values"][groups] <= bounds[:, None]
        state["sizes"][groups] = inside.sum(axis=1)

    def least(self, groups: Words) -> tuple[Words, Flags]:
        """The least word of each group, and which groups have none."""
        return self.state["values"][groups, 0], self.state["n"][groups] == 0


def _net(groups: Words, values: Words, amounts: Words) -> tuple[Words, Words, Words]:
    """Each pair of a group and a value once with its net amount, removals first; zeros are dropped."""
    if not len(groups):
        return groups, values, amounts
    order = np.lexsort((values, groups))
    groups, values, amounts = groups[order], values[order], amounts[order]
    new = np.ones(len(groups), dtype=np.bool_)
    new[1:] = (groups[1:] != groups[:-1]) | (values[1:] != values[:-1])
    starts = np.flatnonzero(new)
    totals = np.add.reduceat(amounts, starts)
    some = np.flatnonzero(totals)
    some = some[np.argsort(totals[some] > 0, kind="stable")]
    return groups[starts[some]], values[starts[some]], totals[some]


def as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
