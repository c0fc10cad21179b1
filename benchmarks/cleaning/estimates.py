"""Estimates of one query from a view in two states, both in DuckDB, by the library's estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belvedere.estimation.diagnosis import ENOUGH_ALONE as ENOUGH
from belvedere.estimation.diagnosis import LOPSIDED, SKEWED
from belvedere.estimation.linearization import Dual
from belvedere.samples.estimators.per_key_sums import Ids, RowContributions, sum_per_key
from belvedere.samples.estimators.smooth import Method, MethodEstimate, estimate_smooth

LEVEL = 0.95


@dataclass(frozen=True)
class Outcome:
    """Per group of one query: the truth, the stale answer, both estimates, the chosen one."""

    truth: np.ndarray
    stale: np.ndarray
    chosen: np.ndarray
    sides: dict[Method, MethodEstimate]
    spread: dict[Method, np.ndarray]
    """The largest value of all rows (of CORR, of those that changed) over the mean one; of the
    sampled ones, where a run does not look at all."""

    def usable(self, method: Method, least: int = ENOUGH) -> np.ndarray:
        """Groups with enough sampled keys, whose values are within 50 times their mean."""
        enough = (self.sides[method].keys >= least) & (self.spread[method] <= SKEWED)
        return enough & np.isfinite(self.truth) & (self.truth != 0)

    def shown(self, method: Method) -> np.ndarray:
        """Groups whose interval an answer shows without a warning: it sees its sample alone."""
        side = self.sides[method]
        even = (side.skew <= SKEWED) & (np.abs(side.lopsided) <= LOPSIDED)
        return (side.keys >= ENOUGH) & even & (self.truth != 0)

    def answering(self, least: int = ENOUGH) -> np.ndarray:
        """Groups that enough sampled rows answer."""
        return (self.sides[Method.AQP].keys >= least) & (self.truth != 0)

    def error(self, values: np.ndarray) -> np.ndarray:
        """Relative errors."""
        return np.abs(values - self.truth) / np.abs(self.truth)

    def covered(self, method: Method) -> np.ndarray:
        """Whether the truth lies in the interval."""
        return self.sides[method].covers(self.truth, LEVEL)


def outcome(
    fresh: dict[str, np.ndarray],
    stale: dict[str, np.ndarray],
    stale_sums: dict[str, np.ndarray],
    sums: dict[str, np.ndarray],
    ratio: float,
    *,
    quotient: bool = False,
    exact: Ids | None = None,
) -> Outcome:
    """Estimate from sampled rows (g, u, t0 …) on both sides and the totals of the whole states."""
    names, place = np.unique(
        np.concatenate([t["g"] for t in (fresh, stale, stale_sums, sums)]), return_inverse=True
    )
    ends = np.cumsum([len(t["g"]) for t in (fresh, stale, stale_sums, sums)])
    at = np.split(place, ends[:-1])
    totals = sorted(k for k in fresh if k in ("t0", "t1"))

    def matrix(table: dict[str, np.ndarray]) -> np.ndarray:
        return np.stack([table[k].astype(float) for k in totals], axis=1)

    def placed(table: dict[str, np.ndarray], where: np.ndarray) -> np.ndarray:
        found = np.zeros((len(names), len(totals)))
        found[where] = matrix(table)
        return found

    made = sum_per_key(
        RowContributions(at[0], fresh["u"].astype(np.int64), matrix(fresh)),
        RowContributions(at[1], stale["u"].astype(np.int64), matrix(stale)),
        np.zeros(0, np.int64) if exact is None else exact,
        ratio,
        len(names),
    )

    def answer(t: list[Dual]) -> Dual:
        return t[0] / t[1] if quotient else t[0]

    before, after = placed(stale_sums, at[2]), placed(sums, at[3])
    found = estimate_smooth(answer, made, before, LEVEL)
    with np.errstate(divide="ignore", invalid="ignore"):
        truth = after[:, 0] / after[:, 1] if quotient else after[:, 0]
    unequal = {m: s.skew for m, s in found.sides.items()}
    return Outcome(
        np.nan_to_num(truth), np.nan_to_num(found.stale), found.value, found.sides, unequal
    )


def fetched(connection: Any, text: str) -> dict[str, np.ndarray]:
    """A query's columns."""
    found: dict[str, np.ndarray] = connection.execute(text).fetchnumpy()
    return found
