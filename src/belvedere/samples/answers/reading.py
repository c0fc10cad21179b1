"""Read what an answer needs: the sampled rows of both states, the outlier rows, the stale totals.

    fresh      the sample's rows, those of outlier keys replaced by the outliers' own table
    stale      the stored view's rows whose key is in the sample, or among the outliers' keys
    totals     of the whole stored view, for CORR

One key set decides about both sides. All tables are read at the versions that the call pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import (
    Agg,
    Rel,
)
from belvedere.estimation.linearization import Array
from belvedere.samples.answers.plans import (
    are_extremes_apart,
    extremes_plan,
    group_keys,
    has_clusters,
    outlier_plans,
    row_values,
    sample_plan,
    sampled_rows,
    stale_column,
    stale_sample_plan,
    stale_totals,
)
from belvedere.samples.answers.questions import UNIT, Question
from belvedere.samples.estimators.per_key_sums import Ids, KeySums, RowContributions, sum_per_key
from belvedere.samples.estimators.smooth import StaleExtremes
from belvedere.samples.estimators.stale_view import (
    extremes_of,
    floats,
    in_group_order,
)
from belvedere.samples.estimators.totals import Contribution, Total

Collect = Callable[[Rel], pa.Table]
"""Runs a plan and returns its rows."""


@dataclass(frozen=True)
class SampledState:
    """Sampled rows of one state, fresh or stale: group, hashed key, whether the key is an outlier's.

    All rows of an outlier key are known, so that they add no error (`exact`).
    """

    group: Ids
    unit: Ids
    exact: np.ndarray
    values: dict[str, Array]

    @cached_property
    def _order(self) -> Ids:
        return np.argsort(self.group, kind="stable")

    @cached_property
    def _sorted(self) -> Ids:
        return self.group[self._order]

    def rows(self, group: int) -> Ids:
        """The positions of the rows of a group."""
        start, end = np.searchsorted(self._sorted, (group, group + 1))
        return self._order[start:end]


@dataclass(frozen=True)
class QuestionData:
    """Everything read for one question; groups and hashed keys have the same numbers in both states."""

    keys: pa.Table
    groups: int
    totals: tuple[Total, ...]
    ratio: float
    fresh: SampledState
    stale: SampledState
    stale_totals: Array
    in_stale: np.ndarray
    extrema: dict[str, Array]
    stale_columns: dict[str, SampledState]
    """Per quantile its column of the whole stale view."""
    extremes: StaleExtremes | None
    """The largest contributions of the stale view; None if they were not read."""

    @cached_property
    def cells(self) -> KeySums:
        """What each hashed key contributes to each group."""
        exact = np.unique(np.concatenate([s.unit[s.exact] for s in (self.fresh, self.stale)]))
        sums = sum_per_key(
            self._rows(self.fresh), self._rows(self.stale), exact, self.ratio, self.groups
        )
        for j, total in enumerate(self.totals):
            if total.what is Contribution.UNIT:
                for state in (sums.fresh, sums.stale):
                    state[:, j] = state[:, j] > 0
        return sums

    @property
    def size_deviation(self) -> float:
        """The standard deviation of the number of sampled fresh rows: √(m(1−m) Σ n²) over hashed keys."""
        counts = np.bincount(self.fresh.unit[~self.fresh.exact]).astype(np.float64)
        return float(np.sqrt((1 - self.ratio) * (counts**2).sum()))

    def _rows(self, state: SampledState) -> RowContributions:
        adds = [
            t.adds(state.values.get(f"t{j}", np.zeros(len(state.unit))))
            for j, t in enumerate(self.totals)
        ]
        return RowContributions(
            state.group,
            state.unit,
            np.stack(adds, axis=1) if adds else np.zeros((len(state.unit), 0)),
        )


def read_data(
    question: Question,
    totals: Sequence[Total],
    quantiles: Sequence[Agg],
    extrema: Sequence[Agg],
    collect: Collect,
    *,
    stale: bool = True,
    extremes: bool = True,
) -> QuestionData:
    """Read a question's rows; `quantiles` and `extrema` are its aggregates of these kinds.

    Without `stale` no row of the stale view is read: AQP needs none. Its extremes, one row for each
    group, are read if `extremes` is true.
    """
    values = row_values(totals, (*quantiles, *extrema))
    columns = [stale_column(question, a) for a in quantiles]
    sampled = [sample_plan(question), stale_sample_plan(question), *outlier_plans(question)]
    plans = [
        *(sampled_rows(question, of, values) for of in sampled),
        stale_totals(question, totals, extrema),
    ]
    apart = are_extremes_apart(question)
    plans += [extremes_plan(question, totals)] * apart + columns
    needed = set(range(len(plans))) if stale else {0, 2} & set(range(len(sampled)))
    needed |= {len(sampled) + apart} if extremes else set()
    results = _collect_some(plans, collect, needed)
    return _assemble(
        question, totals, quantiles, extrema, list(values), results, has_extremes=extremes
    )


def _collect_some(plans: list[Rel], collect: Collect, needed: set[int]) -> list[pa.Table]:
    """The rows of the needed plans; no rows for the others, which are not run."""
    results = {i: collect(plan) for i, plan in enumerate(plans) if i in needed}
    first = results[0].slice(0, 0)

    def none(plan: Rel) -> pa.Table:
        number = pa.chunked_array([], pa.float64())
        return pa.table({n: first[n] if n in first.column_names else number for n in plan.columns})

    return [results[i] if i in results else none(plan) for i, plan in enumerate(plans)]


def _assemble(
    question: Question,
    totals: Sequence[Total],
    quantiles: Sequence[Agg],
    extrema: Sequence[Agg],
    values: list[str],
    tables: list[pa.Table],
    *,
    has_extremes: bool,
) -> QuestionData:
    """The rows of both states, with groups and hashed keys as numbers."""
    count = 2 if question.outliers is None else 4
    apart = are_extremes_apart(question)
    sampled, whole, columns = tables[:count], tables[count], tables[count + 1 + apart :]
    numbered = number_groups(tables, [f"g{i}" for i in range(len(group_keys(question)))])
    fresh, stale = _sampled_states(sampled, numbered.numbers, values)
    stale_groups, column_groups = numbered.numbers[count], numbered.numbers[count + 1 + apart :]
    return QuestionData(
        numbered.keys.rename_columns(list(group_keys(question))),
        numbered.count,
        tuple(totals),
        question.sampling.ratio,
        fresh,
        stale,
        in_group_order(
            whole, [f"s{j}" for j in range(len(totals))], stale_groups, numbered.count, 0.0
        ),
        np.isin(np.arange(numbered.count), stale_groups),
        {
            a.name: in_group_order(whole, [a.name], stale_groups, numbered.count, np.nan)[:, 0]
            for a in extrema
        },
        {
            a.name: _state(
                t.rename_columns([*t.column_names[:-1], a.name]), g, g, [a.name], exact=True
            )
            for a, g, t in zip(quantiles, column_groups, columns, strict=True)
        },
        _stale_extremes(
            question, totals, tables[count + apart], numbered.numbers[count + apart], numbered.count
        )
        if has_extremes
        else None,
    )


def _stale_extremes(
    question: Question, totals: Sequence[Total], table: pa.Table, numbers: Ids, groups: int
) -> StaleExtremes:
    return extremes_of(totals, table, numbers, groups, clusters=has_clusters(question))


def _sampled_states(
    tables: list[pa.Table], numbered: list[Ids], names: list[str]
) -> list[SampledState]:
    """Fresh and stale rows; rows of outlier keys come from the outliers' table."""
    units = _encode_digests([t[UNIT] for t in tables])
    outlier_keys = (
        np.unique(np.concatenate(units[2:])) if len(tables) > 2 else np.zeros(0, np.int64)
    )
    states = []
    for i in (0, 1):
        state = _without_keys(
            _state(tables[i], numbered[i], units[i], names, exact=False), outlier_keys
        )
        if len(tables) > 2:
            out = _state(tables[2 + i], numbered[2 + i], units[2 + i], names, exact=True)
            state = _concatenated(state, out)
        states.append(state)
    return states


