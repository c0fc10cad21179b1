"""Fillings: values for the hidden columns of a view row (Sec. 8.1), in the order they are tried.

greedy    fillings with the fewest joining rows first; values that no row has come first
random    random order
all       greedy order, without a limit
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from heapq import heappop, heappush

import numpy as np

from belvedere.updating.request.view_rows import Coder, HiddenValue, SegmentOptions
from belvedere.updating.summary.domains import NormalValue


class FillingOrder(Enum):
    """The order in which fillings are tried."""

    GREEDY = "greedy"
    RANDOM = "random"
    ALL = "all"


def fillings(
    coder: Coder, options: Sequence[SegmentOptions], order: FillingOrder, seed: int = 0
) -> Iterator[dict[HiddenValue, NormalValue]]:
    """Fillings of the hidden values of a view row. RANDOM draws forever, the others end."""
    values = {h: v for o in options for h, v in o.values.items()}
    if order is FillingOrder.RANDOM:
        dice = random.Random(seed)
        while True:
            yield {h: dice.choice(v) for h, v in values.items()}
    joining = {h: _joining_row_counts(coder, h, v) for h, v in values.items()}
    ranks = {h: sorted(range(len(v)), key=joining[h].__getitem__) for h, v in values.items()}
    for places in least_sums_first([[joining[h][i] for i in ranks[h]] for h in values]):
        yield {h: values[h][ranks[h][i]] for h, i in zip(values, places, strict=True)}


def least_sums_first(lists: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Indexes into rising lists, one per list, in the order of the sum of their values.

    >>> list(least_sums_first([[0, 3], [0, 1, 5]]))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    """
    heap = [(sum(values[0] for values in lists), 0, (0,) * len(lists))]
    while heap:
        total, last, places = heappop(heap)
        yield places
        # Each tuple is reached once: from the one whose last nonzero index is one less.
        for i in range(last, len(lists)):
            at = places[i] + 1
            if at < len(lists[i]):
                more = total - lists[i][at - 1] + lists[i][at]
                heappush(heap, (more, i, (*places[:i], at, *places[i + 1 :])))


def _joining_row_counts(coder: Coder, h: HiddenValue, values: Sequence[NormalValue]) -> list[int]:
    """For each of some hidden values, the number of rows that have it."""
    row_counts = np.zeros(len(values), dtype=np.int64)
    base, columns = coder.base, coder.shape.classes[h[1]] if h[0] == "class" else ()
    for p, c in columns:
        table = coder.shape.positions[p].table
        codes = np.array([coder.code(table, c, v) for v in values], dtype=np.int64)
        edge = next((e for e in base.tree.around[p] if base.tree.columns(p, e) == (c,)), None)
        if edge is not None:
            row_counts += base.index(p, edge).counts(codes)
            continue
        of_rows = base.tables[table].column(c)
        in_rows = np.bincount(of_rows[of_rows >= 0], minlength=int(codes.max(initial=0)) + 1)
        # Values that no row has are numbered below zero.
        row_counts += np.where(codes >= 0, in_rows[np.maximum(codes, 0)], 0)
    return row_counts.tolist()


def filled_segments(
    coder: Coder, options: Sequence[SegmentOptions], filling: Mapping[HiddenValue, NormalValue]
) -> list[dict[str, NormalValue]]:
    """The values of each segment with a filling."""
    segments = []
    for p, o in enumerate(options):
        values = dict(o.shown)
        for h in o.hidden:
            values.update(dict.fromkeys(coder.columns(p, h), filling[h]))
        segments.append(values)
    return segments
