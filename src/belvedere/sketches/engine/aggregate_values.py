"""The values of aggregates as Spark computes them, from counts and exact sums."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.joins.value_words import decimals
from belvedere.kernels.grouping import Doubles, Words
from belvedere.memory import kinds
from belvedere.memory.scalars import Value, as_kind, divided
from belvedere.sketches.engine.measures import as_array
from belvedere.sketches.engine.top_groups import GroupColumn

_EXACT_DOUBLES = 2**53


def decimal_aggregate(function: str, kind: str, total: Words, n: Words) -> GroupColumn:
    """The sum or the average of decimals, with Spark's precision and scale."""
    precision, scale = kinds.digits(kind)
    wide = kinds.decimal(min(precision + 10, kinds.MOST_DIGITS), scale)
    absent = pa.array(n == 0)
    null = pa.scalar(None, kinds.arrow(wide))
    sums = pc.if_else(absent, null, decimals(total, scale).cast(kinds.arrow(wide)))
    if function == "sum":
        return GroupColumn(sums, wide)
    to = kinds.decimal(min(precision + 4, kinds.MOST_DIGITS), scale + 4)
    by = as_kind(Value(pa.array(n, mask=n == 0), "bigint"), "decimal(20,0)")
    averages = divided(Value(sums, wide), by, to)
    return GroupColumn(as_array(averages.data), to)


def integer_average(total: Words, n: Words, largest: int) -> GroupColumn:
    """The average of integers up to `largest`: Spark adds doubles, which is exact while they are small."""
    numbers = total.astype(np.float64) / np.maximum(n, 1)
    error: Doubles | None = None
    if largest * int(n.max(initial=0)) >= _EXACT_DOUBLES:
        error = np.full(len(n), largest * 1e-6)
    return GroupColumn(pa.array(numbers, mask=n == 0), "double", error)
