"""Read what an answer needs: the sampled rows on both sides, the outliers', the stale totals.

    fresh      the sample's rows, those of outlier keys replaced by the outliers' own table
    stale      the stored view's rows whose key is in the sample, or among the outliers' keys
    totals     of the whole stored view, for CORR

One key set decides about both sides. All tables are read at the versions that the call pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.hashing import hashed
from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    Kind,
    Output,
    Project,
    Rel,
    Scan,
)
from belvedere.algebra.scalars import Scalar, col, every, same
from belvedere.algebra.walks import nodes
from belvedere.estimation.linearization import Array
from belvedere.rules.sample import predicate
from belvedere.samples.answers.questions import UNIT, Question, hashed_columns
from belvedere.samples.estimators.per_key_sums import Cells, Ids, Rows, cells
from belvedere.samples.estimators.smooth import Extremes
from belvedere.samples.estimators.stale_view import (
    extremes_of,
    floats,
    placed,
    row_extremes,
    unit_extremes,
)
from belvedere.samples.estimators.totals import Total, What

Collect = Callable[[Rel], pa.Table]
"""Runs a plan and brings its rows here."""


@dataclass(frozen=True)
class Side:
    """Sampled rows of one state: group, hashed key, whether all of that key's rows are here."""

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
        """The places of a group's rows."""
        start, end = np.searchsorted(self._sorted, (group, group + 1))
        return self._order[start:end]


@dataclass(frozen=True)
class Sheet:
    """Everything read for one question; groups and hashed keys are numbered alike on all sides."""

    keys: pa.Table
    groups: int
    totals: tuple[Total, ...]
    ratio: float
    fresh: Side
    stale: Side
    stale_totals: Array
    in_stale: np.ndarray
    ends: dict[str, Array]
    whole: dict[str, Side]
    """Columns of the whole stale view, for the distribution of their values."""
    extremes: Extremes | None
    """The stale view's extremes; None where it was not read."""

    @cached_property
    def cells(self) -> Cells:
        """What each hashed key contributes to each group."""
        exact = np.unique(np.concatenate([s.unit[s.exact] for s in (self.fresh, self.stale)]))
        made = cells(self._rows(self.fresh), self._rows(self.stale), exact, self.ratio, self.groups)
        for j, total in enumerate(self.totals):
            if total.what is What.UNIT:
                for side in (made.fresh, made.stale):
                    side[:, j] = side[:, j] > 0
        return made

    @property
    def size_deviation(self) -> float:
        """The standard deviation of the number of sampled fresh rows: √(m(1−m) Σ n²), by key."""
        counts = np.bincount(self.fresh.unit[~self.fresh.exact]).astype(np.float64)
        return float(np.sqrt((1 - self.ratio) * (counts**2).sum()))

    def _rows(self, side: Side) -> Rows:
        adds = [
            t.adds(side.values.get(f"t{j}", np.zeros(len(side.unit))))
            for j, t in enumerate(self.totals)
        ]
        return Rows(
            side.group, side.unit, np.stack(adds, axis=1) if adds else np.zeros((len(side.unit), 0))
        )


def read(
    question: Question,
    totals: Sequence[Total],
    ranks: Sequence[Agg],
    ends: Sequence[Agg],
    collect: Collect,
    *,
    stale: bool = True,
    extremes: bool = True,
) -> Sheet:
    """Read a question's rows; `ranks` and `ends` are its quantiles, and its minima and maxima.

    Without `stale` no row of the stale view is read, as AQP need not; its extremes, which are one
    row for each group, are read where `extremes` asks for them.
    """
    wanted = _wanted(totals, (*ranks, *ends))
    columns = [_column(question, a) for a in ranks]
    sampled = [_sample(question), _stale_sample(question), *_outliers(question)]
    plans = [*(_rows(question, of, wanted) for of in sampled), _whole(question, totals, ends)]
    apart = _are_extremes_apart(question)
    plans += [_extremes(question, totals)] * apart + columns
    asked = set(range(len(plans))) if stale else {0, 2} & set(range(len(sampled)))
    asked |= {len(sampled) + apart} if extremes else set()
    found = _collected(plans, collect, asked)
    return _sheet(question, totals, ranks, ends, list(wanted), found, known=extremes)


def _collected(plans: list[Rel], collect: Collect, asked: set[int]) -> list[pa.Table]:
    """The rows of each plan that is asked, none of the others."""
    found = {i: collect(plan) for i, plan in enumerate(plans) if i in asked}
    first = found[0].slice(0, 0)

    def none(plan: Rel) -> pa.Table:
        number = pa.chunked_array([], pa.float64())
        return pa.table({n: first[n] if n in first.column_names else number for n in plan.columns})

    return [found[i] if i in found else none(plan) for i, plan in enumerate(plans)]


