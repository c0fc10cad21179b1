"""Rows of a table that come first by a column, from a value on: no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.delta.data_files import DataFile, first_of
from belvedere.delta.lookups import deleted_rows, legible_files, schema_of
from belvedere.delta.snapshots import Snapshot


def read_first_rows(
    table: Snapshot,
    version: int,
    columns: Sequence[str],
    column: str,
    beyond: Any,
    count: int,
    *,
    least: bool,
) -> pa.Table | None:
    """Some columns of the `count` rows that have the least values, or the greatest, of a column.

    Only values from `beyond` on count. Fewer rows are all there are; None if a file is gone, or
    Arrow is not the one to read or order them.
    """
    legible = legible_files(table, version, [*columns, column])
    if legible is None:
        return None
    then, some = legible
    schema, by = schema_of(then, columns), schema_of(then, [column]).field(0)
    if pa.types.is_floating(by.type):  # NaN comes last to Spark, nowhere to Arrow
        return None
    start = pa.scalar(beyond, by.type)
    opened = [DataFile(then.store, f.path) for f in some]
    try:
        with ThreadPoolExecutor(then.store.parallel_reads) as pool:
            ends = list(
                pool.map(
                    lambda data, file: data.first_rows(
                        by, deleted_rows(then, file), start, count, least=least
                    ),
                    opened,
                    some,
                )
            )
            values = pa.concat_arrays([pa.array([], by.type), *(v for _, v in ends)])
            chosen = first_of(values, count, least=least)
            borders = np.cumsum([0, *(len(numbers) for numbers, _ in ends)])
            kept = [
                numbers[chosen[np.searchsorted(chosen, low) : np.searchsorted(chosen, high)] - low]
                for (numbers, _), (low, high) in zip(ends, pairwise(borders), strict=True)
            ]
            parts = list(pool.map(lambda data, numbers: data.some(schema, numbers), opened, kept))
    except FileNotFoundError:
        return None
    return pa.concat_tables([schema.empty_table(), *parts]).rename_columns(list(columns))
