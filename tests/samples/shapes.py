"""Views of every shape, before and after changes, and how often answers without a note hold the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from belvedere.algebra.relations import Agg
from belvedere.algebra.scalars import col
from belvedere.estimation.linearization import Dual
from belvedere.samples.answers.evaluate import quantile_doubt
from belvedere.samples.estimators.per_key_sums import KeySums
from belvedere.samples.estimators.quantiles import GroupValues, better_method, estimate_quantile
from belvedere.samples.estimators.smooth import (
    Method,
    SmoothFunction,
    StaleExtremes,
    choose_estimates,
    estimate_by_methods,
)
from belvedere.samples.estimators.stale_view import extremes_of
from belvedere.samples.estimators.totals import Contribution, Total, from_totals

SHAPES = (
    "normal", "gamma", "lognormal 1", "lognormal 2", "rank 1", "rank 2", "rank 4",
    "zipf 1", "zipf 2", "zipf 3", "zipf 4", "ties", "yes 0.1", "yes 0.4", "rare",
)  # fmt: skip
"""`rank z`: the r-th largest value is r**-z of the largest; `zipf z`: k is drawn as often as k**-z."""
KEYS = ("rows", "pairs", "heavy")
"""Views of groups have one row per hashed key; views of joins some, or a few keys have many."""

X, ASKED = col("x"), col("asked")
TOTALS = (
    Total(Contribution.VALUE, X), Total(Contribution.PRESENT, X), Total(Contribution.SQUARE, X), Total(Contribution.VALUE, ASKED),
)  # fmt: skip


def spread(function: str) -> SmoothFunction:
    return lambda t: from_totals(Agg("s", function, (X,)), [t[0], t[1], t[2]])


SMOOTH: dict[str, SmoothFunction] = {
    "sum": lambda t: t[0],
    "count": lambda t: t[3],
    "avg": lambda t: t[0] / t[1],
    "var": spread("var_samp"),
    "stddev": spread("stddev"),
}
RANKS = {"median": 0.5, "percentile 0.9": 0.9}
AGGREGATES = (*SMOOTH, *RANKS)


def values(shape: str, size: int, rng: np.random.Generator) -> np.ndarray:
    kind, _, parameter = shape.partition(" ")
    match kind:
        case "normal":
            return rng.normal(100, 20, size)
        case "gamma":
            return rng.gamma(2, 50, size)
        case "lognormal":
            return rng.lognormal(0, float(parameter), size)
        case "rank":
            return 1000.0 / (rng.permutation(size) + 1.0) ** float(parameter)
        case "zipf":
            weight = np.arange(1, 1001.0) ** -float(parameter)
            return rng.choice(np.arange(1, 1001.0), size, p=weight / weight.sum())
        case "ties":
            return rng.integers(1, 6, size).astype(float)
        case "yes":
            return (rng.random(size) < float(parameter)).astype(float)
        case _:
            usual = rng.gamma(4, 10, size)
            return np.where(rng.random(size) < 0.003, 30 * usual, usual)


@dataclass(frozen=True)
class States:
    """Rows before and after: their values, whether they are there, their hashed key."""

    old: np.ndarray
    new: np.ndarray
    was: np.ndarray
    still: np.ndarray
    unit: np.ndarray
    asked: np.ndarray

    def totals(self, value: np.ndarray, there: np.ndarray) -> np.ndarray:
        """What each hashed key adds to each total."""
        adds = (value, np.ones(len(value)), value**2, self.asked)
        return np.stack([np.bincount(self.unit, a * there, self.units) for a in adds], axis=1)

    @property
    def units(self) -> int:
        return int(self.unit.max()) + 1


def states(shape: str, keys: str, size: int, share: float, rng: np.random.Generator) -> States:
    """A share of the rows inserted, deleted, drawn again or scaled."""
    old = values(shape, size, rng)
    new, how = old.copy(), rng.choice(4, size, p=[0.3, 0.2, 0.3, 0.2])
    how = np.where(rng.random(size) < share, how, -1)
    new[how == 2] = rng.choice(old, int((how == 2).sum()))
    scaled = old * rng.uniform(0.8, 1.5, size)
    discrete = shape.startswith(("zipf", "ties", "yes"))
    new[how == 3] = (np.round(scaled) if discrete else scaled)[how == 3]
    if keys == "rows":
        unit = np.arange(size)
    elif keys == "pairs":
        unit = rng.integers(0, size // 2, size)
    else:
        weight = np.arange(1, size // 2 + 1.0) ** -0.7
        unit = rng.choice(size // 2, size, p=weight / weight.sum())
    return States(old, new, how != 0, how != 1, unit, rng.random(size) < 0.5)


def known(of: States, keys: str, samples: int) -> StaleExtremes:
    """What the stale view says, for as many groups as there are samples."""
    stale, there = of.totals(of.old, of.was), of.old[of.was]
    row: dict[str, object] = {"__rows": len(there)}
    for j, ends in ((0, (there.min(), there.max())), (3, (0.0, 1.0))):
        row |= {f"__min{j}": float(ends[0]), f"__max{j}": float(ends[1])}
    for j in range(len(TOTALS)):
        row |= {f"__max_s{j}": float((stale[:, j] ** 2).max())}
        row |= {f"__sum_s{j}": float((stale[:, j] ** 2).sum())}
    table = pa.table({name: [value] * samples for name, value in row.items()})
    return extremes_of(TOTALS, table, np.arange(samples), samples, clusters=keys != "rows")


@dataclass
class Tally:
    """Answers, those with an interval, those without a note, and how many of these hold the truth."""

    answers: int = 0
    shown: int = 0
    clean: int = 0
    held: int = 0

    def add(self, shown: np.ndarray, clean: np.ndarray, holds: np.ndarray) -> None:
        self.answers += len(shown)
        self.shown += int(shown.sum())
        self.clean += int((shown & clean).sum())
        self.held += int((shown & clean & holds).sum())

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.answers + other.answers, self.shown + other.shown,
            self.clean + other.clean, self.held + other.held,
        )  # fmt: skip

    @property
    def coverage(self) -> float:
        return self.held / max(self.clean, 1)


Cell = tuple[str, str, str, str]
"""Aggregate, method, shape, keys."""


@dataclass
class Coverage:
    """Tallies of cells."""

    cells: dict[Cell, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def pooled(self, by: Callable[[Cell], tuple[str, ...]]) -> dict[tuple[str, ...], Tally]:
        found: dict[tuple[str, ...], Tally] = defaultdict(Tally)
        for cell, tally in self.cells.items():
            found[by(cell)] += tally
        return dict(found)

    def sample_smooth(
        self,
        of: States,
        shape: str,
        keys: str,
        ratio: float,
        samples: int,
        rng: np.random.Generator,
    ) -> None:
        """Sums, counts, averages and spreads of many samples of one population."""
        stale, fresh = of.totals(of.old, of.was), of.totals(of.new, of.still)
        group, unit = np.nonzero(rng.random((samples, of.units), np.float32) < ratio)
        cells = KeySums(ratio, samples, group, np.zeros(len(group), bool), fresh[unit], stale[unit])
        base = np.broadcast_to(stale.sum(axis=0), (samples, len(TOTALS)))
        wanted, extremes = fresh.sum(axis=0)[None, :], known(of, keys, samples)
        for name, function in SMOOTH.items():
            truth = float(function([Dual(t[None], np.zeros((1, 4))) for t in wanted[0]]).value[0])
            sides, before = estimate_by_methods(function, cells, base, extremes)
            for method in Method:
                found = choose_estimates(sides, before, ratio, 0.95, method)
                slack = 1e-9 * abs(truth)
                holds = (found.low - slack <= truth) & (truth <= found.high + slack)
                clean = np.array([not note for note in found.notes])
                self.cells[name, method.value, shape, keys].add(~np.isnan(found.low), clean, holds)

    def sample_ranks(
        self,
        of: States,
        shape: str,
        keys: str,
        ratio: float,
        samples: int,
        rng: np.random.Generator,
    ) -> None:
        """Medians and percentiles of many samples of one population."""
        sizes = np.bincount(of.unit[of.was]).astype(float) ** 2
        heaviest = 0.0 if keys == "rows" else float(sizes.max() / sizes.sum())
        for _ in range(samples):
            drawn = (rng.random(of.units) < ratio)[of.unit]
            fresh, stale = (
                GroupValues(value[place], of.unit[place], np.zeros(len(place), bool))
                for value, place in (
                    (of.new, np.flatnonzero(drawn & of.still)),
                    (of.old, np.flatnonzero(drawn & of.was)),
                )
            )
            for name, p in RANKS.items():
                truth = float(np.quantile(of.new[of.still], p))
                sides = {
                    m: estimate_quantile(p, fresh, stale, whole, ratio, 0.95)
                    for m, whole in ((Method.AQP, None), (Method.CORR, of.old[of.was]))
                }
                for method in Method:
                    own = better_method(sides) if method is Method.AUTO else method
                    q = sides[own]
                    clean = not quantile_doubt(q, heaviest / ratio, changed=own is Method.CORR)
                    self.cells[name, method.value, shape, keys].add(
                        np.array([not np.isnan(q.low)]),
                        np.array([clean]),
                        np.array([q.low <= truth <= q.high]),
                    )


def measured(
    shapes: Iterable[str],
    keys: Iterable[str],
    sizes: Sequence[int],
    populations: int,
    smooth: int,
    ranks: int,
    seed: int,
) -> Coverage:
    """The coverage over so many populations of each kind, and so many samples of each."""
    found, rng = Coverage(), np.random.default_rng(seed)
    for shape in shapes:
        for kind in keys:
            for _ in range(populations):
                size, share = int(rng.choice(sizes)), rng.choice([0.01, 0.05, 0.1, 0.3])
                of, ratio = (
                    states(shape, kind, size, share, rng),
                    float(rng.choice([0.05, 0.1, 0.3])),
                )
                found.sample_smooth(of, shape, kind, ratio, smooth, rng)
                found.sample_ranks(of, shape, kind, ratio, ranks, rng)
    return found
