"""The choices of `kernels.sampling.skips` in plain Python, with integers of any size.

It is the definition that the kernel is tested against, and joins beyond 64 bits use it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from belvedere.kernels.sampling.random_numbers import bits, uniform

Chosen = tuple[list[int], list[int], list[int]]


def below(state: Any, n: int) -> int:
    """A random integer in [0, n)."""
    words = (n.bit_length() + 63) // 64 or 1
    while True:
        drawn = 0
        for _ in range(words):
            drawn = drawn << 64 | int(bits(state))
        drawn >>= 64 * words - n.bit_length()
        if drawn < n:
            return drawn


def numbers(state: Any, n: int, count: int) -> list[int]:
    """Independent random integers in [0, n)."""
    return [below(state, n) for _ in range(count)]


def _whole(state: Any, x: float) -> int:
    """A float as an integer; the bits that it cannot represent are random."""
    n = int(x)
    spare = n.bit_length() - 53
    return n + below(state, 1 << spare) if spare > 0 else n


def skip_without(state: Any, m: int, results: int) -> int:
    """The number of results to skip before one enters a full reservoir.

    Each result has a uniform random key, and the sample has the m smallest keys. The m-th smallest of J keys
    is a beta variable, and each further result is below it with that probability.
    """
    shape_m = -math.fsum(math.log(uniform(state)) for _ in range(m)) if m < 64 else _gamma(state, m)
    rest = _gamma(state, results - m + 1)
    threshold = shape_m / (shape_m + rest)
    return _whole(state, math.log(uniform(state)) / math.log1p(-threshold))


def _gamma(state: Any, shape: float) -> float:
    """A gamma variable of shape at least one (Marsaglia and Tsang)."""
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        radius = math.sqrt(-2 * math.log(uniform(state)))
        x = radius * math.cos(2 * math.pi * uniform(state))
        v = (1 + c * x) ** 3
        if v > 0 and math.log(uniform(state)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


def _located(weights: list[int], places: Iterator[tuple[int, int]]) -> Chosen:
    """Places among all results of a batch, as rows of the batch and numbers within them."""
    ends = list(accumulate(weights))
    chosen: Chosen = ([], [], [])
    for place, slot in places:
        row = bisect_right(ends, place)
        chosen[0].append(row)
        chosen[1].append(place - (ends[row] - weights[row]))
        chosen[2].append(slot)
    return chosen


def choose_without(state: Any, m: int, filled: int, results: int, weights: list[int]) -> Chosen:
    """Entries into a reservoir."""

    def places() -> Iterator[tuple[int, int]]:
        at, held, new = 0, filled, sum(weights)
        while True:
            at += 0 if held < m else skip_without(state, m, results + at)
            if at >= new:
                return
            yield at, held if held < m else below(state, m)
            held, at = min(m, held + 1), at + 1

    return _located(weights, places())


def choose_with(state: Any, m: int, results: int, weights: list[int]) -> Chosen:
    """Entries into m samples of one."""

    def places() -> Iterator[tuple[int, int]]:
        at, new = 0, sum(weights)
        while True:
            if results + at:
                at += _whole(state, (results + at) * math.expm1(-math.log(uniform(state)) / m))
            if at >= new:
                return
            for slot in _takers(state, m, results + at + 1):
                yield at, slot
            at += 1

    return _located(weights, places())


def _takers(state: Any, m: int, count: int) -> Iterator[int]:
    """The samples of one that take the last of so many results, given that one does."""
    if count == 1:
        yield from range(m)
        return
    rate = math.log1p(-1 / count)
    some = -math.expm1(m * rate)
    slot = min(m - 1, int(math.log1p(-uniform(state) * some) / rate))
    while slot < m:
        yield slot
        slot += 1 + int(math.log(uniform(state)) / rate)


def choose_coins(state: Any, p: float, filled: int, weights: list[int]) -> Chosen:
    """Entries into a Bernoulli sample."""

    def places() -> Iterator[tuple[int, int]]:
        at, slot, new = 0, filled, sum(weights)
        while True:
            at += 0 if p >= 1 else _whole(state, math.log(uniform(state)) / math.log1p(-p))
            if at >= new:
                return
            yield at, slot
            slot, at = slot + 1, at + 1

    return _located(weights, places())
