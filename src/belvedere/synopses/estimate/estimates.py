"""Estimates about a join from its sample: aggregates with intervals, equi-depth histograms, training sets.

Every result in the reservoir is used: y is the aggregated value where the result passes the filters and the
condition, and zero elsewhere. A sum over the join is J times the mean of y, with its error. The variance of
a sample without replacement shrinks by 1 - n/J; a sample of the whole join has no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.errors import Invalid, Unsupported
from belvedere.sql.binder.naming import did_you_mean
from belvedere.sql.statements.cursor import without_comments
from belvedere.synopses.estimate.intervals import count_interval, doubt, mean_offsets, ranks
from belvedere.synopses.estimate.values import true, value

Span: TypeAlias = tuple[float, float] | None
NOTHING = "no sampled row: a larger sample may have some"
FAILS = 0.05
"""The probability that a histogram's bound does not hold."""


@dataclass(frozen=True)
class SampleEstimate:
    """A value and its confidence interval; the value is exact if the ends are equal."""

    value: float
    low: float
    high: float
    rows: int
    """The sampled rows that it is computed from."""
    note: str = ""
    """Why the interval may not cover at its rate; empty if it does."""

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.value:g}"
        text = f"{self.value:g} [{self.low:g}, {self.high:g}]"
        return f"{text} ({self.note})" if self.note else text

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Population:
    """A reservoir of n results out of J, the columns that it shows, and which results pass the filters."""

    rows: pa.Table
    types: Mapping[str, str]
    shown: Mapping[str, Scalar]
    passing: Any
    size: int
    replacement: bool
    spans: Callable[[str], Span] = field(default=lambda _: None, repr=False)
    """The least and greatest value of a column of the plan in its table, if known."""

    @property
    def n(self) -> int:
        """Results in the reservoir."""
        return len(self.passing)

    @property
    def shrink(self) -> float:
        """The factor of a variance for a sample that is a part of the join."""
        return 1.0 if self.replacement else max(0.0, 1 - self.n / max(self.size, 1))

    @property
    def complete(self) -> bool:
        """Whether the sample is the whole join."""
        return (not self.replacement and self.n >= self.size) or not self.size

    def span(self, scalar: Scalar) -> Span:
        """The least and greatest value of a column; None of an expression."""
        return self.spans(scalar.column) if scalar.column else None

    def scalar(self, text: str) -> Scalar:
        """An expression over the shown columns as one over the plan's."""
        try:
            trees = sqlglot.parse(without_comments(text), dialect="spark")
        except sqlglot.errors.SqlglotError as wrong:
            raise Invalid(
                f"{text!r} is no expression", detail=str(wrong).split("\n")[0], reason="SYNTAX"
            ) from None
        if len(trees) != 1 or trees[0] is None:
            raise Invalid(
                f"{text!r} is no expression", hint="write one expression", reason="SYNTAX"
            )
        return Scalar(trees[0].transform(self._resolved))

    def _resolved(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = ".".join(p.name for p in node.parts).lower()
        last = node.name.lower()
        under = name[: -len(last) - 1]
        full = [n for n in self.shown if n.lower() == name]
        # A column that only one table has is shown without the table's name.
        ends = [n for n in self.shown if n.lower() == last or n.lower().endswith(f".{last}")]
        matches = full or (ends if len(ends) == 1 and (not under or "." not in ends[0]) else [])
        if len(matches) != 1:
            raise Invalid(
                f"no column {name!r} in the synopsis"
                if not ends
                else f"column {name!r} is ambiguous",
                hint=f"write one of {', '.join(ends)}" if ends else did_you_mean(name, self.shown),
                reason="NO_SUCH_COLUMN",
            )
        inner = self.shown[matches[0]].expr.copy()
        return inner if isinstance(inner, exp.Column) else exp.paren(inner)

    def numbers(self, scalar: Scalar) -> tuple[Any, Any]:
        """The values of a scalar as floats, and where they are not NULL."""
        data = value(scalar, self.rows, self.types).data
        try:
            cast = pc.cast(data, pa.float64(), safe=False)
        except pa.ArrowNotImplementedError:
            raise Invalid(f"{scalar} is not a number", reason="EXPRESSION") from None
        valid = pc.is_valid(cast).to_numpy()
        return pc.fill_null(cast, 0.0).to_numpy(), valid


def size(population: Population, confidence: float = 0.95) -> int | SampleEstimate:
    """The number of rows of the join after filters: exact if the sample is complete, else an estimate."""
    rows = _count(population, population.passing, confidence)
    return rows.rows if population.complete else rows


def estimate(
    population: Population, what: str, where: str | None, group_by: str | None, confidence: float
) -> Any:
    """An aggregate over the join; with groups, one for each that the sample has."""
    if not 0 < confidence < 1:
        raise Invalid(
            f"a confidence of {confidence:g}",
            hint="it is between 0 and 1, as 0.95",
            reason="BAD_VALUE",
        )
    mask = population.passing
    if where is not None:
        mask = mask & true(population.scalar(where), population.rows, population.types)
    aggregate = _aggregate(population, what, confidence)
    if group_by is None:
        return aggregate(mask)
    keys = [
        value(population.scalar(k), population.rows, population.types).data
        for k in _listed(group_by)
    ]
    names = [f"k{n}" for n in range(len(keys))]
    table = pa.table(dict(zip(names, keys, strict=True))).append_column(
        "at", [np.arange(len(mask))]
    )
    groups = table.filter(pa.array(mask)).group_by(names).aggregate([("at", "list")])
    estimates = {}
    for row in groups.to_pylist():
        mine = np.zeros(len(mask), dtype=bool)
        mine[row["at_list"]] = True
        estimates[tuple(row[n] for n in names)] = aggregate(mine)
    return estimates


def _listed(text: str) -> list[str]:
    parsed = sqlglot.parse_one(f"SELECT {text}", dialect="spark")
    return [e.sql(dialect="spark") for e in parsed.expressions]


def _aggregate(
    population: Population, what: str, confidence: float
) -> Callable[[Any], SampleEstimate]:
    """The estimator of an aggregate's text: a function of a mask of rows."""
    call = population.scalar(what).expr
    match call:
        case exp.Count(this=exp.Star()):
            return lambda mask: _count(population, mask, confidence)
        case exp.Count(this=inner) if not isinstance(inner, exp.Distinct):
            _, valid = population.numbers(Scalar(inner))
            return lambda mask: _count(population, mask & valid, confidence)
        case exp.Sum(this=inner) | exp.Avg(this=inner) if not isinstance(inner, exp.Distinct):
            numbers, valid = population.numbers(Scalar(inner))
            estimator = _sum if isinstance(call, exp.Sum) else _average
            span = population.span(Scalar(inner))
            return lambda mask: estimator(population, numbers, mask & valid, confidence, span)
        case exp.Median(this=inner):
            numbers, valid = population.numbers(Scalar(inner))
            return lambda mask: _quantile(population, numbers[mask & valid], 0.5, confidence)
        case exp.Quantile() | exp.ApproxQuantile():
            numbers, valid = population.numbers(Scalar(call.this))
            share = call.args.get("expression") or call.args.get("quantile")
            at = float(share.sql()) if share is not None else 0.5
            if not 0 <= at <= 1:
                raise Invalid(
                    f"the quantile {at:g}", hint="it is between 0 and 1", reason="BAD_VALUE"
                )
            return lambda mask: _quantile(population, numbers[mask & valid], at, confidence)
        case _:
            raise Unsupported(
                f"an estimate of {what}",
                hint="count(*), count(x), sum(x), avg(x), median(x), percentile(x, 0.9)",
                reason="AGGREGATE",
            )


def _count(population: Population, mask: Any, confidence: float) -> SampleEstimate:
    """J times the share that counts."""
    n, hits = population.n, int(mask.sum())
    if population.complete:
        return SampleEstimate(float(hits), float(hits), float(hits), hits)
    if not n:
        return SampleEstimate(0.0, 0.0, float(population.size), 0, NOTHING)
    low, high = count_interval(
        n, hits, population.size, confidence, replacement=population.replacement
    )
    return SampleEstimate(population.size * (hits / n), low, high, hits)


def _sum(
    population: Population, numbers: Any, mask: Any, confidence: float, span: Span
) -> SampleEstimate:
    """J times the mean, with zero where a row does not count."""
    y, hits = np.where(mask, numbers, 0.0), int(mask.sum())
    if population.complete:
        total = float(y.sum())
        return SampleEstimate(total, total, total, hits)
    if not population.n:
        return SampleEstimate(0.0, -math.inf, math.inf, 0, NOTHING)
    mean = float(y.mean())
    below, above = mean_offsets(y - mean, population.shrink, confidence)
    reach = (min(span[0], 0.0) - mean, max(span[1], 0.0) - mean) if span else None
    return SampleEstimate(
        population.size * mean,
        population.size * (mean - below),
        population.size * (mean + above),
        hits,
        doubt(y - mean, hits, reach),
    )


def _average(
    population: Population, numbers: Any, mask: Any, confidence: float, span: Span
) -> SampleEstimate:
    """A ratio of two means: its error is that of y minus the ratio, where it counts."""
    hits = int(mask.sum())
    if not hits:
        return SampleEstimate(
            math.nan, -math.inf, math.inf, 0, "" if population.complete else NOTHING
        )
    mean = float(numbers[mask].mean())
    if population.complete:
        return SampleEstimate(mean, mean, mean, hits)
    around = numbers[mask] - mean
    below, above = mean_offsets(around, population.shrink, confidence)
    reach = (span[0] - mean, span[1] - mean) if span else None
    return SampleEstimate(mean, mean - below, mean + above, hits, doubt(around, hits, reach))


def _quantile(population: Population, numbers: Any, at: float, confidence: float) -> SampleEstimate:
    """The sample's quantile, between the order statistics that a binomial distribution gives."""
    n = len(numbers)
    if not n:
        return SampleEstimate(
            math.nan, -math.inf, math.inf, 0, "" if population.complete else NOTHING
        )
    ordered = np.sort(numbers)
    quantile = float(ordered[min(n - 1, int(at * n))])
    if population.complete:
        return SampleEstimate(quantile, quantile, quantile, n)
    low, high = ranks(n, at, population.shrink, confidence)
    return SampleEstimate(
        quantile,
        float(ordered[low]) if low >= 0 else -math.inf,
        float(ordered[high]) if high < n else math.inf,
        n,
    )


@dataclass(frozen=True)
class Histogram:
    """An equi-depth histogram: bucket i is from bounds[i] to bounds[i+1].

    With 95 percent probability every bucket has between (1 - deviance) and (1 + deviance) times its even share
    of the join's rows; a deviance of 1 or more guarantees nothing.
    """

    bounds: tuple[float, ...]
    rows: float
    deviance: float


def histogram(population: Population, what: str, buckets: int) -> Histogram:
    """An equi-depth histogram of a column over the join."""
    if buckets < 1:
        raise Invalid(
            f"a histogram of {buckets} buckets", hint="ask for one or more", reason="BAD_VALUE"
        )
    numbers, valid = population.numbers(population.scalar(what))
    ordered = np.sort(numbers[population.passing & valid])
    if len(ordered) < buckets:
        raise Invalid(
            f"a histogram of {buckets} buckets from {len(ordered)} sampled rows",
            hint="ask for fewer buckets, or keep a larger sample",
            reason="BAD_VALUE",
        )
    places = np.linspace(0, len(ordered) - 1, buckets + 1).round().astype(int)
    total = float(_count(population, population.passing & valid, 0.95).value)
    # Chaudhuri, Motwani, Narasayya 1998: r >= 4 k ln(2N/γ) / f² rows give an fN/k-deviant histogram.
    bound = math.sqrt(4 * buckets * math.log(2 * max(total, 1) / FAILS) / len(ordered))
    deviance = 0.0 if population.complete else bound
    return Histogram(tuple(float(b) for b in ordered[places]), total, deviance)


def split(rows: pa.Table, share: float, random: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    """Rows to train on and rows to test with, at random."""
    if not 0 < share < 1:
        raise Invalid(
            f"a test share of {share:g}", hint="it is between 0 and 1, as 0.2", reason="BAD_VALUE"
        )
    order = random.permutation(rows.num_rows)
    cut = round(share * rows.num_rows)
    return rows.take(pa.array(order[cut:])), rows.take(pa.array(order[:cut]))
