"""Small loops over weights: exact products that notice 2^62, and a batch's rows by vertex."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MOST = 4_000_000_000_000_000_000
"""Weights stay below this; beyond it Python's integers take over."""


@njit(cache=True)
def _product(a, b):  # type: ignore[no-untyped-def]
    found = np.empty(len(a), dtype=np.int64)
    fits = True
    for i in range(len(a)):
        if abs(np.float64(a[i]) * np.float64(b[i])) >= 4.0e18:
            fits = False
        found[i] = a[i] * b[i]
    return found, fits


def product(a: Any, b: Any) -> Any:
    """Each of one times each of the other, exactly.

    >>> product(np.array([3]), np.array([-4])).tolist()
    [-12]
    """
    found, fits = _product(a, b)
    if not fits:
        raise OverflowError("a weight beyond 64 bits")
    return found


@njit(cache=True)
def _sum(a, b):  # type: ignore[no-untyped-def]
    total, about = np.int64(0), 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
        about += np.float64(a[i]) * np.float64(b[i])
    return total, about < 4.0e18


def sum_of_products(a: Any, b: Any) -> int:
    """Σ a·b, exactly, of numbers that are not negative."""
    total, fits = _sum(a, b)
    if not fits:
        raise OverflowError("a weight beyond 64 bits")
    return int(total)


@njit(cache=True)
def _distinct(vids, mark):  # type: ignore[no-untyped-def]
    vs = np.empty(len(vids), dtype=np.int32)
    times = np.empty(len(vids), dtype=np.int64)
    index = np.empty(len(vids), dtype=np.int32)
    n = 0
    for i in range(len(vids)):
        v = vids[i]
        if mark[v] == 0:
            vs[n] = v
            times[n] = 0
            n += 1
            mark[v] = n
        index[i] = mark[v] - 1
        times[mark[v] - 1] += 1
    for i in range(n):
        mark[vs[i]] = 0
    return vs[:n], times[:n], index


def distinct(vids: Any, mark: Any) -> tuple[Any, Any, Any]:
    """The distinct vertices of a batch, how often each, and for each row its place among them.

    `mark` is zero for every vertex, before and after.
    """
    return _distinct(vids, mark)  # type: ignore[no-any-return]
