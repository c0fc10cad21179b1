"""The plans of what an answer reads: sampled rows of both states, outlier rows, stale totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belvedere.algebra.hashing import hashed
from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Rel,
    Scan,
)
from belvedere.algebra.scalars import Scalar, col, every, same
from belvedere.algebra.walks import nodes
from belvedere.rules.sample import predicate
from belvedere.samples.answers.questions import UNIT, Question, hashed_columns
from belvedere.samples.estimators.stale_view import row_extremes, unit_extremes
from belvedere.samples.estimators.totals import Contribution, Total


def hashed_key(question: Question) -> tuple[tuple[Field, ...], Scalar]:
    """The stored columns that are hashed, under names of their own, and their digest."""
    sampling, types = question.sampling, question.view.definition.types
    fields = tuple(
        Field(f"__h{i}", source, types[k])
        for i, (k, source) in enumerate(zip(sampling.key, hashed_columns(question), strict=True))
    )
    return fields, hashed([f.name for f in fields], sampling.seed, {f.name: f.type for f in fields})


def _with_hashed_key(question: Question, below: Rel) -> Rel:
    _, digest = hashed_key(question)
    return Project(
        below, (*(Output(c, col(c)) for c in question.scan.columns), Output(UNIT, digest))
    )


def _scan(question: Question, table: str) -> Scan:
    fields, _ = hashed_key(question)
    return Scan(table, (*question.scan.fields, *fields))


def sample_plan(question: Question) -> Rel:
    return _with_hashed_key(question, _scan(question, question.sample.stored))


def stale_sample_plan(question: Question) -> Rel:
    fields, _ = hashed_key(question)
    names = tuple(f.name for f in fields)
    is_sampled = predicate(names, question.sampling.hash, {f.name: f.type for f in fields})
    return _with_hashed_key(question, Filter(_scan(question, question.view.stored), is_sampled))


def outlier_plans(question: Question) -> list[Rel]:
    """The rows of outlier keys, fresh and stale."""
    if question.outliers is None:
        return []
    table = question.outliers.stored
    stale = _join_outlier_keys(question, JoinKind.SEMI)
    return [_with_hashed_key(question, below) for below in (_scan(question, table), stale)]


def _join_outlier_keys(question: Question, kind: JoinKind) -> Rel:
    """The stale rows whose key is among the outliers', or is not."""
    assert question.outliers is not None
    fields, _ = hashed_key(question)
    others = tuple(Field(f"__k{i}", f.source, f.type) for i, f in enumerate(fields))
    on = every(same(col(f.name), col(o.name)) for f, o in zip(fields, others, strict=True))
    keys = Distinct(Scan(question.outliers.stored, others))
    return Join(_scan(question, question.view.stored), keys, kind, on)


def rows_of(question: Question, which: str) -> Rel:
    """The rows of the view of one kind (sample, stale sample, stale, outliers), with hashed keys."""
    match which:
        case "sample":
            return sample_plan(question)
        case "stale sample":
            return stale_sample_plan(question)
        case "stale":
            return _with_hashed_key(question, _scan(question, question.view.stored))
        case _:
            fresh, stale = outlier_plans(question)
            return fresh if which == "outliers" else stale


def group_keys(question: Question) -> tuple[str, ...]:
    return question.aggregate.keys if question.aggregate is not None else ()


def sampled_rows(question: Question, of: Rel, wanted: Mapping[str, Scalar]) -> Rel:
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(group_keys(question))]
    outputs += [Output(name, value) for name, value in wanted.items()]
    return Project(question.rows(of), (*outputs, Output(UNIT, col(UNIT))))


def row_values(totals: Sequence[Total], others: Sequence[Agg]) -> dict[str, Scalar]:
    """The values that are read of each sampled row, by name."""
    own = {f"t{j}": t.argument for j, t in enumerate(totals) if t.what is not Contribution.UNIT}
    values = {name: value for name, value in own.items() if value is not None}
    return {**values, **{a.name: _number(a.args[0]) for a in others}}


def _number(value: Scalar) -> Scalar:
    argument = Total(Contribution.VALUE, value).argument
    assert argument is not None
    return argument


def stale_totals(question: Question, totals: Sequence[Total], ends: Sequence[Agg]) -> Rel:
    """The totals of the whole stale view, by group."""
    aggs = [t.aggregate(f"s{j}") for j, t in enumerate(totals)]
    aggs += [Agg(a.name, a.function, (_number(a.args[0]),)) for a in ends]
    if not are_extremes_apart(question):
        aggs += [Agg("__rows", "count"), *row_extremes(totals)]
    below = question.rows(_with_hashed_key(question, _scan(question, question.view.stored)))
    grouped = Aggregate(below, group_keys(question), tuple(aggs))
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(group_keys(question))]
    return Project(grouped, (*outputs, *(Output(a.name, col(a.name)) for a in aggs)))


def extremes_plan(question: Question, totals: Sequence[Total]) -> Rel:
    """The extremes of the stale rows that may be sampled, and of hashed keys with several rows.

    Rows of outlier keys are left out: they are always read, so that no sample can miss them.
    """
    keys, below = (
        group_keys(question),
        question.rows(_with_hashed_key(question, _may_be_sampled(question))),
    )
    aggs = tuple(row_extremes(totals))
    if has_clusters(question):
        parts = [
            t.aggregate(f"s{j}") for j, t in enumerate(totals) if t.what is not Contribution.UNIT
        ]
        below = Aggregate(below, (*keys, UNIT), (*aggs, *parts))
        aggs = tuple(Agg(a.name, a.function, (col(a.name),)) for a in aggs)
        aggs += unit_extremes(parts)
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(keys)]
    count = Agg("__rows", "count")
    grouped = Aggregate(below, keys, (count, *aggs))
    return Project(grouped, (*outputs, *(Output(a.name, col(a.name)) for a in (count, *aggs))))


def _may_be_sampled(question: Question) -> Rel:
    stale = _scan(question, question.view.stored)
    return stale if question.outliers is None else _join_outlier_keys(question, JoinKind.ANTI)


def are_extremes_apart(question: Question) -> bool:
    """Whether extremes need a plan of their own: of other rows than totals, or of sums per key."""
    return question.outliers is not None or has_clusters(question)


def has_clusters(question: Question) -> bool:
    """Whether one hashed key may stand for several rows."""
    joined = any(isinstance(n, Join) for n in nodes(question.below))
    return joined or not question.sampling.unique


def stale_column(question: Question, a: Agg) -> Rel:
    """The column of a quantile in the whole stale view."""
    outputs = [Output(f"g{i}", col(k)) for i, k in enumerate(group_keys(question))]
    return Project(question.below, (*outputs, Output("v", _number(a.args[0]))))
