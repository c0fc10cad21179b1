"""From a question's rows to its answer: every column of the SELECT by its own estimator."""

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
from belvedere.samples.answers.answer import Column
from belvedere.samples.answers.questions import ENDS, RANKS, SMOOTH, UNIT, Question
from belvedere.samples.answers.reading import Collect, Sheet, Side, has_clusters, read
from belvedere.samples.estimators.expressions import condition, number
from belvedere.samples.estimators.extremes import extreme
from belvedere.samples.estimators.quantiles import Quantile, Values, better, inverted
from belvedere.samples.estimators.smooth import Estimates, Method, estimate
from belvedere.samples.estimators.totals import Total, What, answer, needed


@dataclass(frozen=True)
class Estimated:
    """The groups that answer, in order, and their estimated columns."""

    sheet: Sheet
    order: np.ndarray
    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def answered(question: Question, collect: Collect, confidence: float, method: Method) -> Estimated:
    """Estimate every column of a question with an aggregate."""
    asked = _Asked(question, confidence, method)
    ends = asked.of(ENDS)
    stale = method is not Method.AQP or bool(ends)
    known = bool(asked.of(SMOOTH)) or (bool(asked.of(RANKS)) and has_clusters(question))
    sheet = read(
        question, asked.totals, asked.of(RANKS), ends, collect, stale=stale, extremes=known
    )
    columns = [
        asked.column(sheet, name, value)
        for name, value in question.outputs.items()
        if value.column not in asked.keys
    ]
    order = asked.order(sheet, columns)
    unsure = asked.having(sheet)[1]
    notes = [
        "; ".join(
            filter(None, [note, "HAVING holds for the estimate, not for all of its interval" * u])
        )
        for note, u in zip(_presence(sheet, stale), unsure.tolist(), strict=True)
    ]
    return Estimated(
        sheet, order, tuple(c.taken(order) for c in columns), tuple(notes[i] for i in order)
    )


class _Asked:
    """A question's aggregates, with the totals that they are functions of."""

    def __init__(self, question: Question, confidence: float, method: Method) -> None:
        assert question.aggregate is not None
        self.question = question
        self.confidence, self.method = confidence, method
        self.keys = question.aggregate.keys
        self.aggregates = {a.name: a for a in question.aggregate.aggregates}
        self.places: dict[str, list[int]] = {}
        self.totals: list[Total] = [Total(What.ONE)]
        for a in self.of(SMOOTH):
            self.places[a.name] = [self._place(t) for t in needed(a, col(UNIT))]

    def of(self, functions: frozenset[str]) -> list[Agg]:
        """The aggregates by some functions."""
        return [a for a in self.aggregates.values() if a.function in functions]

    def _place(self, total: Total) -> int:
        if total not in self.totals:
            self.totals.append(total)
        return self.totals.index(total)

    def known(self, found: list[Dual]) -> dict[str, Dual]:
        """Every smooth aggregate as a function of totals."""
        return {
            name: answer(self.aggregates[name], [found[j] for j in places])
            for name, places in self.places.items()
        }

    def column(self, sheet: Sheet, name: str, value: Scalar) -> Column:
        """A column of the answer."""
        bare = self.aggregates.get(value.column or "")
        if bare is not None and bare.function in RANKS:
            return _rank(sheet, name, bare, self.confidence, self.method)
        if bare is not None and bare.function in ENDS:
            return _end(sheet, name, bare)
        mixed = [c for c in value.columns if c not in self.places]
        if mixed:
            raise Unsupported(
                f"an estimate of {value.sql().replace('`', '')}",
                detail=f"it reads {mixed[0]!r}",
                hint="select columns of the GROUP BY, and medians, minima and maxima, by themselves",
                reason="ESTIMATE_EXPRESSION",
            )
        return _smooth(name, self._estimate(sheet, value.expr))

    def _estimate(self, sheet: Sheet, e: exp.Expr) -> Estimates:
        return estimate(
            lambda found: number(e, self.known(found), found[0]),
            sheet.cells,
            None if self.method is Method.AQP else sheet.stale_totals,
            self.confidence,
            self.method,
            sheet.extremes,
        )

    def having(self, sheet: Sheet) -> tuple[np.ndarray, np.ndarray]:
        """The groups that pass HAVING, and those that would not at some end of the intervals."""
        keep, unsure = np.ones(sheet.groups, bool), np.zeros(sheet.groups, bool)
        if not self.question.having:
            return keep, unsure
        none = np.zeros((sheet.groups, 0))
        found = {n: self._estimate(sheet, col(n).expr) for n in self.places}
        ends = [
            {n: Dual(getattr(e, end), none) for n, e in found.items()}
            for end in ("value", "low", "high")
        ]
        for predicate in self.question.having:
            holds, low, high = (
                condition(predicate.expr, known, Dual(np.zeros(sheet.groups), none))
                for known in ends
            )
            keep &= holds
            unsure |= (low != holds) | (high != holds)
        return keep, unsure

    def order(self, sheet: Sheet, columns: Sequence[Column]) -> np.ndarray:
        """The groups that pass HAVING, in the order asked for."""
        keep, _ = self.having(sheet)
        if self.method is Method.AQP and self.keys:
            keep &= np.isin(np.arange(sheet.groups), sheet.fresh.group)
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


