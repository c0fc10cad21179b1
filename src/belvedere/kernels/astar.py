"""A* over lazy, greedy plans (ABIVM, §4.1), compiled; defined by `search_plainly` in tests/scheduling/model.

A node is a step and what is pending after the action of that step. From a node the next action
is at the first step whose state is full; each way to act there is an edge. Costs are multiples of
one small number, so that sums are exact and equal ways are seen to be equal: among those the one
that has come furthest goes first, which spares most of a plateau, and then the one that has spent
least: a plan that pays late is the better one if it is cut short.

Both take the same arrays, one row for each table:
`arrived[t]`: changes until before step t; `costs[k]`: what k changes cost, less what tables share
(the last value stands for all larger k); `floors[m]`: a lower bound of what m changes cost in
batches of at most `bounds`. `wide` is whether actions need not be minimal. `slopes`, where costs
are linear, are those of the tables, else negative: with linear costs a state that has no less of
any table pending, and paid no less for what it has not, can be left out (`_dominated`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ShortestPath:
    """The way to the end: at which steps which tables are emptied (as bits), and what it took."""

    cost: float
    steps: tuple[int, ...]
    masks: tuple[int, ...]
    expanded: int
    """Nodes that were expanded."""
    inconsistent: int
    """Edges along which the heuristic falls by more than the edge costs."""


class TooLarge(Exception):
    """More nodes than were allowed."""


def search(
    arrived: Ints,
    costs: Floats,
    floors: Floats,
    bounds: Ints,
    shared: float,
    worst: Floats,
    worst_shared: float,
    limit: float,
    slopes: Floats,
    wide: bool,
    most: int,
) -> ShortestPath:
    """The cheapest lazy and greedy plan; TooLarge if it has not been found among `most` nodes.

    What is paid is `costs`; a state is full by `worst`, which may be dearer.
    """
    cost, steps, masks, expanded, inconsistent = _search(
        arrived, costs, floors, bounds, shared, worst, worst_shared, limit, slopes, wide, most
    )
    if expanded < 0:
        raise TooLarge(most)
    way, acts = tuple(int(s) for s in steps), tuple(int(m) for m in masks)
    return ShortestPath(float(cost), way, acts, int(expanded), int(inconsistent))


def batches(costs: Floats, bound: int, total: int) -> Floats:
    """For each m up to `total`, the least that m changes cost in batches of at most `bound`."""
    found: Floats = _batches(costs, bound, total)
    return found


@njit(cache=True, error_model="numpy")
def _batches(costs, bound, total):  # type: ignore[no-untyped-def]
    found = np.zeros(total + 1)
    for m in range(1, total + 1):
        least = np.inf
        for k in range(1, min(bound, m) + 1):
            least = min(least, costs[k] + found[m - k])
        found[m] = least
    return found


@njit(cache=True, error_model="numpy")
def _price(costs, shared, there, mask):  # type: ignore[no-untyped-def]
    """What the tables outside `mask` cost together."""
    widest = costs.shape[1] - 1
    total, some = 0.0, False
    for i in range(len(there)):
        if there[i] and not (mask >> i) & 1:
            total += costs[i, min(there[i], widest)]
            some = True
    return total + shared if some else 0.0


@njit(cache=True, error_model="numpy")
def _ahead(arrived, floors, bounds, shared, at, there, mask):  # type: ignore[no-untyped-def]
    """The heuristic for the state `there` at step `at`, once the tables of `mask` are emptied."""
    total, rounds = 0.0, 0
    for i in range(len(there)):
        left = arrived[len(arrived) - 1, i] - arrived[at + 1, i]
        if not (mask >> i) & 1:
            left += there[i]
        total += floors[i, left]
        rounds = max(rounds, (left + bounds[i] - 1) // bounds[i])
    return total + shared * rounds


@njit(cache=True, error_model="numpy")
def _grow(arrived, at, state, to, there):  # type: ignore[no-untyped-def]
    for i in range(len(state)):
        there[i] = state[i] + arrived[to + 1, i] - arrived[at + 1, i]


@njit(cache=True, error_model="numpy")
def _next_full(arrived, costs, shared, limit, at, state, there):  # type: ignore[no-untyped-def]
    """The first step after `at` whose state is full, or the last; `there` becomes its state."""
    last = len(arrived) - 2
    low, high, stride = at, last, 1
    while low + stride < last:
        _grow(arrived, at, state, low + stride, there)
        if _price(costs, shared, there, 0) > limit:
            high = low + stride
            break
        low += stride
        stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        _grow(arrived, at, state, middle, there)
        if _price(costs, shared, there, 0) > limit:
            high = middle
        else:
            low = middle
    _grow(arrived, at, state, high, there)
    return high


@njit(cache=True, error_model="numpy")
def _admissible(costs, shared, limit, wide, there, mask):  # type: ignore[no-untyped-def]
    """Whether emptying the tables of `mask` is an action."""
    for i in range(len(there)):
        if (mask >> i) & 1 and not there[i]:
            return False
    if _price(costs, shared, there, mask) > limit:
        return False
    if not wide:
        for i in range(len(there)):
            if (mask >> i) & 1 and _price(costs, shared, there, mask & ~(1 << i)) <= limit:
                return False
    return True


@njit(cache=True, error_model="numpy")
def _place(slots, steps, states, at, there, mask):  # type: ignore[no-untyped-def]
    """Where in the hash table a node is, or belongs."""
    key = np.uint64(at + 2)
    for i in range(len(there)):
        left = 0 if (mask >> i) & 1 else there[i]
        key = (key ^ np.uint64(left)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    place = np.int64(key & np.uint64(len(slots) - 1))
    while slots[place]:
        node = slots[place] - 1
        same = steps[node] == at
        for i in range(len(there)):
            same = same and states[node, i] == (0 if (mask >> i) & 1 else there[i])
        if same:
            return place
        place = (place + 1) & (len(slots) - 1)
    return place


@njit(cache=True, error_model="numpy")
def _before(values, ats, spent, i, j):  # type: ignore[no-untyped-def]
    if values[i] != values[j]:
        return values[i] < values[j]
    return ats[i] > ats[j] or (ats[i] == ats[j] and spent[i] < spent[j])


@njit(cache=True, error_model="numpy")
def _swap(values, ats, spent, nodes, i, j):  # type: ignore[no-untyped-def]
    values[i], values[j] = values[j], values[i]
    spent[i], spent[j] = spent[j], spent[i]
    ats[i], ats[j] = ats[j], ats[i]
    nodes[i], nodes[j] = nodes[j], nodes[i]


@njit(cache=True, error_model="numpy")
def _rise(values, ats, spent, nodes, i):  # type: ignore[no-untyped-def]
    while i and _before(values, ats, spent, i, (i - 1) // 2):
        _swap(values, ats, spent, nodes, i, (i - 1) // 2)
        i = (i - 1) // 2


@njit(cache=True, error_model="numpy")
def _sink(values, ats, spent, nodes, size):  # type: ignore[no-untyped-def]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and _before(values, ats, spent, child + 1, child):
            child += 1
        if not _before(values, ats, spent, child, i):
            return
        _swap(values, ats, spent, nodes, i, child)
        i = child


@njit(cache=True, error_model="numpy")
def _longer(old):  # type: ignore[no-untyped-def]
    new = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
    new[: old.shape[0]] = old
    return new


@njit(cache=True, error_model="numpy")
def _rehashed(slots, steps, states, count):  # type: ignore[no-untyped-def]
    bigger = np.zeros(2 * len(slots), dtype=np.int64)
    for node in range(count):
        bigger[_place(bigger, steps, states, steps[node], states[node], 0)] = node + 1
    return bigger


@njit(cache=True, error_model="numpy")
def _dominated(states, best, slopes, same, first, node):  # type: ignore[no-untyped-def]
    """Whether an expanded node of the same step is at least as good whatever arrives."""
    other = first
    while other >= 0:
        allowed, smaller = best[node], True
        for i in range(len(slopes)):
            more = states[node, i] - states[other, i]
            if more < 0:
                smaller = False
                break
            allowed += more * slopes[i]
        if smaller and best[other] <= allowed:
            return True
        other = same[other]
    return False


@njit(cache=True, error_model="numpy")
def _search(  # type: ignore[no-untyped-def]
    arrived, costs, floors, bounds, shared, worst, worst_shared, limit, slopes, wide, most
):
    tables, last, space = arrived.shape[1], len(arrived) - 2, 1024
    steps, states = np.zeros(space, np.int64), np.zeros((space, tables), np.int64)
    best, parents = np.zeros(space), np.zeros(space, np.int64)
    masks, done = np.zeros(space, np.int64), np.zeros(space, np.bool_)
    same, firsts = np.zeros(space, np.int64), np.full(last + 2, -1)
    slots = np.zeros(4 * space, np.int64)
    values, ats, nodes = np.zeros(space), np.zeros(space, np.int64), np.zeros(space, np.int64)
    spent = np.zeros(space)
    there, source = np.zeros(tables, np.int64), np.zeros(tables, np.int64)
    steps[0], parents[0], count, size = -1, -1, 1, 1
    slots[_place(slots, steps, states, -1, source, 0)] = 1
    values[0], ats[0] = _ahead(arrived, floors, bounds, shared, -1, source, 0), -1
    expanded, inconsistent, none = 0, 0, np.zeros(0, np.int64)
    while size:
        node = nodes[0]
        size -= 1
        _swap(values, ats, spent, nodes, 0, size)
        _sink(values, ats, spent, nodes, size)
        if done[node]:
            continue
        if count > most:
            return 0.0, none, none, -1, 0
        done[node] = True
        if slopes[0] >= 0:
            if _dominated(states, best, slopes, same, firsts[steps[node] + 1], node):
                continue
            same[node], firsts[steps[node] + 1] = firsts[steps[node] + 1], node
        expanded += 1
        if steps[node] == last:
            length, at = 0, node
            while parents[at] >= 0:
                length, at = length + 1, parents[at]
            way, acts, at = np.zeros(length, np.int64), np.zeros(length, np.int64), node
            for k in range(length - 1, -1, -1):
                way[k], acts[k], at = steps[at], masks[at], parents[at]
            return best[node], way, acts, expanded, inconsistent
        begun = _ahead(arrived, floors, bounds, shared, steps[node], states[node], 0)
        to = _next_full(arrived, worst, worst_shared, limit, steps[node], states[node], there)
        everything = (1 << tables) - 1
        for mask in range(1, everything + 1):
            if to == last:
                if mask != everything:
                    continue
            elif not _admissible(worst, worst_shared, limit, wide, there, mask):
                continue
            paid = _price(costs, shared, there, everything & ~mask)
            left = _ahead(arrived, floors, bounds, shared, to, there, mask)
            inconsistent += begun > paid + left
            place = _place(slots, steps, states, to, there, mask)
            child, total = slots[place] - 1, best[node] + paid
            if child >= 0 and (done[child] or best[child] <= total):
                continue
            if child < 0:
                if count == len(steps):
                    steps, states, best = _longer(steps), _longer(states), _longer(best)
                    parents, masks, done = _longer(parents), _longer(masks), _longer(done)
                    same = _longer(same)
                child, count = count, count + 1
                steps[child] = to
                for i in range(tables):
                    states[child, i] = 0 if (mask >> i) & 1 else there[i]
                slots[place] = child + 1
                if 2 * count > len(slots):
                    slots = _rehashed(slots, steps, states, count)
            best[child], parents[child], masks[child] = total, node, mask
            if size == len(values):
                values, ats, nodes = _longer(values), _longer(ats), _longer(nodes)
                spent = _longer(spent)
            values[size], ats[size], nodes[size] = total + left, to, child
            spent[size] = total
            _rise(values, ats, spent, nodes, size)
            size += 1
    return 0.0, none, none, -1, 0
