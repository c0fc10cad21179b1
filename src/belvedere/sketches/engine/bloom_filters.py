"""Bloom filters on join keys: they drop changed rows that join nothing before anything is joined.

    ΔR ⋈_{r = s} S  =  σ_{r ∈ B}(ΔR) ⋈_{r = s} S,    B ⊇ the values of s, old and new   (IMP §9.4.1)

A filter holds the key column of one table. Inserted keys are added; deleted keys stay until so many
are gone that the filter is built again. A filter applies to a table that a feed reads once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import Rel
from belvedere.joins.normal_form import Equality, JoinBlock
from belvedere.joins.value_words import fits, nulls, words
from belvedere.kernels.hashes.bloom import Bits, add_words, may_have
from belvedere.sketches.capture.blocks import feed_block
from belvedere.sql.render import SIGN

BITS_PER_KEY = 16
_GONE = 0.5
"""The share of a filter's keys that may be deleted before it is built again."""
_FEW_GONE = 100_000
"""Deleted rows that are ignored whatever the share: where keys are few, most of them stay in other rows."""


@dataclass(frozen=True)
class FilteredJoin:
    """A column of one table that a feed equates with the key column of another."""

    table: str
    column: str
    other: str
    key: str


def filtered_joins(feed: Rel) -> list[FilteredJoin]:
    """The equalities between columns of one type that the joins of a feed have, in both directions."""
    block = feed_block(feed)
    joins = []
    for left, right in _equated(block):
        if block.types[left] != block.types[right] or not fits(block.types[left]):
            continue
        for here, there in ((left, right), (right, left)):
            (p, column), (q, key) = block.refs[here], block.refs[there]
            table, other = block.positions[p].table, block.positions[q].table
            if len(block.at(table)) == 1 and table != other:
                joins.append(FilteredJoin(table, column, other, key))
    return joins


def _equated(block: JoinBlock) -> Iterator[tuple[str, str]]:
    for condition in block.conditions:
        if isinstance(condition, Equality):
            left, right = (s.column for s in condition.sides)
            if left is not None and right is not None:
                yield left, right


class Bloom:
    """The filter of one table's key column."""

    def __init__(self, keys: int) -> None:
        size = max(64, 1 << (BITS_PER_KEY * max(keys, 1) - 1).bit_length())
        self.bits: Bits = np.zeros(size // 64, dtype=np.uint64)
        self.keys, self.gone = 0, 0
        self.unseen = False
        """Whether its table changed by rows that are not at hand: it may lack keys."""

    @staticmethod
    def of(values: pa.Array) -> Bloom:
        """The filter of some values."""
        bloom = Bloom(len(values))
        bloom.add(values)
        return bloom

    @staticmethod
    def restored(bits: Bits, keys: int, gone: int) -> Bloom:
        """A saved filter."""
        bloom = Bloom(0)
        bloom.bits, bloom.keys, bloom.gone = bits, keys, gone
        return bloom

    @property
    def worn(self) -> bool:
        """Whether it must be built again: it may lack keys, too many are gone, or it is too full."""
        gone = self.gone > max(_GONE * self.keys, _FEW_GONE)
        return self.unseen or gone or self.keys * BITS_PER_KEY > 4 * 64 * len(self.bits)

    def add(self, values: pa.Array) -> None:
        """Add keys."""
        keys = words(values.drop_null())
        assert keys is not None
        present = np.zeros(len(keys), dtype=np.bool_)
        may_have(self.bits, keys, present)
        add_words(self.bits, keys)
        self.keys += len(np.unique(keys[~present]))

    def apply(self, values: pa.Array, signs: pa.Array) -> None:
        """Add the keys of inserted rows, and count deleted rows."""
        inserted = pc.greater(signs, 0)
        self.add(values.filter(inserted))
        self.gone += len(values) - int(pc.sum(inserted).as_py() or 0)

    def passing(self, values: pa.Array) -> pa.Array:
        """Which values may be among the keys; NULL never is."""
        keys = words(values)
        assert keys is not None
        passing = np.zeros(len(keys), dtype=np.bool_)
        may_have(self.bits, keys, passing)
        return pa.array(passing & ~nulls(values))


def drop_unmatched(
    feed: Rel, changes: Mapping[str, pa.Table], blooms: Mapping[tuple[str, str], Bloom]
) -> dict[str, pa.Table]:
    """The changed rows that may join something in one feed."""
    matched = dict(changes)
    for join in filtered_joins(feed):
        bloom = blooms.get((join.other, join.key))
        rows = matched.get(join.table)
        if bloom is None or rows is None or join.column not in rows.column_names:
            continue
        if bloom.unseen:
            continue
        passing = bloom.passing(rows[join.column].combine_chunks())
        matched[join.table] = rows.filter(passing)
    return matched


def update_filters(
    blooms: Mapping[tuple[str, str], Bloom],
    changes: Mapping[str, pa.Table],
    moving: Collection[str],
) -> None:
    """Apply the changes of tables to their filters; a filter whose changes are not at hand is unseen."""
    for (table, key), bloom in blooms.items():
        if table not in moving:
            continue
        rows = changes.get(table)
        if rows is None:
            bloom.unseen = True
        else:
            bloom.apply(rows[key].combine_chunks(), rows[SIGN].combine_chunks())
