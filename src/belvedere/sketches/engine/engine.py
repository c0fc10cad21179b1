"""The engine in memory: maintains a block's sketch under batches of changes (IMP §5, §9).

A batch is the signed change of the block's rows, column by column. Each part of the state reads it
once; then only the groups that it touched are examined:

    take     table access, projection, selection and join are done: rows of a feed (IMP §5.2-§5.5)
             number the groups, update their sums, counts, least values and fragments
    finish   decide which groups are shown, by HAVING and the first k; update μ for these (§5.1)

A count below zero, a sum that exceeds a word, an empty buffer: `Recapture`, never a wrong sketch.

A loose sketch (P11) may have too many fragments: deleted rows leave their groups but not the groups'
fragments, and a group with an empty buffer counts as shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from belvedere.algebra.types import parse
from belvedere.errors import Unsupported
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.joins.value_words import Flags, fits, nulls, values_of, words
from belvedere.kernels.grouping import Words, add, touch
from belvedere.memory import kinds as kind_of
from belvedere.memory.plans import Rows
from belvedere.sketches.capture.blocks import (
    GroupAggregate,
    SketchBlock,
    argument_name,
    cut_name,
    key_name,
)
from belvedere.sketches.engine.aggregate_values import decimal_aggregate, integer_average
from belvedere.sketches.engine.groups import KeyedGroups
from belvedere.sketches.engine.measures import (
    FILLS,
    ExactSum,
    FloatingSum,
    LeastValues,
    PerGroup,
    Recapture,
    as_array,
)
from belvedere.sketches.engine.occurrences import Occurrences
from belvedere.sketches.engine.top_groups import (
    FirstGroups,
    GroupColumn,
    HavingFilter,
    not_after,
    sort_keys,
)

ROOM = 16
"""The default number of least values that a group's buffer holds."""
_AHEAD = 64
"""Rows behind a limit that are held, for each value that a buffer of least values holds."""
_TOO_LOOSE = 0.5
"""The share of rows whose deletion was not noted from which a sketch is captured again."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class GroupedBatch:
    """A batch of rows: the group of each, and how many rows it stands for."""

    groups: Words
    weights: Words

    def weighing(self, weights: Words) -> GroupedBatch:
        """The same rows with other weights."""
        return GroupedBatch(self.groups, weights)


class SketchEngine:
    """The state of one sketch."""

    def __init__(
        self,
        block: SketchBlock,
        partitions: Sequence[Partition],
        kinds: Mapping[str, str],
        room: int = ROOM,
        *,
        loose: bool = False,
    ) -> None:
        self.block, self.partitions, self.kinds, self.room = block, partitions, kinds, room
        self.loose, self.unnoted = loose, 0
        widths = [p.count for p in partitions]
        self._offsets = [sum(widths[:i]) for i in range(len(widths))]
        keys = [kinds[key_name(i)] for i in range(len(block.keys))]
        self._groups = KeyedGroups(keys, [kind_of.arrow(k) for k in keys])
        self._occurrences = Occurrences(sum(widths))
        self._state = PerGroup()
        self._state.add("rows", np.int64)
        self._state.add("shown", np.bool_)
        self._state.add("stamps", np.int32, fill=-1)
        self._sums: dict[int, ExactSum | FloatingSum] = {}
        self._least: dict[tuple[int, str], LeastValues] = {}
        for m in block.measures:
            self._prepare(m)
        self._largest = dict.fromkeys(self._sums, 0)
        self._having = HavingFilter.of(block.having, self.column)
        self._first = (
            None if block.limit is None else FirstGroups.of(block.order, block.limit, self.column)
        )
        self._now = 0
        self._touched: list[Words] = []
        self._horizon: list[int] | None = None

    @property
    def rows_held(self) -> int | None:
        """The number of rows in the answer's order that are held; None where all rows or groups are.

        All rows of a union are held, since the first rows of its parts end at different places.
        """
        limit = self.block.limit
        if limit is None or not self.block.of_rows or not self.block.order:
            return None
        return limit + _AHEAD * self.room if len(self.block.feeds) == 1 else None

    def _prepare(self, m: GroupAggregate) -> None:
        if m.argument is None:
            return
        kind = self.kinds[argument_name(m.argument)]
        if m.function in ("min", "max"):
            if not fits(kind):
                raise _not_kept(f"{m.function} of {kind}")
            self._least.setdefault((m.argument, m.function), LeastValues(self.room))
        elif m.function == "count" or parse(kind).is_exact:
            self._sums.setdefault(m.argument, ExactSum())
        elif parse(kind).is_float:
            self._sums[m.argument] = FloatingSum()
        else:
            raise _not_kept(f"{m.function} of {kind}")

    def take(self, feed: int, rows: Rows) -> None:
        """One batch of signed rows of a feed."""
        rows = self._within_horizon(rows)
        if not rows.table.num_rows:
            return
        signs = rows.signs
        part = self.part([as_array(c) for c in rows.columns(self._keys)], signs)
        for i in self._arguments:
            self._take_values(i, part, as_array(rows.table[argument_name(i)]))
        for place, partition in enumerate(self.block.feeds[feed].cuts):
            cut = as_array(rows.table[cut_name(place)])
            self.count_fragments(part, partition, self.partitions[partition].fragments(cut))

    def _within_horizon(self, rows: Rows) -> Rows:
        """The rows up to the horizon: the rows behind it were not loaded."""
        if self._horizon is None or not rows.table.num_rows:
            return rows
        keys = self._sort_keys([as_array(c) for c in rows.columns(self._keys)])
        return rows.where(pa.array(not_after(keys, self._horizon)))

    def _sort_keys(self, keys: Sequence[pa.Array]) -> list[Words]:
        by = dict(zip(self.block.keys, keys, strict=True))
        return [w for o in self.block.order for w in sort_keys(by[o.column], o)]

    def set_horizon(self) -> None:
        """Set the horizon at the last loaded row: the rows behind it were not loaded."""
        alive = np.flatnonzero(self._state["rows"][: self.groups] > 0).astype(np.int64)
        if self.rows_held is None or int(self._state["rows"][alive].sum()) < self.rows_held:
            return
        columns = [self._groups.column(i, alive) for i in range(len(self.block.keys))]
        keys = self._sort_keys(columns)
        last = int(np.lexsort(keys[::-1])[-1])
        self._horizon = [int(key[last]) for key in keys]

    @property
    def _keys(self) -> list[str]:
        return [key_name(i) for i in range(len(self.block.keys))]

    @property
    def _arguments(self) -> list[int]:
        return sorted({*self._sums, *(i for i, _ in self._least)})

    def part(self, keys: Sequence[pa.Array], weights: Words) -> GroupedBatch:
        """Number the groups of a batch and count its rows."""
        groups = self._groups.number(keys, len(weights))
        self._reserve()
        listed = np.empty(len(groups), dtype=np.int64)
        count = touch(groups, self._state["stamps"], self._now, listed)
        self._touched.append(listed[:count])
        add(groups, weights, self._state["rows"])
        return GroupedBatch(groups, weights)

    def _reserve(self) -> None:
        known = self._groups.known
        self._state.reserve(known, {"stamps": -1})
        for each in (*self._sums.values(), *self._least.values()):
            each.state.reserve(known, FILLS)

    def _take_values(self, argument: int, part: GroupedBatch, values: pa.Array) -> None:
        there = ~nulls(values)
        counts = np.where(there, part.weights, 0)
        total = self._sums.get(argument)
        if isinstance(total, FloatingSum):
            numbers = np.where(there, values.cast(pa.float64()).fill_null(0.0).to_numpy(), 0.0)
            amounts = part.weights.astype(np.float64) * numbers
            total.take(part.groups, counts, amounts, np.abs(amounts))
        elif total is not None:
            total.take(part.groups, counts, self._amounts(argument, values, counts))
        for (i, function), least in self._least.items():
            if i == argument:
                found = words(values)
                assert found is not None
                some = np.flatnonzero(counts)
                ordered = ~found if function == "max" else found
                least.take(part.groups[some], ordered[some], counts[some])

    def _amounts(self, argument: int, values: pa.Array, counts: Words) -> Words:
        """The values times their counts, as words; zeros where the values are only counted."""
        if self._only_counted(argument):
            return np.zeros(len(counts), dtype=np.int64)
        found = words(values)
        if found is None or (found == np.iinfo(np.int64).min).any():
            raise Recapture("a number has more digits than a word", reason="SKETCH_SUM_TOO_LARGE")
        largest = int(np.abs(found).max(initial=0))
        if largest * int(np.abs(counts).max(initial=1)) >= 2**62:
            raise Recapture("a number has more digits than a word", reason="SKETCH_SUM_TOO_LARGE")
        self._largest[argument] = max(self._largest[argument], largest)
        return found * counts

    def _only_counted(self, argument: int) -> bool:
        used = {m.function for m in self.block.measures if m.argument == argument}
        return not used & {"sum", "avg"}

    def count_fragments(self, part: GroupedBatch, partition: int, fragments: Words) -> None:
        """Count a batch's rows in fragments of one of the partitions."""
        own, groups, weights = fragments + self._offsets[partition], part.groups, part.weights
        if self.loose and (gone := weights < 0).any():
            self.unnoted += int(-weights[gone].sum())
            own, groups, weights = own[~gone], groups[~gone], weights[~gone]
        self._occurrences.count(groups, own, weights, self._groups.known)

    def load_sums(
        self, argument: int, part: GroupedBatch, counts: Words, total: pa.Array, sizes: pa.Array
    ) -> None:
        """Load sums that the capture computed: their numbers of values, and the values' sizes."""
        held = self._sums[argument]
        if isinstance(held, FloatingSum):
            amounts, spent = (np.asarray(c.fill_null(0.0).to_numpy()) for c in (total, sizes))
            held.take(part.groups, counts, amounts, spent)
            return
        found = np.zeros(len(counts), dtype=np.int64)
        if not self._only_counted(argument):
            digits, largest = words(total), words(sizes)
            if digits is None or largest is None:
                raise Recapture("a sum has more digits than a word", reason="SKETCH_SUM_TOO_LARGE")
            found = np.where(nulls(total), 0, digits)
            most = int(np.abs(np.where(nulls(sizes), 0, largest)).max(initial=0))
            self._largest[argument] = max(self._largest[argument], most)
        held.take(part.groups, counts, found)

    def load_least(
        self,
        argument: int,
        function: str,
        part: GroupedBatch,
        values: pa.Array,
        counts: Words,
        totals: Words,
    ) -> None:
        """Load the least (or greatest) values of groups with their counts, all or only the first.

        `totals` has the number of all values of each group.
        """
        found = words(values)
        assert found is not None
        held = self._least[argument, function]
        held.load(part.groups, ~found if function == "max" else found, counts, totals)

    @property
    def sums(self) -> list[int]:
        """The arguments that are counted or summed."""
        return sorted(self._sums)

    @property
    def buffers(self) -> list[tuple[int, str]]:
        """The arguments whose least or greatest values are held."""
        return sorted(self._least)

    def finish(self) -> None:
        """End the batch: the sketch is now that of the new tables."""
        touched = np.concatenate(self._touched) if self._touched else np.zeros(0, dtype=np.int64)
        rows, shown = self._state["rows"], self._state["shown"]
        if (rows[touched] < 0).any():
            raise _negative()
        for each in (*self._sums.values(), *self._least.values()):
            if not isinstance(each, ExactSum):
                each.settle(touched)
        self._refuse_too_loose(rows)
        was = shown.copy()
        self._show(touched, rows, shown)
        changed = np.flatnonzero(was != shown).astype(np.int64)
        if not self._occurrences.show(was, shown, changed):
            raise _negative()
        self._touched = []
        self._now += 1

    def _refuse_too_loose(self, rows: Words) -> None:
        if self.unnoted and self.unnoted > _TOO_LOOSE * int(rows.sum()):
            raise Recapture("too many rows went unnoted", reason="SKETCH_TOO_LOOSE")

    def _dry(self, groups: Words) -> Flags:
        """Which groups have an empty buffer, so that HAVING cannot be decided."""
        found = np.zeros(len(groups), dtype=np.bool_)
        for each in self._least.values():
            found |= each.dry(groups)
        if found.any() and (not self.loose or self._first is not None):
            raise Recapture(
                f"more than {self.room} least values of a group are gone",
                reason="SKETCH_BUFFER_DRY",
            )
        return found

    def _show(self, touched: Words, rows: Words, shown: Flags) -> None:
        """Update `shown`: for the touched groups, or with a limit for all."""
        dry = self._dry(touched)
        if self._first is None:
            shown[touched] = (rows[touched] > 0) & (self._having.holds(touched) | dry)
            return
        alive = np.flatnonzero(rows[: self._groups.known] > 0).astype(np.int64)
        if self._horizon is not None and int(rows[alive].sum()) < self._first.limit:
            raise Recapture("the first rows that were held are gone", reason="SKETCH_BUFFER_DRY")
        alive = alive[self._having.holds(alive)]
        weights = rows[alive] if self.block.of_rows else np.ones(len(alive), dtype=np.int64)
        shown[:] = False
        shown[alive[self._first.among(alive, weights)]] = True

    def sketch(self, partition: int = 0) -> Bitmap:
        """The fragments of one of the partitions that the answer comes from."""
        start = self._offsets[partition]
        occurs = self._occurrences.occurs[start : start + self.partitions[partition].count]
        return np.asarray(occurs > 0, dtype=np.bool_)

    @property
    def groups(self) -> int:
        """The number of groups, including those whose rows are gone."""
        return self._groups.known

    @property
    def bytes(self) -> int:
        """The memory of the state, about."""
        per_group = (self._state, *(e.state for e in (*self._sums.values(), *self._least.values())))
        return (
            self._groups.bytes + self._occurrences.bytes + sum(state.bytes for state in per_group)
        )

    def column(self, name: str, groups: Words) -> GroupColumn:
        """A key column or an aggregate of some groups, in Spark's type."""
        if name in self.block.keys:
            place = self.block.keys.index(name)
            return GroupColumn(self._groups.column(place, groups), self.kinds[key_name(place)])
        measure = next(m for m in self.block.measures if m.name == name)
        if measure.argument is None:
            return GroupColumn(pa.array(self._state["rows"][groups]), "bigint")
        if measure.function in ("min", "max"):
            return self._extreme(measure.argument, measure.function, groups)
        return self._summed(measure.function, measure.argument, groups)

    def _extreme(self, argument: int, function: str, groups: Words) -> GroupColumn:
        found, none = self._least[argument, function].least(groups)
        kind = self.kinds[argument_name(argument)]
        return GroupColumn(values_of(~found if function == "max" else found, none, kind), kind)

    def _summed(self, function: str, argument: int, groups: Words) -> GroupColumn:
        held, kind = self._sums[argument], self.kinds[argument_name(argument)]
        n = held.state["n"][groups]
        if function == "count":
            return GroupColumn(pa.array(n), "bigint")
        total = held.state["total"][groups]
        if isinstance(held, FloatingSum):
            by = np.maximum(n, 1) if function == "avg" else np.ones(len(n), dtype=np.int64)
            error = held.error(groups) / by + np.abs(total / by) * 1e-15
            return GroupColumn(pa.array(total / by, mask=n == 0), "double", error)
        if parse(kind).is_decimal:
            return decimal_aggregate(function, kind, total, n)
        if function == "sum":
            return GroupColumn(pa.array(total, mask=n == 0), "bigint")
        return integer_average(total, n, self._largest[argument])

    def save(self) -> Arrays:
        """All arrays of the state by name."""
        arrays: Arrays = {f"groups.{n}": a for n, a in self._groups.save().items()}
        arrays |= {f"pairs.{n}": a for n, a in self._occurrences.save().items()}
        for name, state in self._states().items():
            arrays |= {f"{name}.{n}": a for n, a in state.save(self.groups).items()}
        largest = [self._largest[i] for i in sorted(self._largest)]
        arrays["largest"] = np.array(largest, dtype=np.int64)
        arrays["horizon"] = np.array(self._horizon or [], dtype=np.int64)
        arrays["unnoted"] = np.array([self.unnoted], dtype=np.int64)
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Load a saved state."""

        def under(prefix: str) -> Arrays:
            start = f"{prefix}."
            return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}

        self._groups.restore(under("groups"))
        self._reserve()
        self._occurrences.restore(under("pairs"), self.groups)
        for name, state in self._states().items():
            state.restore(under(name), self.groups)
        self._state["stamps"][:] = -1
        self._largest = dict(zip(sorted(self._sums), arrays["largest"].tolist(), strict=True))
        self._horizon = arrays["horizon"].tolist() or None
        self.unnoted = int(arrays["unnoted"][0])

    def _states(self) -> dict[str, PerGroup]:
        sums = {f"sum{i}": s.state for i, s in self._sums.items()}
        least = {f"{function}{i}": x.state for (i, function), x in self._least.items()}
        return {"state": self._state, **sums, **least}


def _negative() -> Recapture:
    return Recapture("more rows went than ever came", reason="SKETCH_NEGATIVE_COUNT")


def _not_kept(what: str) -> Unsupported:
    return Unsupported(
        f"{what} is not kept in memory",
        hint="the sketch is captured anew at each refresh",
        reason="SKETCH_NOT_KEPT",
    )
