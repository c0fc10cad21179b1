"""Bloom filters on join keys: changed rows that meet none are gone before anything is joined.

    ΔR ⋈_{r = s} S  =  σ_{r ∈ B}(ΔR) ⋈_{r = s} S,    B ⊇ the values of s, old and new   (IMP §9.4.1)

A filter holds the key column of one table; what comes into that table is added, what goes stays in
until so much is gone that the filter is built anew. It applies to a table that a feed reads once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import Join, Kind, Rel, Scan
from belvedere.algebra.walks import nodes
from belvedere.analyses.equalities import equalities
from belvedere.analyses.origins import origin
from belvedere.joins.value_words import fits, nulls, words
from belvedere.kernels.hashes.bloom import Bits, add_words, may_have
from belvedere.sql.render import SIGN

BITS_PER_KEY = 16
_GONE = 0.5
"""The share of a filter's keys that may be gone before it is built anew."""
_FEW_GONE = 100_000
"""Rows that may go whatever the share: where keys are few, most of what goes leaves others like it."""


@dataclass(frozen=True)
class Edge:
    """A column of one table that a feed joins with the key column of another."""

    table: str
    column: str
    other: str
    key: str


def edges(feed: Rel) -> list[Edge]:
    """The equalities of a feed's inner joins between columns of tables that it reads once."""
    once = [n.table for n in nodes(feed) if isinstance(n, Scan)]
    found = []
    for join in (n for n in nodes(feed) if isinstance(n, Join) and n.kind is Kind.INNER):
        for a, b in equalities(join):
            left, right = origin(join.left, a), origin(join.right, b)
            if left is None or right is None or not fits(left.type):
                continue
            for x, y in ((left, right), (right, left)):
                if once.count(x.table) == 1 and x.table != y.table:
                    found.append(Edge(x.table, x.column, y.table, y.column))
    return found


class Bloom:
    """The filter of one table's key column."""

    def __init__(self, keys: int) -> None:
        size = max(64, 1 << (BITS_PER_KEY * max(keys, 1) - 1).bit_length())
        self.bits: Bits = np.zeros(size // 64, dtype=np.uint64)
        self.keys, self.gone = 0, 0
        self.unseen = False
        """Whether its table changed and nobody said how: it may lack keys."""

    @staticmethod
    def of(values: pa.Array) -> Bloom:
        """The filter of some values."""
        found = Bloom(len(values))
        found.add(values)
        return found

    @staticmethod
    def restored(bits: Bits, keys: int, gone: int) -> Bloom:
        """The filter that was saved."""
        found = Bloom(0)
        found.bits, found.keys, found.gone = bits, keys, gone
        return found

    @property
    def worn(self) -> bool:
        """Whether it should be built anew: it may lack keys, too much is gone, or it is too full."""
        gone = self.gone > max(_GONE * self.keys, _FEW_GONE)
        return self.unseen or gone or self.keys * BITS_PER_KEY > 4 * 64 * len(self.bits)

    def add(self, values: pa.Array) -> None:
        """Take values in."""
        some = words(values.drop_null())
        assert some is not None
        there = np.zeros(len(some), dtype=np.bool_)
        may_have(self.bits, some, there)
        add_words(self.bits, some)
        self.keys += len(np.unique(some[~there]))

    def follow(self, values: pa.Array, signs: pa.Array) -> None:
        """Take in what came, and count what went."""
        came = pc.greater(signs, 0)
        self.add(values.filter(came))
        self.gone += len(values) - int(pc.sum(came).as_py() or 0)

    def passing(self, values: pa.Array) -> pa.Array:
        """Which values may be among the keys; NULL never is."""
        found = words(values)
        assert found is not None
        out = np.zeros(len(found), dtype=np.bool_)
        may_have(self.bits, found, out)
        return pa.array(out & ~nulls(values))


def filtered(
    feed: Rel, changes: Mapping[str, pa.Table], blooms: Mapping[tuple[str, str], Bloom]
) -> dict[str, pa.Table]:
    """The changes that can meet something, for one feed."""
    out = dict(changes)
    for edge in edges(feed):
        bloom = blooms.get((edge.other, edge.key))
        rows = out.get(edge.table)
        if bloom is None or rows is None or edge.column not in rows.column_names:
            continue
        if bloom.unseen:
            continue
        passing = bloom.passing(rows[edge.column].combine_chunks())
        out[edge.table] = rows.filter(passing)
    return out


def followed(
    blooms: Mapping[tuple[str, str], Bloom],
    changes: Mapping[str, pa.Table],
    moving: Collection[str],
) -> None:
    """Bring filters up to date before they are asked; one whose changes are not at hand is not."""
    for (table, key), bloom in blooms.items():
        if table not in moving:
            continue
        rows = changes.get(table)
        if rows is None:
            bloom.unseen = True
        else:
            bloom.follow(rows[key].combine_chunks(), rows[SIGN].combine_chunks())
