"""Coarse counts against exact ones: how much weight propagation powers of two save, and what they cost.

    python -m benchmarks.synopsis.coarse_counts

A(x) ⋈ B(x, y) ⋈ C(y), the chain on which the 2024 work on reservoir sampling over joins gains the most: every row of
A or C changes the weights of all rows of B that it meets. Exact: W[x] = Σ c[y] over the rows of B with x, and
V[y] = Σ a[x]. Coarse: the same sums of ã and c̃, powers of two that a and c lie between the half of and, so
that a row is passed on only when its key's count leaves them; a result with a number in what was rounded in does not
exist and is rejected. Deleting halves a power when the count has fallen to a quarter, so that no key can be
made to change it again and again. Both ways sample by keys below a threshold, which needs no size of the join: with
coarse counts there is none.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.sampling.random_numbers import seeded, uniform

A, B, C = 0, 1, 2


@njit(cache=True)
def _skip(state, threshold):  # type: ignore[no-untyped-def]
    """How many results to pass over before one has a key below the threshold."""
    if threshold >= 1.0:
        return np.int64(0)
    far = math.log(uniform(state)) / math.log1p(-threshold)
    return np.int64(min(far, 4.0e18))


@njit(cache=True)
def _round(count, held):  # type: ignore[no-untyped-def]
    """The power of two for a count, given the one that is held; a quarter is left before it falls."""
    if held == 0:
        held = np.int64(1) if count > 0 else np.int64(0)
    while held < count:
        held *= 2
    while held > 1 and 4 * count <= held:
        held //= 2
    return held


@njit(cache=True)
def _sink(at, keys, reservoir):  # type: ignore[no-untyped-def]
    """A heap with the largest key first, right but for one place: its result sinks to where it belongs."""
    while True:
        below_it = 2 * at + 1
        if below_it >= len(keys):
            return
        if below_it + 1 < len(keys) and keys[below_it + 1] > keys[below_it]:
            below_it += 1
        if keys[below_it] <= keys[at]:
            return
        keys[at], keys[below_it] = keys[below_it], keys[at]
        for c in range(3):
            held = reservoir[at, c]
            reservoir[at, c] = reservoir[below_it, c]
            reservoir[below_it, c] = held
        at = below_it


@njit(cache=True)
def _enter(state, result, reservoir, keys, filled, threshold):  # type: ignore[no-untyped-def]
    """A result with a key below the threshold: the one with the largest key leaves a full reservoir."""
    key = uniform(state) * threshold[0]
    if filled[0] < len(keys):
        reservoir[filled[0]] = result
        keys[filled[0]] = key
        filled[0] += 1
        if filled[0] == len(keys):
            for at in range(len(keys) // 2, -1, -1):
                _sink(at, keys, reservoir)
            threshold[0] = keys[0]
        return
    reservoir[0] = result
    keys[0] = key
    _sink(0, keys, reservoir)
    threshold[0] = keys[0]


@njit(cache=True)
def _apply(
    tables,
    xs,
    ys,
    signs,
    coarse,
    counts,
    held,
    sums,
    heads,
    nexts,
    ends,
    rows,
    mark,
    state,
    reservoir,
    keys,
    filled,
    threshold,
    told,
):  # type: ignore[no-untyped-def]
    """A batch: its results sampled row by row, what changed passed on once for each key.

    told: results that exist, weights changed, entries, rejections.
    """
    touched = np.empty((2, len(xs)), dtype=np.int64)
    many = np.zeros(2, dtype=np.int64)
    for i in range(len(xs)):
        table, x, y, sign = tables[i], xs[i], ys[i], signs[i]
        if table == B:
            met = counts[0, x] * counts[1, y]
            told[0] += sign * met
            row = rows[0]
            rows[0] += 1
            ends[0, row], ends[1, row] = x, y
            nexts[0, row], heads[0, x] = heads[0, x], row
            nexts[1, row], heads[1, y] = heads[1, y], row
            sums[0, x] += held[1, y] if coarse else counts[1, y]
            sums[1, y] += held[0, x] if coarse else counts[0, x]
        else:
            side = 0 if table == A else 1
            at = x if side == 0 else y
            met = sums[side, at]
            # Within a batch weights are as they were before it, for all rows of one side.
            if mark[side, at] == 0:
                touched[side, many[side]] = at
                many[side] += 1
            mark[side, at] += sign
            if sign < 0:
                continue
        if sign < 0:
            continue
        number = _skip(state, threshold[0])
        while number < met:
            told[2] += 1
            result = np.empty(3, dtype=np.int64)
            exists = True
            if table == B:
                result[0], result[1], result[2] = number % counts[0, x], row, number // counts[0, x]
            else:
                left, at_row = number, heads[side, at]
                while True:
                    other = ends[1 - side, at_row]
                    width = held[1 - side, other] if coarse else counts[1 - side, other]
                    if left < width:
                        break
                    left -= width
                    at_row = nexts[side, at_row]
                exists = left < counts[1 - side, other]
                result[1] = at_row
                result[2 * side] = counts[side, at] + mark[side, at] - 1
                result[2 * (1 - side)] = left
            if exists:
                _enter(state, result, reservoir, keys, filled, threshold)
            else:
                told[3] += 1
            number += 1 + _skip(state, threshold[0])
    for side in range(2):
        for n in range(many[side]):
            at = touched[side, n]
            change = mark[side, at]
            mark[side, at] = 0
            if change == 0:
                continue
            counts[side, at] += change
            if coarse:
                now = _round(counts[side, at], held[side, at])
                change = now - held[side, at]
                held[side, at] = now
                if change == 0:
                    continue
            row = heads[side, at]
            while row >= 0:
                sums[1 - side, ends[1 - side, row]] += change
                told[1] += 1
                row = nexts[side, row]


@dataclass
class Chain:
    """A ⋈ B ⋈ C of so many keys, with a sample of so many results."""

    keys: int
    rows: int
    size: int
    coarse: bool
    seed: int = 1

    def __post_init__(self) -> None:
        self.counts, self.held, self.sums, self.mark = (
            np.zeros((2, self.keys), dtype=np.int64) for _ in range(4)
        )
        self.heads = np.full((2, self.keys), -1, dtype=np.int64)
        self.nexts, self.ends = (np.full((2, self.rows), -1, dtype=np.int64) for _ in range(2))
        self.used, self.filled = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.state, self.threshold = seeded(self.seed), np.ones(1)
        self.reservoir = np.zeros((self.size, 3), dtype=np.int64)
        self.least = np.zeros(self.size)
        self.told = np.zeros(4, dtype=np.int64)

    def apply(self, tables: Any, xs: Any, ys: Any, signs: Any) -> None:
        """Rows of one table, each with its keys and whether it comes (1) or goes (-1; not of B)."""
        _apply(
            tables, xs, ys, signs, self.coarse, self.counts, self.held, self.sums, self.heads,
            self.nexts, self.ends, self.used, self.mark, self.state, self.reservoir, self.least,
            self.filled, self.threshold, self.told,
        )  # fmt: skip


def graph(edges: int, keys: int, skew: float, seed: int = 1) -> tuple[Any, Any]:
    """The two ends of random edges; some keys have many."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, keys + 1) ** -skew
    weights /= weights.sum()
    return random.choice(keys, edges, p=weights), random.choice(keys, edges, p=weights)