def _sheet(
    question: Question,
    totals: Sequence[Total],
    ranks: Sequence[Agg],
    ends: Sequence[Agg],
    wanted: list[str],
    tables: list[pa.Table],
    *,
    known: bool,
) -> Sheet:
    """Rows of all sides, with their groups and hashed keys as numbers."""
    count = 2 if question.outliers is None else 4
    apart = _are_extremes_apart(question)
    sampled, whole, columns = tables[:count], tables[count], tables[count + 1 + apart :]
    places = numbered(tables, [f"g{i}" for i in range(len(_keys(question)))])
    fresh, stale = _sides(sampled, places.of, wanted)
    at, rest = places.of[count], places.of[count + 1 + apart :]
    return Sheet(
        places.keys.rename_columns(list(_keys(question))),
        places.count,
        tuple(totals),
        question.sampling.ratio,
        fresh,
        stale,
        placed(whole, [f"s{j}" for j in range(len(totals))], at, places.count, 0.0),
        np.isin(np.arange(places.count), at),
        {a.name: placed(whole, [a.name], at, places.count, np.nan)[:, 0] for a in ends},
        {
            a.name: _side(
                t.rename_columns([*t.column_names[:-1], a.name]), g, g, [a.name], exact=True
            )
            for a, g, t in zip(ranks, rest, columns, strict=True)
        },
        _known_extremes(
            question, totals, tables[count + apart], places.of[count + apart], places.count
        )
        if known
        else None,
    )


def _known_extremes(
    question: Question, totals: Sequence[Total], table: pa.Table, at: Ids, groups: int
) -> Extremes:
    return extremes_of(totals, table, at, groups, clusters=has_clusters(question))


def _wanted(totals: Sequence[Total], others: Sequence[Agg]) -> dict[str, Scalar]:
    """What is read of each sampled row, by name."""
    own = {f"t{j}": t.argument for j, t in enumerate(totals) if t.what is not What.UNIT}
    values = {name: value for name, value in own.items() if value is not None}
    return {**values, **{a.name: _number(a.args[0]) for a in others}}


def _keys(question: Question) -> tuple[str, ...]:
    return question.aggregate.keys if question.aggregate is not None else ()


def _rows(question: Question, of: Rel, wanted: Mapping[str, Scalar]) -> Rel:
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(_keys(question))]
    outputs += [Output(name, value) for name, value in wanted.items()]
    return Project(question.rows(of), (*outputs, Output(UNIT, col(UNIT))))


def _sides(tables: list[pa.Table], places: list[Ids], names: list[str]) -> list[Side]:
    """Fresh and stale rows; those of outlier keys come from the outliers' own reads."""
    units = _encoded([t[UNIT] for t in tables])
    always = np.unique(np.concatenate(units[2:])) if len(tables) > 2 else np.zeros(0, np.int64)
    sides = []
    for i in (0, 1):
        side = _without(_side(tables[i], places[i], units[i], names, exact=False), always)
        if len(tables) > 2:
            out = _side(tables[2 + i], places[2 + i], units[2 + i], names, exact=True)
            side = _joined(side, out)
        sides.append(side)
    return sides


def _number(value: Scalar) -> Scalar:
    argument = Total(What.VALUE, value).argument
    assert argument is not None
    return argument


def unit(question: Question) -> tuple[tuple[Field, ...], Scalar]:
    """The stored columns that are hashed, under names of their own, and their digest."""
    sampling, types = question.sampling, question.view.definition.types
    fields = tuple(
        Field(f"__h{i}", source, types[k])
        for i, (k, source) in enumerate(zip(sampling.key, hashed_columns(question), strict=True))
    )
    return fields, hashed([f.name for f in fields], sampling.seed, {f.name: f.type for f in fields})


def _with_unit(question: Question, below: Rel) -> Rel:
    _, digest = unit(question)
    return Project(
        below, (*(Output(c, col(c)) for c in question.scan.columns), Output(UNIT, digest))
    )


def _scan(question: Question, table: str) -> Scan:
    fields, _ = unit(question)
    return Scan(table, (*question.scan.fields, *fields))


def _sample(question: Question) -> Rel:
    return _with_unit(question, _scan(question, question.sample.stored))


def _stale_sample(question: Question) -> Rel:
    fields, _ = unit(question)
    names = tuple(f.name for f in fields)
    kept = predicate(names, question.sampling.hash, {f.name: f.type for f in fields})
    return _with_unit(question, Filter(_scan(question, question.view.stored), kept))


def _outliers(question: Question) -> list[Rel]:
    """The rows of outlier keys, fresh and stale."""
    if question.outliers is None:
        return []
    table = question.outliers.stored
    stale = _of_outliers(question, Kind.SEMI)
    return [_with_unit(question, below) for below in (_scan(question, table), stale)]


def _of_outliers(question: Question, kind: Kind) -> Rel:
    """The stale rows whose key is among the outliers', or is not."""
    assert question.outliers is not None
    fields, _ = unit(question)
    others = tuple(Field(f"__k{i}", f.source, f.type) for i, f in enumerate(fields))
    on = every(same(col(f.name), col(o.name)) for f, o in zip(fields, others, strict=True))
    keys = Distinct(Scan(question.outliers.stored, others))
    return Join(_scan(question, question.view.stored), keys, kind, on)


