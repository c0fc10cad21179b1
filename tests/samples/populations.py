"""Small populations in two states, and 4000 samples of each at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belvedere.samples.estimators.per_key_sums import KeySums

SEEDS = 4000
STREAMS = ("insert-heavy", "delete-heavy", "update-heavy")


@dataclass(frozen=True)
class Population:
    """Per key what it adds to (sum, count), stale and fresh; keys that are absent add nothing."""

    stale: np.ndarray
    fresh: np.ndarray

    @property
    def stale_totals(self) -> np.ndarray:
        return self.stale.sum(axis=0)

    @property
    def truth(self) -> np.ndarray:
        return self.fresh.sum(axis=0)


def population(stream: str, size: int = 1500, share: float = 1.0, seed: int = 1) -> Population:
    """Values of moderate spread; a predicate leaves a share of the rows."""
    rng = np.random.default_rng(seed)
    value = rng.gamma(2.0, 50.0, size)
    after = value.copy()
    there, still = np.ones(size), np.ones(size)
    match stream:
        case "insert-heavy":
            there[: size // 2] = 0
            after += np.where(rng.random(size) < 0.05, rng.normal(20, 10, size), 0)
        case "delete-heavy":
            still[: size // 2] = 0
        case "update-heavy":
            after += np.where(rng.random(size) < 0.6, rng.normal(30, 40, size), 0)
            # An update may make a row pass the predicate, or not any more.
            there[:100], still[-100:] = 0, 0
    asked = rng.random(size) < share
    stale, fresh = there * asked, still * asked
    return Population(
        np.column_stack([value * stale, stale]), np.column_stack([after * fresh, fresh])
    )


def samples(
    of: Population, ratio: float, exact: np.ndarray | None = None, seeds: int = SEEDS, seed: int = 7
) -> KeySums:
    """The cells of many samples, each sample a group of its own."""
    size = len(of.stale)
    exact = np.zeros(size, bool) if exact is None else exact
    drawn = np.random.default_rng(seed).random((seeds, size), np.float32) < ratio
    group, unit = np.nonzero(drawn | exact)
    return KeySums(ratio, seeds, group, exact[unit], of.fresh[unit], of.stale[unit])