def _smooth(name: str, found: Estimates) -> Column:
    return Column(
        name,
        found.value,
        found.low,
        found.high,
        found.method,
        found.notes,
        found.stale,
        {m.value: s.variance for m, s in found.sides.items()},
        {m.value: s.keys for m, s in found.sides.items()},
    )


def _rank(sheet: Sheet, name: str, a: Agg, confidence: float, method: Method) -> Column:
    """A median or percentile, group by group."""
    p, rule = _share(a), "inverted_cdf" if a.function in DISCRETE else "linear"
    value, low, high, before = (np.full(sheet.groups, np.nan) for _ in range(4))
    result = Column(name, value, low, high, [], [], before)
    whole = sheet.whole[a.name]
    for g in range(sheet.groups):
        fresh, stale = (_values(s, a.name, g) for s in (sheet.fresh, sheet.stale))
        column = _values(whole, a.name, g).value
        sides = {Method.AQP: inverted(p, fresh, stale, None, sheet.ratio, confidence)}
        if method is not Method.AQP and len(column):
            sides[Method.CORR] = inverted(p, fresh, stale, column, sheet.ratio, confidence)
        chosen = better(sides) if method is Method.AUTO else method
        q = sides.get(chosen, sides[Method.AQP])
        if sheet.ratio == 1:
            q = Quantile.exact(_quantile(fresh.value, p, rule))
        result.value[g], result.low[g], result.high[g] = q.value, q.low, q.high
        result.stale[g] = _quantile(column, p, rule)
        result.method.append(chosen.value)
        note = rank_doubt(q, _heaviest(sheet, g), changed=chosen is Method.CORR)
        result.notes.append("" if sheet.ratio == 1 else note)
    return result


DISCRETE = ("percentile_disc", "percentile_approx", "approx_percentile")
"""Functions whose answer is one of the values; that of the others may lie between two."""


def _quantile(values: Array, p: float, rule: Any) -> float:
    return float(np.quantile(values, p, method=rule)) if len(values) else float("nan")


def _heaviest(sheet: Sheet, group: int) -> float:
    """The largest hashed key's rows, squared, over those of all that may be sampled on average."""
    known = sheet.extremes
    return 0.0 if known is None or known.unit is None else float(known.unit[group, 0]) / sheet.ratio


def rank_doubt(q: Quantile, heaviest: float, *, changed: bool) -> str:
    """What keeps a quantile's interval from covering at its rate."""
    keys = min(q.keys, FEWEST - 1) if np.isnan(q.low) else q.keys
    return doubt(keys, UNSEEN * heaviest, 0.0, heavy=False, changed=changed)


def _share(a: Agg) -> float:
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


def _values(side: Side, name: str, group: int) -> Values:
    own = side.rows(group)
    own = own[~np.isnan(side.values[name][own])]
    return Values(side.values[name][own], side.unit[own], side.exact[own])


def _end(sheet: Sheet, name: str, a: Agg) -> Column:
    """A minimum or maximum, group by group."""
    stale, largest = sheet.ends[a.name], a.function == "max"
    value, seen = np.full(sheet.groups, np.nan), np.full(sheet.groups, np.nan)
    notes = []
    for g in range(sheet.groups):
        fresh, old = (_values(s, a.name, g) for s in (sheet.fresh, sheet.stale))
        found = extreme(float(stale[g]), fresh.value, *_gains(fresh, old), largest=largest)
        value[g], seen[g] = found.value, found.seen
        notes.append(found.note)
    none = np.full(sheet.groups, np.nan)
    low, high = (seen, none) if largest else (none, seen)
    return Column(name, value, low, high, ["CORR"] * sheet.groups, notes, stale)


def _gains(fresh: Values, stale: Values) -> tuple[Array, Array]:
    """The rows of keys on both sides as they were, and what they gained."""
    _, here, there = np.intersect1d(fresh.unit, stale.unit, return_indices=True)
    return stale.value[there], fresh.value[here] - stale.value[there]


def _presence(sheet: Sheet, stale: bool) -> list[str]:
    """Groups that are only in the stale view, or only among sampled fresh rows."""
    if not stale:
        return [""] * sheet.groups
    fresh = np.isin(np.arange(sheet.groups), sheet.fresh.group)
    notes = []
    for old, new in zip(sheet.in_stale, fresh, strict=True):
        if old and not new:
            notes.append("only in the stale view: no sampled row is left, it may be gone")
        elif new and not old:
            notes.append("new: not in the stale view")
        else:
            notes.append("")
    return notes