def rows_of(question: Question, which: str) -> Rel:
    """Rows of the view with their hashed keys: fresh or stale, sampled, outliers' or all."""
    match which:
        case "sample":
            return _sample(question)
        case "stale sample":
            return _stale_sample(question)
        case "stale":
            return _with_unit(question, _scan(question, question.view.stored))
        case _:
            fresh, stale = _outliers(question)
            return fresh if which == "outliers" else stale


def _whole(question: Question, totals: Sequence[Total], ends: Sequence[Agg]) -> Rel:
    """The totals of the whole stale view, by group."""
    aggs = [t.aggregate(f"s{j}") for j, t in enumerate(totals)]
    aggs += [Agg(a.name, a.function, (_number(a.args[0]),)) for a in ends]
    if not _are_extremes_apart(question):
        aggs += [Agg("__rows", "count"), *row_extremes(totals)]
    below = question.rows(_with_unit(question, _scan(question, question.view.stored)))
    grouped = Aggregate(below, _keys(question), tuple(aggs))
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(_keys(question))]
    return Project(grouped, (*outputs, *(Output(a.name, col(a.name)) for a in aggs)))


def _extremes(question: Question, totals: Sequence[Total]) -> Rel:
    """The extremes of the stale rows that may be sampled, and of their hashed keys if these have many.

    Rows of outlier keys are all known: nothing of them can be missed.
    """
    keys, below = _keys(question), question.rows(_with_unit(question, _may_be_sampled(question)))
    aggs = tuple(row_extremes(totals))
    if has_clusters(question):
        parts = [t.aggregate(f"s{j}") for j, t in enumerate(totals) if t.what is not What.UNIT]
        below = Aggregate(below, (*keys, UNIT), (*aggs, *parts))
        aggs = tuple(Agg(a.name, a.function, (col(a.name),)) for a in aggs)
        aggs += unit_extremes(parts)
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(keys)]
    some = Agg("__rows", "count")
    grouped = Aggregate(below, keys, (some, *aggs))
    return Project(grouped, (*outputs, *(Output(a.name, col(a.name)) for a in (some, *aggs))))


def _may_be_sampled(question: Question) -> Rel:
    stale = _scan(question, question.view.stored)
    return stale if question.outliers is None else _of_outliers(question, Kind.ANTI)


def _are_extremes_apart(question: Question) -> bool:
    """Whether extremes are of other rows than totals, or of sums by hashed key."""
    return question.outliers is not None or has_clusters(question)


def has_clusters(question: Question) -> bool:
    """Whether one hashed key may stand for several rows."""
    joined = any(isinstance(n, Join) for n in nodes(question.below))
    return joined or not question.sampling.unique


def _column(question: Question, a: Agg) -> Rel:
    """One column of the whole stale view, for the distribution of its values."""
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(_keys(question))]
    return Project(question.below, (*outputs, Output("v", _number(a.args[0]))))


@dataclass(frozen=True)
class Places:
    """The distinct groups of several tables, and each row's number among them."""

    keys: pa.Table
    count: int
    of: list[Ids]


def numbered(tables: list[pa.Table], names: list[str]) -> Places:
    """The distinct groups of several tables, and each row's number among them."""
    lengths = [t.num_rows for t in tables]
    if not names:
        none = [np.zeros(n, np.int64) for n in lengths]
        return Places(pa.table({}), 1, none)
    columns = {
        n: pa.chunked_array([c for t in tables for c in t[n].chunks], tables[0][n].type)
        for n in names
    }
    code = np.zeros(sum(lengths), np.int64)
    for column in columns.values():
        values = column.combine_chunks().dictionary_encode()
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        own = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        code = np.unique(code * (own.max(initial=0) + 1) + own, return_inverse=True)[1]
    _, first = np.unique(code, return_index=True)
    keys = pa.table({n: c.take(pa.array(first)) for n, c in columns.items()})
    ends = np.cumsum(lengths)[:-1]
    return Places(keys, len(first), np.split(code, ends))


def _encoded(columns: list[pa.ChunkedArray]) -> list[Ids]:
    """Digests as numbers, the same on all sides."""
    everything = pa.chunked_array([c for column in columns for c in column.chunks], pa.string())
    coded = everything.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    ends = np.cumsum([len(c) for c in columns])[:-1]
    return np.split(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), ends)


def _side(table: pa.Table, group: Ids, units: Ids, names: list[str], *, exact: bool) -> Side:
    values = {n: floats(table[n]) for n in names}
    return Side(group, units, np.full(len(units), exact), values)


def _without(side: Side, gone: Ids) -> Side:
    keep = ~np.isin(side.unit, gone)
    values = {n: v[keep] for n, v in side.values.items()}
    return Side(side.group[keep], side.unit[keep], side.exact[keep], values)


def _joined(a: Side, b: Side) -> Side:
    values = {n: np.concatenate([a.values[n], b.values[n]]) for n in a.values}
    group, unit, exact = (
        np.concatenate([getattr(s, part) for s in (a, b)]) for part in ("group", "unit", "exact")
    )
    return Side(group, unit, exact, values)