@dataclass(frozen=True)
class NumberedGroups:
    """The distinct groups of several tables, and each row's number among them."""

    keys: pa.Table
    count: int
    numbers: list[Ids]


def number_groups(tables: list[pa.Table], names: list[str]) -> NumberedGroups:
    """The distinct groups of several tables, and each row's number among them."""
    lengths = [t.num_rows for t in tables]
    if not names:
        none = [np.zeros(n, np.int64) for n in lengths]
        return NumberedGroups(pa.table({}), 1, none)
    columns = {
        n: pa.chunked_array([c for t in tables for c in t[n].chunks], tables[0][n].type)
        for n in names
    }
    code = np.zeros(sum(lengths), np.int64)
    for column in columns.values():
        values = column.combine_chunks().dictionary_encode()
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        codes = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        code = np.unique(code * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    _, first = np.unique(code, return_index=True)
    keys = pa.table({n: c.take(pa.array(first)) for n, c in columns.items()})
    ends = np.cumsum(lengths)[:-1]
    return NumberedGroups(keys, len(first), np.split(code, ends))


def _encode_digests(columns: list[pa.ChunkedArray]) -> list[Ids]:
    """Digests as numbers; equal digests have equal numbers in all columns."""
    everything = pa.chunked_array([c for column in columns for c in column.chunks], pa.string())
    coded = everything.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    ends = np.cumsum([len(c) for c in columns])[:-1]
    return np.split(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), ends)


def _state(
    table: pa.Table, group: Ids, units: Ids, names: list[str], *, exact: bool
) -> SampledState:
    values = {n: floats(table[n]) for n in names}
    return SampledState(group, units, np.full(len(units), exact), values)


def _without_keys(state: SampledState, gone: Ids) -> SampledState:
    keep = ~np.isin(state.unit, gone)
    values = {n: v[keep] for n, v in state.values.items()}
    return SampledState(state.group[keep], state.unit[keep], state.exact[keep], values)


def _concatenated(a: SampledState, b: SampledState) -> SampledState:
    values = {n: np.concatenate([a.values[n], b.values[n]]) for n in a.values}
    group, unit, exact = (
        np.concatenate([getattr(s, part) for s in (a, b)]) for part in ("group", "unit", "exact")
    )
    return SampledState(group, unit, exact, values)
