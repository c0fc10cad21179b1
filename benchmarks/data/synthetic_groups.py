"""The tables of the sketches' benchmarks: the paper's synthetic ones, and one like the crimes of a city.

A synthetic table has a key, an attribute `a` of so many values, drawn evenly, and nine more that
follow it with some noise (IMP §10.1). Rows of `changed` are new ones beside some that are there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

COLUMNS = "bcdefghij"
NOISE = 500


def table(rows: int, groups: int, seed: int = 1, first: int = 0) -> pa.Table:
    """Rows with keys from `first` on."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, groups, rows)
    columns = {"id": np.arange(first, first + rows), "a": a}
    for place, name in enumerate(COLUMNS, 1):
        columns[name] = a // place + draw.integers(0, NOISE, rows)
    return pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})


def changed(whole: pa.Table, rows: int, groups: int, seed: int) -> tuple[pa.Table, np.ndarray]:  # type: ignore[type-arg]
    """Half of them new, half of them taken away, with their signs."""
    draw = np.random.default_rng(seed)
    new = rows - rows // 2
    gone = draw.choice(whole.num_rows, rows // 2, replace=False)
    first = whole.num_rows + seed * rows
    both = pa.concat_tables([table(new, groups, seed, first), whole.take(pa.array(gone))])
    return both, np.concatenate([np.ones(new, np.int64), -np.ones(rows // 2, np.int64)])


def helper(groups: int, times: int, share: float = 1.0) -> pa.Table:
    """The other table of a join: a share of the values of `a`, each so often."""
    ids = np.repeat(np.arange(int(groups * share)), times)
    return pa.table({"ttid": pa.array(ids, pa.int32()), "x": pa.array(ids % 97, pa.int32())})


def crimes(rows: int, seed: int = 3) -> pa.Table:
    """Reports by beat, district, ward, area and year."""
    draw = np.random.default_rng(seed)
    beat = np.minimum(draw.zipf(1.3, rows), 300)
    return pa.table(
        {
            "id": pa.array(np.arange(rows), pa.int32()),
            "beat": pa.array(beat, pa.int32()),
            "district": pa.array(beat // 12, pa.int32()),
            "ward": pa.array(beat // 6, pa.int32()),
            "community_area": pa.array(beat // 4, pa.int32()),
            "year": pa.array(2001 + draw.integers(0, 24, rows), pa.int32()),
        }
    )
