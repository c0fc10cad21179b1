"""Feasible fillings of what a view row does not show (Sec. 8.1), in the order they are tried.

greedy    values that no row has first, then those with the fewest joining rows
random    in any order
all       every filling, in the greedy order
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice, product

import numpy as np

from belvedere.updating.asked import Coder, Hidden, Normal, Options


class Order(Enum):
    """In which order fillings are tried."""

    GREEDY = "greedy"
    RANDOM = "random"
    ALL = "all"


def fillings(
    coder: Coder, options: Sequence[Options], order: Order, most: int, seed: int = 0
) -> Iterator[dict[Hidden, Normal]]:
    """The first fillings of a view row's hidden values."""
    values = {h: v for o in options for h, v in o.values.items()}
    ranked = {h: _few_joining_first(coder, h, v) for h, v in values.items()}
    if order is Order.RANDOM:
        dice = random.Random(seed)
        for _ in range(most):
            yield {h: dice.choice(v) for h, v in values.items()}
        return
    every = (dict(zip(ranked, pick, strict=True)) for pick in product(*ranked.values()))
    yield from every if order is Order.ALL else islice(every, most)


def _few_joining_first(coder: Coder, h: Hidden, values: Sequence[Normal]) -> list[Normal]:
    """Hidden values in the order of how many rows have them."""
    if h[0] == "place":
        return list(values)
    base = coder.base
    joining = np.zeros(len(values), dtype=np.int64)
    for p, c in coder.shape.classes[h[1]]:
        table = coder.shape.positions[p].table
        codes = np.array([coder.code(table, c, v) for v in values], dtype=np.int64)
        alone = (e for e in base.tree.around[p] if base.tree.columns(p, e) == (c,))
        edge = next(alone, None)
        if edge is not None:
            joining += base.index(p, edge).counts(codes)
        else:
            of_rows = base.tables[table].column(c)
            known = np.bincount(of_rows[of_rows >= 0], minlength=int(codes.max(initial=-1)) + 1)
            joining += np.where(codes >= 0, known[codes], 0)
    return [values[i] for i in np.argsort(joining, kind="stable").tolist()]


def known_with(
    coder: Coder, options: Sequence[Options], filling: Mapping[Hidden, Normal]
) -> list[dict[str, Normal]]:
    """What is known of each position with a filling."""
    found = []
    for p, o in enumerate(options):
        known = dict(o.known)
        for h in o.hidden:
            known.update(dict.fromkeys(coder.columns(p, h), filling[h]))
        found.append(known)
    return found
