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
from belvedere.cleaning.cells import Cells, Ids, Rows, cells
from belvedere.cleaning.duals import Array
from belvedere.cleaning.questions import UNIT, Question, hashed_columns
from belvedere.cleaning.totals import Total, What
from belvedere.rules.sample import predicate

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
) -> Sheet:
    """Read a question's rows; `ranks` and `ends` are its quantiles, and its minima and maxima.

    Without `stale` the stale view is not read, as AQP need not.
    """
    wanted = _wanted(totals, (*ranks, *ends))
    whole, columns = _whole(question, totals, ends), [_column(question, a) for a in ranks]
    sampled = [_sample(question), _stale_sample(question), *_outliers(question)]
    plans = [*(_rows(question, of, wanted) for of in sampled), whole, *columns]
    return _sheet(
        question,
        totals,
        ranks,
        ends,
        list(wanted),
        _collected(plans, collect, len(sampled), stale=stale),
    )


def _collected(plans: list[Rel], collect: Collect, sampled: int, *, stale: bool) -> list[pa.Table]:
    """The rows of each plan; of those over the stale view none, if it is not asked."""
    fresh = {0, 2} & set(range(sampled))
    found = {i: collect(plan) for i, plan in enumerate(plans) if stale or i in fresh}
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
) -> Sheet:
    """Rows of all sides, with their groups and hashed keys as numbers."""
    count = 2 if question.outliers is None else 4
    sampled, whole, columns = tables[:count], tables[count], tables[count + 1 :]
    places = numbered(tables, [f"g{i}" for i in range(len(_keys(question)))])
    fresh, stale = _sides(sampled, places.of, wanted)
    at, *rest = places.of[len(sampled) :]
    return Sheet(
        places.keys.rename_columns(list(_keys(question))),
        places.count,
        tuple(totals),
        question.sampling.ratio,
        fresh,
        stale,
        _placed(whole, [f"s{j}" for j in range(len(totals))], at, places.count, 0.0),
        np.isin(np.arange(places.count), at),
        {a.name: _placed(whole, [a.name], at, places.count, np.nan)[:, 0] for a in ends},
        {
            a.name: _side(
                t.rename_columns([*t.column_names[:-1], a.name]), g, g, [a.name], exact=True
            )
            for a, g, t in zip(ranks, rest, columns, strict=True)
        },
    )


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


def _placed(table: pa.Table, names: list[str], at: Ids, groups: int, none: float) -> Array:
    """Columns of a table of groups, in the order of all groups."""
    found = np.full((groups, len(names)), none)
    for j, name in enumerate(names):
        values = _floats(table[name])
        found[at, j] = values if np.isnan(none) else np.nan_to_num(values)
    return found


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
    fields, _ = unit(question)
    table = question.outliers.stored
    others = tuple(Field(f"__k{i}", f.source, f.type) for i, f in enumerate(fields))
    on = every(same(col(f.name), col(o.name)) for f, o in zip(fields, others, strict=True))
    stale = Join(
        _scan(question, question.view.stored), Distinct(Scan(table, others)), Kind.SEMI, on
    )
    return [_with_unit(question, below) for below in (_scan(question, table), stale)]


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
    below = question.rows(_with_unit(question, _scan(question, question.view.stored)))
    grouped = Aggregate(below, _keys(question), tuple(aggs))
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(_keys(question))]
    return Project(grouped, (*outputs, *(Output(a.name, col(a.name)) for a in aggs)))


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


def _floats(column: pa.ChunkedArray) -> Array:
    """Numbers, NaN for NULL."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)


def _side(table: pa.Table, group: Ids, units: Ids, names: list[str], *, exact: bool) -> Side:
    values = {n: _floats(table[n]) for n in names}
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
