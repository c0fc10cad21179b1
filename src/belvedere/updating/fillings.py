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
    ranked = {h: sorted(v, key=lambda x, h=h: _joining(coder, h, x)) for h, v in values.items()}  # type: ignore[misc]
    if order is Order.RANDOM:
        dice = random.Random(seed)
        for _ in range(most):
            yield {h: dice.choice(v) for h, v in values.items()}
        return
    every = (dict(zip(ranked, pick, strict=True)) for pick in product(*ranked.values()))
    yield from every if order is Order.ALL else islice(every, most)


def _joining(coder: Coder, h: Hidden, value: Normal) -> int:
    """How many rows have a hidden value."""
    if h[0] == "place":
        return 0
    total = 0
    for p, c in coder.shape.classes[h[1]]:
        table = coder.shape.positions[p].table
        code = coder.code(table, c, value)
        if code >= 0:
            total += int((coder.base.tables[table].column(c) == code).sum())
    return total


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
