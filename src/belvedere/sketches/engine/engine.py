"""The engine in memory: keeps a block's sketch true under batches of changes (IMP §5, §9).

A batch is what happened to the core's rows, column by column, with signs. It is gone through once
per part of the state; then only the groups that it touched are looked at again:

    take     table access, projection, selection and join are done: rows of a feed (IMP §5.2-§5.5)
             groups are numbered, their sums, counts, least values and fragments brought up to date
    finish   which groups are shown, by HAVING and the first k; μ for those that changed (§5.1)

A count below zero, a sum too long for a word, a buffer run dry: `Recapture`, never a wrong sketch.

Kept loosely (P11), a sketch may have fragments too many: rows that go are taken off their groups,
not off the groups' fragments, and a group whose buffer ran dry counts as shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import Unsupported
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.joins.value_words import Flags, decimals, fits, nulls, values_of, words
from belvedere.kernels.grouping import Doubles, Words, add, touch
from belvedere.memory import kinds as kind_of
from belvedere.memory.plans import Rows
from belvedere.memory.scalars import Value, as_kind, divided
from belvedere.sketches.capture.blocks import Block, Measure, argument_name, cut_name, key_name
from belvedere.sketches.engine.groups import Groups
from belvedere.sketches.engine.measures import (
    FILLS,
    FloatingSum,
    Least,
    PerGroup,
    Recapture,
    Sum,
    as_array,
)
from belvedere.sketches.engine.occurrences import Occurrences
from belvedere.sketches.engine.top_groups import Column, First, Having, not_after, sort_keys

ROOM = 16
"""How many least values of a group are held, unless it is said otherwise."""
_AHEAD = 64
"""How many rows behind a limit are held, for each that a buffer of least values holds."""
_EXACT_DOUBLES = 2**53
_TOO_LOOSE = 0.5
"""Rows whose going was not noted, beside all there are, from which on a sketch is captured anew."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Part:
    """A batch in words: for each row its group, how many rows it stands for, and its fragments."""

    groups: Words
    weights: Words

    def weighing(self, weights: Words) -> Part:
        """The same rows, standing for others."""
        return Part(self.groups, weights)


