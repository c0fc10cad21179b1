"""The column to partition a table by, chosen from a sample: the one that lets queries skip the most.

A sketch of a grouped query keeps the fragments of the few groups in the answer. The fewer fragments a
group is spread over, the more is skipped. For each column, the sample is partitioned into ranges of equal
depth; the column with the least share of fragments per group, on average over the rows, is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from belvedere.algebra.relations import Aggregate, Rel
from belvedere.algebra.walks import nodes
from belvedere.analyses.origins import origin
from belvedere.joins.partitions import equi_depth
from belvedere.memory.equality import grouped

_RANGES = 50


def best_column(q: Rel, table: str, sample: Mapping[str, pa.Array]) -> str:
    """The sampled column whose partition lets queries skip the most."""
    keys = _group_columns(q, table, sample)
    spread = {c: _spread(values, [sample[k] for k in keys]) for c, values in sample.items()}
    return min(spread, key=lambda c: (spread[c], list(sample).index(c)))


def _group_columns(q: Rel, table: str, sample: Mapping[str, pa.Array]) -> list[str]:
    """The sampled columns of the table that the lowest aggregate above it groups by."""
    aggregates = [n for n in nodes(q) if isinstance(n, Aggregate)]
    if not aggregates:
        return []
    origins = (origin(aggregates[-1], k) for k in aggregates[-1].keys)
    return [o.column for o in origins if o is not None and o.table == table and o.column in sample]


def _spread(values: pa.Array, keys: list[pa.Array]) -> float:
    """The average share of fragments that the rows of one group are in."""
    if not len(values):
        return 1.0
    fragments = equi_depth("t", "c", _type_of(values), values, _RANGES).fragments(values)
    count = max(len(np.unique(fragments)), 1)
    if not keys:
        # Without groups, the column with the most distinct ranges is best.
        return 1.0 / count
    of = grouped([pa.chunked_array([k]) for k in keys], len(values)).of if _plain(keys) else None
    if of is None:
        return 1.0
    pairs = np.unique(of * (fragments.max() + 1) + fragments)
    per_group = np.bincount((pairs // (fragments.max() + 1)).astype(np.int64))
    rows = np.bincount(of)
    return float((per_group * rows).sum() / rows.sum() / count)


def _plain(keys: list[pa.Array]) -> bool:
    return all(not pa.types.is_floating(k.type) for k in keys)


def _type_of(values: pa.Array) -> str:
    """A Spark type with the order of a sample's values."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_date32(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_floating(kind):
        return "double"
    return "bigint" if pa.types.is_integer(kind) else "string"