def measured(coarse: bool, batch: int, edges: int, keys: int, skew: float) -> dict[str, float]:
    """Rows per second of processor time, weights changed for a row, and the share that was rejected."""
    random = np.random.default_rng(2)
    made = Chain(keys, edges, 10_000, coarse)
    per = {t: graph(edges, keys, skew, seed=t) for t in (A, B, C)}
    at = dict.fromkeys(per, 0)
    order = [t for t in (A, B, C) for _ in range(-(-edges // batch))]
    random.shuffle(order)
    ones = np.ones(batch, dtype=np.int64)
    started = time.process_time()
    for table in order:
        xs, ys = (side[at[table] : at[table] + batch] for side in per[table])
        at[table] += batch
        made.apply(np.full(len(xs), table), xs, ys, ones[: len(xs)])
    spent = time.process_time() - started
    return {
        "rate": round(3 * edges / spent), "weights_per_row": round(float(made.told[1]) / (3 * edges), 2),
        "rejected": round(float(made.told[3]) / max(1, int(made.told[2])), 3),
    }  # fmt: skip


def main() -> None:
    """Both ways, by batch and by how often a key recurs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", type=int, default=200_000)
    options = parser.parse_args()
    found: dict[str, Any] = {"edges": options.edges}
    for keys, skew in ((20_000, 0.0), (20_000, 0.8), (1000, 0.0)):
        for batch in (1, 100, 3000):
            for coarse in (False, True):
                measured(coarse, 1000, 5000, keys, skew)
                name = (
                    f"{keys} keys, skew {skew:g}, batch {batch}, {'coarse' if coarse else 'exact'}"
                )
                found[name] = measured(coarse, batch, options.edges, keys, skew)
                print(f"{name}: {found[name]}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
