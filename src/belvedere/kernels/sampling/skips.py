"""Which of a batch's new join results enter a sample: skips instead of coins.

With J results so far and a sample of m, result J + s + 1 is the next to enter with probability

    without replacement   m/(J+s+1) · Π_{i=1..s} (J+i-m)/(J+i)         Vitter's algorithms X and Z
    with replacement      (J/(J+s))^m - (J/(J+s+1))^m                  ⌊J (U^(-1/m) - 1)⌋
    Bernoulli             p (1-p)^s                                    ⌊log U / log(1-p)⌋

None remembers what went before: a skip that reaches beyond the batch is forgotten and drawn anew with
the next, from the J of then. So no skip outlives a deletion, after which it would be biased.
A skip too large for a float's 53 bits gets its lower bits at random.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from belvedere.kernels.sampling.random_numbers import below, bits, uniform

_SHORT = 22.0
_FAR = 4.0e18


@njit(cache=True)
def whole(state, x):  # type: ignore[no-untyped-def]
    """A large float as a whole number, what the float cannot hold at random; capped beyond use."""
    if x >= _FAR:
        return np.int64(4_000_000_000_000_000_000)
    n = np.int64(x)
    if x >= 9007199254740992.0:
        shift = np.int64(math.floor(math.log2(x))) - 52
        n += np.int64(bits(state) >> np.uint64(64 - shift))
    return n


@njit(cache=True)
def without(state, m, results):  # type: ignore[no-untyped-def]
    """How many results to pass over before one replaces a member of a full reservoir of m."""
    t = np.float64(results)
    n = np.float64(m)
    if t <= _SHORT * n:
        v = uniform(state)
        s = 0
        t += 1.0
        quotient = (t - n) / t
        while quotient > v:
            s += 1
            t += 1.0
            quotient *= (t - n) / t
        return np.int64(s)
    term = t - n + 1.0
    while True:
        w = math.exp(-math.log(uniform(state)) / n)
        u = uniform(state)
        x = t * (w - 1.0)
        if x >= _FAR:
            return np.int64(4_000_000_000_000_000_000)
        s = math.floor(x)
        ratio = (t + 1.0) / term
        lhs = math.exp(math.log(u * ratio * ratio * (term + s) / (t + x)) / n)
        rhs = (t + x) / (term + s) * term / t
        if lhs <= rhs:
            return whole(state, x)
        y = u * (t + 1.0) / term * (t + s + 1.0) / (t + x)
        if n < s:
            denominator, last = t, term + s
        else:
            denominator, last = t - n + s, t + 1.0
        numerator = t + s
        while numerator >= last:
            y = y * numerator / denominator
            numerator -= 1.0
            denominator -= 1.0
        if math.exp(math.log(y) / n) <= (t + x) / t:
            return whole(state, x)


@njit(cache=True)
def replacing(state, m, results):  # type: ignore[no-untyped-def]
    """How many results to pass over before one replaces any of m samples of one."""
    if results == 0:
        return np.int64(0)
    return whole(state, np.float64(results) * math.expm1(-math.log(uniform(state)) / m))


@njit(cache=True)
def geometric(state, p):  # type: ignore[no-untyped-def]
    """How many results to pass over before a coin of bias p falls on its face."""
    if p >= 1.0:
        return np.int64(0)
    return whole(state, math.log(uniform(state)) / math.log1p(-p))


@njit(cache=True)
def _room(array, n):  # type: ignore[no-untyped-def]
    if n < len(array):
        return array
    larger = np.empty(2 * len(array), dtype=np.int64)
    larger[:n] = array[:n]
    return larger


@njit(cache=True)
def choose_without(state, m, filled, results, weights, index, new):  # type: ignore[no-untyped-def]
    """The entries of a batch into a reservoir: row of the batch, number within the row, slot."""
    rows = np.empty(16, dtype=np.int64)
    rest = np.empty(16, dtype=np.int64)
    slots = np.empty(16, dtype=np.int64)
    n = 0
    row, passed, at = 0, np.int64(0), np.int64(0)
    while True:
        skip = np.int64(0) if filled < m else without(state, m, results + at)
        if skip >= new - at:
            break
        at += skip
        while at - passed >= weights[index[row]]:
            passed += weights[index[row]]
            row += 1
        rows, rest, slots = _room(rows, n), _room(rest, n), _room(slots, n)
        rows[n] = row
        rest[n] = at - passed
        if filled < m:
            slots[n] = filled
            filled += 1
        else:
            slots[n] = below(state, m)
        n += 1
        at += 1
    return rows[:n], rest[:n], slots[:n]


@njit(cache=True)
def choose_with(state, m, results, weights, index, new):  # type: ignore[no-untyped-def]
    """The entries of a batch into m samples of one: row, number within the row, slot."""
    rows = np.empty(16, dtype=np.int64)
    rest = np.empty(16, dtype=np.int64)
    slots = np.empty(16, dtype=np.int64)
    n = 0
    row, passed, at = 0, np.int64(0), np.int64(0)
    while True:
        skip = replacing(state, m, results + at)
        if skip >= new - at:
            break
        at += skip
        while at - passed >= weights[index[row]]:
            passed += weights[index[row]]
            row += 1
        p = 1.0 / np.float64(results + at + 1)
        # The slots that take it, given that one does: the first by inversion, others by skips.
        slot = np.int64(0)
        if p < 1.0:
            some = -math.expm1(m * math.log1p(-p))
            slot = np.int64(math.log1p(-uniform(state) * some) / math.log1p(-p))
            slot = min(slot, m - 1)
        while slot < m:
            rows, rest, slots = _room(rows, n), _room(rest, n), _room(slots, n)
            rows[n] = row
            rest[n] = at - passed
            slots[n] = slot
            n += 1
            slot += 1 + geometric(state, p)
        at += 1
    return rows[:n], rest[:n], slots[:n]


@njit(cache=True)
def choose_coins(state, p, filled, weights, index, new):  # type: ignore[no-untyped-def]
    """The entries of a batch into a Bernoulli sample: row, number within the row, slot."""
    rows = np.empty(16, dtype=np.int64)
    rest = np.empty(16, dtype=np.int64)
    slots = np.empty(16, dtype=np.int64)
    n = 0
    row, passed, at = 0, np.int64(0), np.int64(0)
    while True:
        skip = geometric(state, p)
        if skip >= new - at:
            break
        at += skip
        while at - passed >= weights[index[row]]:
            passed += weights[index[row]]
            row += 1
        rows, rest, slots = _room(rows, n), _room(rest, n), _room(slots, n)
        rows[n] = row
        rest[n] = at - passed
        slots[n] = filled + n
        n += 1
        at += 1
    return rows[:n], rest[:n], slots[:n]