class Engine:
    """The state of one sketch."""

    def __init__(
        self,
        block: Block,
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
        self._groups = Groups(keys, [kind_of.arrow(k) for k in keys])
        self._occurrences = Occurrences(sum(widths))
        self._state = PerGroup()
        self._state.add("rows", np.int64)
        self._state.add("shown", np.bool_)
        self._state.add("stamps", np.int32, fill=-1)
        self._sums: dict[int, Sum | FloatingSum] = {}
        self._least: dict[tuple[int, str], Least] = {}
        for m in block.measures:
            self._prepare(m)
        self._largest = dict.fromkeys(self._sums, 0)
        self._having = Having.of(block.having, self.column)
        self._first = (
            None if block.limit is None else First.of(block.order, block.limit, self.column)
        )
        self._now = 0
        self._touched: list[Words] = []
        self._horizon: list[int] | None = None

    @property
    def rows_held(self) -> int | None:
        """Of the first rows in an order, how many are held; None where all are, or groups.

        Of a union all: each of its parts would end elsewhere.
        """
        limit = self.block.limit
        if limit is None or not self.block.of_rows or not self.block.order:
            return None
        return limit + _AHEAD * self.room if len(self.block.feeds) == 1 else None

    def _prepare(self, m: Measure) -> None:
        if m.argument is None:
            return
        kind = self.kinds[argument_name(m.argument)]
        if m.function in ("min", "max"):
            if not fits(kind):
                raise _not_kept(f"{m.function} of {kind}")
            self._least.setdefault((m.argument, m.function), Least(self.room))
        elif m.function == "count" or kind_of.is_integer(kind) or kind_of.is_decimal(kind):
            self._sums.setdefault(m.argument, Sum())
        elif kind in ("float", "double"):
            self._sums[m.argument] = FloatingSum()
        else:
            raise _not_kept(f"{m.function} of {kind}")

    def take(self, feed: int, rows: Rows) -> None:
        """One batch of signed rows of a feed."""
        rows = self._near(rows)
        if not rows.table.num_rows:
            return
        signs = rows.signs
        part = self.part([as_array(c) for c in rows.columns(self._keys)], signs)
        for i in self._arguments:
            self._take_values(i, part, as_array(rows.table[argument_name(i)]))
        for place, partition in enumerate(self.block.feeds[feed].cuts):
            cut = as_array(rows.table[cut_name(place)])
            self.count_fragments(part, partition, self.partitions[partition].fragments(cut))

    def _near(self, rows: Rows) -> Rows:
        """The rows up to the horizon; who is behind it was left out, and so stays out."""
        if self._horizon is None or not rows.table.num_rows:
            return rows
        found = [as_array(c) for c in rows.columns(self._keys)]
        return rows.where(pa.array(not_after(self._sort_keys(found), self._horizon)))

    def _sort_keys(self, keys: Sequence[pa.Array]) -> list[Words]:
        by = dict(zip(self.block.keys, keys, strict=True))
        return [w for o in self.block.order for w in sort_keys(by[o.column], o)]

    def see_no_further(self) -> None:
        """Rows behind the last that was loaded were left out."""
        alive = np.flatnonzero(self._state["rows"][: self.groups] > 0).astype(np.int64)
        if self.rows_held is None or int(self._state["rows"][alive].sum()) < self.rows_held:
            return
        columns = [self._groups.column(i, alive) for i in range(len(self.block.keys))]
        found = self._sort_keys(columns)
        last = int(np.lexsort(found[::-1])[-1])
        self._horizon = [int(key[last]) for key in found]

    @property
    def _keys(self) -> list[str]:
        return [key_name(i) for i in range(len(self.block.keys))]

    @property
    def _arguments(self) -> list[int]:
        return sorted({*self._sums, *(i for i, _ in self._least)})

    def part(self, keys: Sequence[pa.Array], weights: Words) -> Part:
        """Number the groups of a batch and count its rows."""
        groups = self._groups.number(keys, len(weights))
        self._reserve()
        listed = np.empty(len(groups), dtype=np.int64)
        found = touch(groups, self._state["stamps"], self._now, listed)
        self._touched.append(listed[:found])
        add(groups, weights, self._state["rows"])
        return Part(groups, weights)

    def _reserve(self) -> None:
        known = self._groups.known
        self._state.reserve(known, {"stamps": -1})
        for each in (*self._sums.values(), *self._least.values()):
            each.state.reserve(known, FILLS)

    def _take_values(self, argument: int, part: Part, values: pa.Array) -> None:
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
                turned = ~found if function == "max" else found
                least.take(part.groups[some], turned[some], counts[some])

    def _amounts(self, argument: int, values: pa.Array, counts: Words) -> Words:
        """The digits of values as often as they come; nothing where only they are counted."""
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

    def count_fragments(self, part: Part, partition: int, fragments: Words) -> None:
        """Count a batch's rows in fragments of one of the partitions."""
        own, groups, weights = fragments + self._offsets[partition], part.groups, part.weights
        if self.loose and (gone := weights < 0).any():
            self.unnoted += int(-weights[gone].sum())
            own, groups, weights = own[~gone], groups[~gone], weights[~gone]
        self._occurrences.count(groups, own, weights, self._groups.known)

    def load_sums(
        self, argument: int, part: Part, counts: Words, total: pa.Array, sizes: pa.Array
    ) -> None:
        """Sums that were computed elsewhere: of how many values, and of what size altogether."""
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
        part: Part,
        values: pa.Array,
        counts: Words,
        totals: Words,
    ) -> None:
        """The least (or greatest) values of groups, as often as they occur, all or only the first.

        `totals` says how many values each group has of all.
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
        """The arguments of which the least or greatest values are held."""
        return sorted(self._least)

    def finish(self) -> None:
        """End the batch: the sketch is that of the tables as they are now."""
        touched = np.concatenate(self._touched) if self._touched else np.zeros(0, dtype=np.int64)
        rows, shown = self._state["rows"], self._state["shown"]
        if (rows[touched] < 0).any():
            raise _negative()
        for each in (*self._sums.values(), *self._least.values()):
            if not isinstance(each, Sum):
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
        """Which groups may be shown or not, for all that their buffers say."""
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
        """Bring `shown` up to date: of what was touched, or with a limit of all."""
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
        """How many groups there are, those that were and are gone included."""
        return self._groups.known

    @property
    def bytes(self) -> int:
        """Memory held."""
        per_group = (self._state, *(e.state for e in (*self._sums.values(), *self._least.values())))
        return (
            self._groups.bytes + self._occurrences.bytes + sum(state.bytes for state in per_group)
        )

    def column(self, name: str, groups: Words) -> Column:
        """A key column or an aggregate of some groups, in Spark's type."""
        if name in self.block.keys:
            place = self.block.keys.index(name)
            return Column(self._groups.column(place, groups), self.kinds[key_name(place)])
        measure = next(m for m in self.block.measures if m.name == name)
        if measure.argument is None:
            return Column(pa.array(self._state["rows"][groups]), "bigint")
        if measure.function in ("min", "max"):
            return self._extreme(measure.argument, measure.function, groups)
        return self._summed(measure.function, measure.argument, groups)

    def _extreme(self, argument: int, function: str, groups: Words) -> Column:
        found, none = self._least[argument, function].least(groups)
        kind = self.kinds[argument_name(argument)]
        return Column(values_of(~found if function == "max" else found, none, kind), kind)

    def _summed(self, function: str, argument: int, groups: Words) -> Column:
        held, kind = self._sums[argument], self.kinds[argument_name(argument)]
        n = held.state["n"][groups]
        if function == "count":
            return Column(pa.array(n), "bigint")
        total = held.state["total"][groups]
        if isinstance(held, FloatingSum):
            by = np.maximum(n, 1) if function == "avg" else np.ones(len(n), dtype=np.int64)
            error = held.error(groups) / by + np.abs(total / by) * 1e-15
            return Column(pa.array(total / by, mask=n == 0), "double", error)
        if kind_of.is_decimal(kind):
            return _of_decimals(function, kind, total, n)
        if function == "sum":
            return Column(pa.array(total, mask=n == 0), "bigint")
        return self._average(argument, total, n)

    def _average(self, argument: int, total: Words, n: Words) -> Column:
        """Spark adds integers up as doubles for their average: exact while they are small."""
        numbers = total.astype(np.float64) / np.maximum(n, 1)
        error: Doubles | None = None
        if self._largest[argument] * int(n.max(initial=0)) >= _EXACT_DOUBLES:
            error = np.full(len(n), self._largest[argument] * 1e-6)
        return Column(pa.array(numbers, mask=n == 0), "double", error)

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
        """Take over a state that was saved."""

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


def _of_decimals(function: str, kind: str, total: Words, n: Words) -> Column:
    """The sum or the average of decimals, in Spark's digits."""
    precision, scale = kind_of.digits(kind)
    wide = kind_of.decimal(min(precision + 10, kind_of.MOST_DIGITS), scale)
    absent = pa.array(n == 0)
    none = pa.scalar(None, kind_of.arrow(wide))
    summed = pc.if_else(absent, none, decimals(total, scale).cast(kind_of.arrow(wide)))
    if function == "sum":
        return Column(summed, wide)
    to = kind_of.decimal(min(precision + 4, kind_of.MOST_DIGITS), scale + 4)
    by = as_kind(Value(pa.array(n, mask=n == 0), "bigint"), "decimal(20,0)")
    found = divided(Value(summed, wide), by, to)
    return Column(as_array(found.data), to)


def _negative() -> Recapture:
    return Recapture("more rows went than ever came", reason="SKETCH_NEGATIVE_COUNT")


def _not_kept(what: str) -> Unsupported:
    return Unsupported(
        f"{what} is not kept in memory",
        hint="the sketch is captured anew at each refresh",
        reason="SKETCH_NOT_KEPT",
    )
