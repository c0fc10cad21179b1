"""The state of aggregates, an array with a place for each group.

sum, count, avg of exact numbers    n and the sum of words (IMP §5.6); exact
sum, avg of floating point          n, the sum, and the sizes of all that was ever added or
                                    taken, from which follows how far off the sum can be
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
    """The state does not say what the sketch is: it is to be captured anew."""


class PerGroup:
    """Named arrays with a place for each group, zero where nothing was written."""

    def __init__(self) -> None:
        self._room = 16
        self._arrays: Arrays = {}

    def add(self, name: str, kind: Any, width: int = 0, fill: Any = 0) -> None:
        """One more array; with a width, of rows of so many."""
        shape = (self._room, width) if width else (self._room,)
        self._arrays[name] = np.full(shape, fill, dtype=kind)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def reserve(self, count: int, fills: Mapping[str, Any]) -> None:
        """Room for so many groups."""
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
        """Memory held."""
        return sum(a.nbytes for a in self._arrays.values())

    def save(self, count: int) -> Arrays:
        """The places of so many groups."""
        return {name: array[:count] for name, array in self._arrays.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], count: int) -> None:
        """Take over what was saved."""
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
        """Add to groups so many values that are not NULL (or take them), with their sum."""
        add(groups, counts, self.state["n"])
        if not add(groups, amounts, self.state["total"]):
            raise Recapture("a sum has more digits than a word", reason="SKETCH_SUM_TOO_LARGE")


class FloatingSum:
    """The sum and the count of floating point values, and how far off the sum can be."""

    def __init__(self) -> None:
        self.state = PerGroup()
        for name in ("n", "steps"):
            self.state.add(name, np.int64)
        for name in ("total", "spent"):
            self.state.add(name, np.float64)

    def take(self, groups: Words, counts: Words, amounts: Doubles, sizes: Doubles) -> None:
        """Add to groups so many values, with their sum and the sum of their sizes."""
        state = self.state
        if not (np.isfinite(amounts).all() and np.isfinite(sizes).all()):
            raise Recapture("a sum is not finite", reason="SKETCH_NOT_FINITE")
        add(groups, counts, state["n"])
        add(groups, np.abs(counts), state["steps"])
        add_doubles(groups, amounts, sizes, state["total"], state["spent"])

    def settle(self, touched: Words) -> None:
        """End a batch: the sum of no values is nothing, not what rounding left of it."""
        none = touched[self.state["n"][touched] == 0]
        for name in ("total", "spent", "steps"):
            self.state[name][none] = 0

    def error(self, groups: Words) -> Doubles:
        """How far the sums of some groups can be from what Spark, adding in any order, gives.

        Each addition is off by at most half a unit in the last place of a partial sum, and no
        partial sum is larger than all that was added and taken. Four times that, for both sides
        and for what is added up here.
        """
        steps = self.state["steps"][groups].astype(np.float64) + 2.0
        return np.asarray(2.0 * _EPSILON * steps * self.state["spent"][groups], dtype=np.float64)


class LeastValues:
    """The least words of an argument in each group, at most so many."""

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
        """Add a batch of values, none NULL, as often as amounts say."""
        state = self.state
        add(groups, amounts, state["n"])
        net = _net(groups, values, amounts)
        kept = (state[n] for n in ("values", "counts", "sizes", "complete", "bounds"))
        if not hold(*net, *kept):
            raise Recapture("a value went that never came", reason="SKETCH_NEGATIVE_COUNT")

    def settle(self, touched: Words) -> None:
        """End a batch: buffers that hold all values know it."""
        state = self.state
        n, held = state["n"][touched], state["counts"][touched]
        room = np.arange(self.room) < state["sizes"][touched][:, None]
        whole = (held * room).sum(axis=1) == n
        state["complete"][touched[whole]] = True

    def dry(self, groups: Words) -> Flags:
        """Which of some groups have values, and none of the least that were held."""
        state = self.state
        return np.asarray((state["sizes"][groups] == 0) & (state["n"][groups] > 0), dtype=np.bool_)

    def load(self, groups: Words, values: Words, counts: Words, totals: Words) -> None:
        """Values computed elsewhere: of each group its first ones, and how many it has of all.

        More values of a group may come later, from another part of a union: each part is held up
        to the least bound at which one of them left values out.
        """
        state = self.state
        self.take(groups, values, counts)
        # What `take` counted are the values that are here; those left out count too.
        each, first = np.unique(groups, return_index=True)
        here = np.zeros(len(each), dtype=np.int64)
        np.add.at(here, np.searchsorted(each, groups), counts)
        missing = totals[first] - here
        state["n"][each] += missing
        last = np.full(len(each), np.iinfo(np.int64).min)
        np.maximum.at(last, np.searchsorted(each, groups), values)
        self._bound(each[missing > 0], last[missing > 0])

    def _bound(self, groups: Words, last: Words) -> None:
        """Forget what is beyond the last values up to which all are known."""
        state = self.state
        whole = state["complete"][groups]
        bounds = np.where(whole, last, np.minimum(state["bounds"][groups], last))
        state["bounds"][groups], state["complete"][groups] = bounds, False
        inside = np.arange(self.room) < state["sizes"][groups][:, None]
        inside &= state["values"][groups] <= bounds[:, None]
        state["sizes"][groups] = inside.sum(axis=1)

    def least(self, groups: Words) -> tuple[Words, Flags]:
        """The least word of some groups, and which have none."""
        return self.state["values"][groups, 0], self.state["n"][groups] == 0


def _net(groups: Words, values: Words, amounts: Words) -> tuple[Words, Words, Words]:
    """Each pair of a group and a value once, those that go first; what cancels is gone."""
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
