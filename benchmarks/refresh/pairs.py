"""What a run has measured: seconds side by side, by view and share of changes, kept in a file.

A run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import fmean, median


@dataclass(frozen=True)
class Pair:
    """Of one view after one round of changes: recomputation beside refresh, in seconds."""

    recompute: float
    refresh: float
    strategy: str
    changes: float | None = None
    """The same refresh by INCREMENTAL, where that was measured too."""
    again: float | None = None
    """And by FULL."""


class Pairs:
    """The pairs of each case, a view and a share of the rows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[tuple[str, float], list[Pair]] = {}
        if file.exists():
            for view, share, pairs in json.loads(file.read_text()):
                self._found[view, share] = [Pair(**pair) for pair in pairs]

    def __getitem__(self, case: tuple[str, float]) -> list[Pair]:
        return self._found.get(case, [])

    def add(self, view: str, share: float, pair: Pair) -> None:
        """Take note of a pair."""
        self._found.setdefault((view, share), []).append(pair)
        cases = [(v, s, [asdict(p) for p in pairs]) for (v, s), pairs in self._found.items()]
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(cases, indent=1))
        draft.replace(self._file)

    def ratio(self, view: str, share: float) -> float:
        """Recompute / refresh, of the medians."""
        found = self[view, share]
        return median(p.recompute for p in found) / median(p.refresh for p in found)

    def same_twice(self, cases: Iterable[tuple[str, float]]) -> float:
        """How recomputations of the same view compare from one round to the next."""
        rounds = [[p.recompute for p in self[case]] for case in cases]
        return mean([b / a for found in rounds for a, b in pairwise(found)])

    def right(self, view: str, share: float) -> bool | None:
        """Whether AUTO took the faster strategy, or was within 10 % of it; None if not measured.

        Of a view with parts it takes one for each, which is neither of the two.
        """
        pairs = self[view, share]
        found = [(p.changes, p.again) for p in pairs if p.changes is not None and p.again]
        if not found:
            return None
        changes, again = (
            median(seconds or 0 for seconds in each) for each in zip(*found, strict=True)
        )
        rebuilt = sum(p.strategy.startswith("rebuild") for p in pairs) * 2 > len(pairs)
        taken = min(again if rebuilt else changes, median(p.refresh for p in pairs))
        return taken <= 1.1 * min(changes, again)


def mean(ratios: Collection[float]) -> float:
    """The geometric mean; 1 of nothing.

    >>> mean([2, 8])
    4.0
    """
    return round(exp(fmean(map(log, ratios))), 9) if ratios else 1.0


def percentile(values: Collection[float], percent: float) -> float:
    """The value below which so many percent of them are."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]
