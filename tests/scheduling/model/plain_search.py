"""Definitions of the search for plans, in plain Python: what the compiled search is tested against."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from belvedere.kernels.astar import Floats, Ints, ShortestPath, TooLarge


def search_plainly(
    arrived: Ints,
    costs: Floats,
    floors: Floats,
    bounds: Ints,
    shared: float,
    worst: Floats,
    worst_shared: float,
    limit: float,
    _slopes: Floats,
    wide: bool,
    most: int,
) -> ShortestPath:
    """The definition of `search`: no regard for time, nothing left out."""
    last, tables = len(arrived) - 2, arrived.shape[1]
    widest = costs.shape[1] - 1

    def price(state: tuple[int, ...]) -> float:
        some = [costs[i, min(k, widest)] for i, k in enumerate(state) if k]
        return float(sum(some) + shared) if some else 0.0

    def full(state: tuple[int, ...]) -> bool:
        some = [worst[i, min(k, widest)] for i, k in enumerate(state) if k]
        return bool(some) and sum(some) + worst_shared > limit

    def ahead(at: int, state: tuple[int, ...]) -> float:
        left = [k + int(arrived[last + 1, i] - arrived[at + 1, i]) for i, k in enumerate(state)]
        rounds = max(-(-m // int(b)) for m, b in zip(left, bounds, strict=True))
        return float(sum(floors[i, m] for i, m in enumerate(left)) + shared * rounds)

    def grown(at: int, state: tuple[int, ...], to: int) -> tuple[int, ...]:
        return tuple(k + int(arrived[to + 1, i] - arrived[at + 1, i]) for i, k in enumerate(state))

    def edges(at: int, state: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], int]]:
        fulls = (t for t in range(at + 1, last) if full(grown(at, state, t)))
        to = next(fulls, last)
        there = grown(at, state, to)
        everything = sum(1 << i for i, k in enumerate(there) if k)
        if to == last:
            return [(to, (0,) * tables, everything)]
        found: list[int] = []
        for mask in range(1, 1 << tables):
            left = tuple(0 if mask >> i & 1 else k for i, k in enumerate(there))
            narrow = wide or not any(m & mask == m for m in found)
            if mask & everything == mask and narrow and not full(left):
                found = [m for m in found if wide or m & mask != mask] + [mask]
        return [
            (to, tuple(0 if mask >> i & 1 else k for i, k in enumerate(there)), mask)
            for mask in found
        ]

    source = -1, (0,) * tables
    best: dict[Any, float] = {source: 0.0}
    came: dict[Any, tuple[Any, int]] = {}
    queue: list[tuple[float, int, float, Any]] = [(ahead(*source), 1, 0.0, source)]
    closed: set[Any] = set()
    inconsistent = 0
    while queue:
        _, _, _, node = heapq.heappop(queue)
        if node in closed:
            continue
        if len(best) > most:
            raise TooLarge(most)
        closed.add(node)
        if node[0] == last:
            steps, masks = list[int](), list[int]()
            while node in came:
                before, mask = came[node]
                steps.append(node[0])
                masks.append(mask)
                node = before
            cost = best[last, (0,) * tables]
            return ShortestPath(
                cost, tuple(steps[::-1]), tuple(masks[::-1]), len(closed), inconsistent
            )
        there = ahead(*node)
        for to, left, mask in edges(*node):
            reached = grown(node[0], node[1], to)
            paid = price(tuple(k if mask >> i & 1 else 0 for i, k in enumerate(reached)))
            inconsistent += there > paid + ahead(to, left)
            total = best[node] + paid
            if (to, left) not in closed and total < best.get((to, left), np.inf):
                best[to, left] = total
                came[to, left] = node, mask
                heapq.heappush(queue, (total + ahead(to, left), -to, total, (to, left)))
    raise AssertionError("the last step is always reached")


def batches_plainly(costs: Floats, bound: int, total: int) -> Floats:
    """The definition of `batches`."""
    found = np.zeros(total + 1)
    for m in range(1, total + 1):
        found[m] = min(costs[k] + found[m - k] for k in range(1, min(bound, m) + 1))
    return found
