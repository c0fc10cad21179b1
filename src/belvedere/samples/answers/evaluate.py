"""Estimate the answer to a question from its rows: each column of the SELECT by its own estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from belvedere.algebra.relations import Agg, TopK
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Unsupported
from belvedere.estimation.diagnosis import FEWEST, UNSEEN, doubt
from belvedere.estimation.linearization import Array, Dual
from belvedere.samples.answers.answer import EstimatedColumn
from belvedere.samples.answers.plans import has_clusters
from belvedere.samples.answers.questions import EXTREMA, QUANTILES, SMOOTH, UNIT, Question
from belvedere.samples.answers.reading import (
    Collect,
    QuestionData,
    SampledState,
    read_data,
)
from belvedere.samples.estimators.expressions import evaluate_condition, evaluate_number
from belvedere.samples.estimators.extremes import estimate_extremum
from belvedere.samples.estimators.quantiles import (
    GroupValues,
    Quantile,
    better_method,
    estimate_quantile,
)
from belvedere.samples.estimators.smooth import Method, SmoothEstimates, estimate_smooth
from belvedere.samples.estimators.totals import Contribution, Total, from_totals, totals_of


@dataclass(frozen=True)
class EvaluatedQuestion:
    """The groups of the answer, in order, and their estimated columns."""

    data: QuestionData
    order: np.ndarray
    columns: tuple[EstimatedColumn, ...]
    notes: tuple[str, ...]


def evaluate(
    question: Question, collect: Collect, confidence: float, method: Method
) -> EvaluatedQuestion:
    """Estimate every column of a question with an aggregate."""
    evaluation = _QuestionEvaluation(question, confidence, method)
    extrema = evaluation.aggregates_of(EXTREMA)
    reads_stale = method is not Method.AQP or bool(extrema)
    needs_extremes = bool(evaluation.aggregates_of(SMOOTH)) or (
        bool(evaluation.aggregates_of(QUANTILES)) and has_clusters(question)
    )
    data = read_data(
        question,
        evaluation.totals,
        evaluation.aggregates_of(QUANTILES),
        extrema,
        collect,
        stale=reads_stale,
        extremes=needs_extremes,
    )
    columns = [
        evaluation.column(data, name, value)
        for name, value in question.outputs.items()
        if value.column not in evaluation.keys
    ]
    order = evaluation.order(data, columns)
    uncertain = evaluation.having(data)[1]
    notes = [
        "; ".join(
            filter(
                None,
                [note, "HAVING holds for the estimate, not for all of its interval" * is_uncertain],
            )
        )
        for note, is_uncertain in zip(
            _presence_notes(data, reads_stale), uncertain.tolist(), strict=True
        )
    ]
    return EvaluatedQuestion(
        data, order, tuple(c.take(order) for c in columns), tuple(notes[i] for i in order)
    )


class _QuestionEvaluation:
    """The aggregates of a question, and the totals that they are functions of."""

    def __init__(self, question: Question, confidence: float, method: Method) -> None:
        assert question.aggregate is not None
        self.question = question
        self.confidence, self.method = confidence, method
        self.keys = question.aggregate.keys
        self.aggregates = {a.name: a for a in question.aggregate.aggregates}
        self.total_positions: dict[str, list[int]] = {}
        self.totals: list[Total] = [Total(Contribution.ONE)]
        for a in self.aggregates_of(SMOOTH):
            self.total_positions[a.name] = [self._position(t) for t in totals_of(a, col(UNIT))]

    def aggregates_of(self, functions: frozenset[str]) -> list[Agg]:
        """The aggregates with one of these functions."""
        return [a for a in self.aggregates.values() if a.function in functions]

    def _position(self, total: Total) -> int:
        if total not in self.totals:
            self.totals.append(total)
        return self.totals.index(total)

    def smooth_values(self, totals: list[Dual]) -> dict[str, Dual]:
        """Every smooth aggregate as a function of estimated totals."""
        return {
            name: from_totals(self.aggregates[name], [totals[j] for j in positions])
            for name, positions in self.total_positions.items()
        }

    def column(self, data: QuestionData, name: str, value: Scalar) -> EstimatedColumn:
        """A column of the answer."""
        bare = self.aggregates.get(value.column or "")
        if bare is not None and bare.function in QUANTILES:
            return _quantile_column(data, name, bare, self.confidence, self.method)
        if bare is not None and bare.function in EXTREMA:
            return _extremum_column(data, name, bare)
        mixed = [c for c in value.columns if c not in self.total_positions]
        if mixed:
            raise Unsupported(
                f"an estimate of {value.sql().replace('`', '')}",
                detail=f"it reads {mixed[0]!r}",
                hint="select columns of the GROUP BY, and medians, minima and maxima, by themselves",
                reason="ESTIMATE_EXPRESSION",
            )
        return _smooth_column(name, self._estimate(data, value.expr))

    def _estimate(self, data: QuestionData, e: exp.Expr) -> SmoothEstimates:
        return estimate_smooth(
            lambda totals: evaluate_number(e, self.smooth_values(totals), totals[0]),
            data.cells,
            None if self.method is Method.AQP else data.stale_totals,
            self.confidence,
            self.method,
            data.extremes,
        )

    def having(self, data: QuestionData) -> tuple[np.ndarray, np.ndarray]:
        """The groups that pass HAVING, and those where an end of an interval decides otherwise."""
        keep, uncertain = np.ones(data.groups, bool), np.zeros(data.groups, bool)
        if not self.question.having:
            return keep, uncertain
        none = np.zeros((data.groups, 0))
        estimates = {n: self._estimate(data, col(n).expr) for n in self.total_positions}
        bounds = [
            {n: Dual(getattr(estimate, bound), none) for n, estimate in estimates.items()}
            for bound in ("value", "low", "high")
        ]
        for predicate in self.question.having:
            holds, low, high = (
                evaluate_condition(predicate.expr, values, Dual(np.zeros(data.groups), none))
                for values in bounds
            )
            keep &= holds
            uncertain |= (low != holds) | (high != holds)
        return keep, uncertain

    def order(self, data: QuestionData, columns: Sequence[EstimatedColumn]) -> np.ndarray:
        """The groups that pass HAVING, in the order asked for."""
        keep, _ = self.having(data)
        if self.method is Method.AQP and self.keys:
            keep &= np.isin(np.arange(data.groups), data.fresh.group)
        order = np.flatnonzero(keep)
        top = next((n for n in self.question.above if isinstance(n, TopK)), None)
        if top is None:
            return order
        names = {plan: name for name, plan in self.question.bound.columns}
        values = {c.name: c.value for c in columns}
        for o in reversed(top.order):
            by = values.get(names.get(o.column, ""))
            if by is None:
                raise Unsupported(
                    f"ORDER BY {o.column} … LIMIT of estimates",
                    hint="order by an estimated column",
                    reason="ESTIMATE_ORDER",
                )
            order = order[np.argsort(by[order] * (-1 if o.descending else 1), kind="stable")]
        return order[top.offset : top.offset + top.limit]


def _smooth_column(name: str, estimates: SmoothEstimates) -> EstimatedColumn:
    return EstimatedColumn(
        name,
        estimates.value,
        estimates.low,
        estimates.high,
        estimates.method,
        estimates.notes,
        estimates.stale,
        {m.value: s.variance for m, s in estimates.sides.items()},
        {m.value: s.keys for m, s in estimates.sides.items()},
    )


def _quantile_column(
    data: QuestionData, name: str, a: Agg, confidence: float, method: Method
) -> EstimatedColumn:
    """A median or percentile, group by group."""
    p, rule = _percentile_share(a), "inverted_cdf" if a.function in DISCRETE else "linear"
    value, low, high, before = (np.full(data.groups, np.nan) for _ in range(4))
    result = EstimatedColumn(name, value, low, high, [], [], before)
    whole = data.stale_columns[a.name]
    for g in range(data.groups):
        fresh, stale = (_group_values(s, a.name, g) for s in (data.fresh, data.stale))
        column = _group_values(whole, a.name, g).value
        sides = {Method.AQP: estimate_quantile(p, fresh, stale, None, data.ratio, confidence)}
        if method is not Method.AQP and len(column):
            sides[Method.CORR] = estimate_quantile(p, fresh, stale, column, data.ratio, confidence)
        chosen = better_method(sides) if method is Method.AUTO else method
        q = sides.get(chosen, sides[Method.AQP])
        if data.ratio == 1:
            q = Quantile.exact(_quantile_of(fresh.value, p, rule))
        result.value[g], result.low[g], result.high[g] = q.value, q.low, q.high
        result.stale[g] = _quantile_of(column, p, rule)
        result.method.append(chosen.value)
        note = quantile_doubt(q, _largest_key_share(data, g), changed=chosen is Method.CORR)
        result.notes.append("" if data.ratio == 1 else note)
    return result


DISCRETE = ("percentile_disc", "percentile_approx", "approx_percentile")
"""Functions whose answer is one of the values; other quantiles may lie between two values."""


def _quantile_of(values: Array, p: float, rule: Any) -> float:
    return float(np.quantile(values, p, method=rule)) if len(values) else float("nan")


def _largest_key_share(data: QuestionData, group: int) -> float:
    """The squared row count of the largest hashed key over the expected sampled sum of squares."""
    extremes = data.extremes
    return (
        0.0
        if extremes is None or extremes.unit is None
        else float(extremes.unit[group, 0]) / data.ratio
    )


def quantile_doubt(q: Quantile, heaviest: float, *, changed: bool) -> str:
    """Why the interval of a quantile may not cover at its rate; empty if it does."""
    keys = min(q.keys, FEWEST - 1) if np.isnan(q.low) else q.keys
    return doubt(keys, UNSEEN * heaviest, 0.0, heavy=False, changed=changed)


def _percentile_share(a: Agg) -> float:
    if a.function == "median":
        return 0.5
    share = a.args[1].expr if len(a.args) > 1 else None
    if not isinstance(share, exp.Literal) or not 0 <= float(share.this) <= 1:
        raise Unsupported(
            f"an estimate of {str(a.call).replace('`', '').lower()}",
            hint="percentile(column, share) with one share between 0 and 1",
            reason="ESTIMATE_AGGREGATE",
        )
    return float(share.this)


def _group_values(side: SampledState, name: str, group: int) -> GroupValues:
    own = side.rows(group)
    own = own[~np.isnan(side.values[name][own])]
    return GroupValues(side.values[name][own], side.unit[own], side.exact[own])


def _extremum_column(data: QuestionData, name: str, a: Agg) -> EstimatedColumn:
    """A minimum or maximum, group by group."""
    stale, largest = data.extrema[a.name], a.function == "max"
    value, certain = np.full(data.groups, np.nan), np.full(data.groups, np.nan)
    notes = []
    for g in range(data.groups):
        fresh, before = (_group_values(s, a.name, g) for s in (data.fresh, data.stale))
        extremum = estimate_extremum(
            float(stale[g]), fresh.value, *_matched_gains(fresh, before), largest=largest
        )
        value[g], certain[g] = extremum.value, extremum.certain
        notes.append(extremum.note)
    nothing = np.full(data.groups, np.nan)
    low, high = (certain, nothing) if largest else (nothing, certain)
    return EstimatedColumn(name, value, low, high, ["CORR"] * data.groups, notes, stale)


def _matched_gains(fresh: GroupValues, stale: GroupValues) -> tuple[Array, Array]:
    """The stale values of keys that both states have, and what these keys gained."""
    _, fresh_rows, stale_rows = np.intersect1d(fresh.unit, stale.unit, return_indices=True)
    return stale.value[stale_rows], fresh.value[fresh_rows] - stale.value[stale_rows]


def _presence_notes(data: QuestionData, reads_stale: bool) -> list[str]:
    """Notes on groups that only the stale view has, or only the sampled fresh rows."""
    if not reads_stale:
        return [""] * data.groups
    fresh = np.isin(np.arange(data.groups), data.fresh.group)
    notes = []
    for in_stale, in_sample in zip(data.in_stale, fresh, strict=True):
        if in_stale and not in_sample:
            notes.append("only in the stale view: no sampled row is left, it may be gone")
        elif in_sample and not in_stale:
            notes.append("new: not in the stale view")
        else:
            notes.append("")
    return notes
