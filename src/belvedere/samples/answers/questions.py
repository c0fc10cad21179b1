"""A question: a query on one sampled view, taken apart into its aggregate and the rows below it.

The query is bound like any other, with the view standing for its stored rows. Between the scan
of these and the aggregate there may be filters, projections and joins with other tables: each
row of the view then stands for the rows it leads to, so that what a hashed key contributes is
still a sum. Anything that mixes rows of different keys below the aggregate is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Negate,
    Net,
    Output,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    TopK,
    Union,
    Unsigned,
    Window,
)
from belvedere.algebra.scalars import Scalar, col
from belvedere.algebra.walks import nodes
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import ReadableLake
from belvedere.samples.create import no_sample, samples_of
from belvedere.sql.binder.bind import Bound, bind
from belvedere.views.catalog import Names, all_views, as_not_read
from belvedere.views.definition import View
from belvedere.views.sampling import Sampling
from belvedere.views.state import physical

UNIT = "__u"


@dataclass(frozen=True)
class Question:
    """A query over a sampled view, taken apart."""

    text: str
    bound: Bound
    view: View
    sample: View
    outliers: View | None
    scan: Scan
    above: tuple[Filter | Project | TopK, ...]
    """The operators above the aggregate, outermost first; none without an aggregate."""
    aggregate: Aggregate | None
    below: Rel

    @property
    def sampling(self) -> Sampling:
        """How the view is sampled."""
        sampling = self.sample.definition.sampling
        assert sampling is not None
        return sampling

    def rows(self, of: Rel) -> Rel:
        """The plan below the aggregate over other rows of the view, which have a column UNIT."""
        return _replace_scan(self.below, self.scan, of)

    @property
    def outputs(self) -> dict[str, Scalar]:
        """Each column of the SELECT, as an expression over aggregates and grouping columns."""
        values = {c: col(c) for c in (self.aggregate or self.below).columns}
        for node in reversed(self.above):
            if isinstance(node, Project):
                values = {o.name: o.value.substitute(values) for o in node.outputs}
        return {name: values[plan] for name, plan in self.bound.columns}

    @property
    def having(self) -> tuple[Scalar, ...]:
        """The conditions on groups, as expressions over aggregates."""
        conditions = []
        values = {c: col(c) for c in (self.aggregate or self.below).columns}
        for node in reversed(self.above):
            if isinstance(node, Project):
                values = {o.name: o.value.substitute(values) for o in node.outputs}
            elif isinstance(node, Filter):
                conditions.append(node.predicate.substitute(values))
        return tuple(conditions)


def parse_question(lake: ReadableLake, text: str) -> Question:
    """The question of a query; Unsupported where its answer cannot be estimated."""
    with as_not_read(lake, text):
        bound = bind(text, Names(lake))
    view, scan, samples = _sampled_view(lake, bound)
    chain: list[Filter | Project | TopK] = []
    node = bound.plan
    while isinstance(node, Filter | Project | TopK):
        chain.append(node)
        node = node.child
    outliers = samples[1] if len(samples) > 1 else None
    question = Question(
        text, bound, view, samples[0], outliers, scan, tuple(chain), None, bound.plan
    )
    if isinstance(node, Aggregate):
        question = replace(question, aggregate=node, below=node.child)
        for a in node.aggregates:
            _refuse_unknown(a, question)
    else:
        question = replace(question, above=())
    question.rows(_with_units(scan))  # raises if rows of different keys are mixed
    return question


SMOOTH = frozenset(
    (
        "sum",
        "count",
        "avg",
        "mean",
        "var_samp",
        "variance",
        "var_pop",
        "stddev",
        "stddev_samp",
        "stddev_pop",
        "std",
    )
)
QUANTILES = frozenset(
    (
        "median",
        "percentile",
        "percentile_cont",
        "percentile_disc",
        "percentile_approx",
        "approx_percentile",
    )
)
EXTREMA = frozenset(("min", "max"))


def _refuse_unknown(a: Agg, question: Question) -> None:
    if a.distinct and a.function == "count":
        _refuse_unless_hashed(a, question)
        return
    if a.distinct or a.function not in SMOOTH | QUANTILES | EXTREMA:
        raise Unsupported(
            f"an estimate of {str(a.call).replace('`', '').lower()}",
            hint="sum, count, avg, variance, stddev, median, percentile, min and max are estimated",
            reason="ESTIMATE_AGGREGATE",
        )


def _refuse_unless_hashed(a: Agg, question: Question) -> None:
    """count(DISTINCT …) scales with the sample only over the key that was hashed."""
    fields = {f.name: f.source for f in question.scan.fields}
    arguments = {arg.column for arg in a.args}
    counted = {fields.get(c or "") for c in arguments}
    hashed = set(hashed_columns(question))
    if counted != hashed:
        raise Unsupported(
            f"an estimate of {str(a.call).replace('`', '').lower()}",
            detail="values of other columns are in the sample as often as their rows are",
            hint=f"count(DISTINCT {', '.join(sorted(hashed))}) is estimated: the sample hashes these columns",
            reason="ESTIMATE_DISTINCT",
        )


def hashed_columns(question: Question) -> tuple[str, ...]:
    """The stored columns that the sample hashes."""
    names = physical(question.view.state)
    return tuple(names[k] for k in question.sampling.key)


def _sampled_view(lake: ReadableLake, bound: Bound) -> tuple[View, Scan, list[View]]:
    """The one view of the query that has a sample, and its scan."""
    scans = [n for n in nodes(bound.plan) if isinstance(n, Scan)]
    scanned = {s.table for s in scans}
    views = {v.stored: v for v in all_views(lake) if v.stored in scanned}
    sampled = [(v, samples) for v in views.values() if (samples := samples_of(lake, v.name))]
    if not views:
        raise Invalid(
            "the query reads no materialized view",
            hint="CREATE MATERIALIZED VIEW … first: estimates are of views",
            reason="NO_VIEW",
        )
    if not sampled:
        raise no_sample(next(iter(views.values())).name)
    view, samples = sampled[0]
    view_scans = [s for s in scans if s.table == view.stored]
    if len(sampled) > 1 or len(view_scans) > 1:
        raise Unsupported(
            "an estimate over two samples",
            detail="pairs of sampled rows are sampled less often than either",
            hint="create a view of the join and sample it",
            reason="ESTIMATE_TWO_SAMPLES",
        )
    return view, view_scans[0], samples


def _with_units(scan: Scan) -> Rel:
    return Project(
        scan, (*(Output(c, col(c)) for c in scan.columns), Output(UNIT, col(scan.columns[0])))
    )


def _replace_scan(q: Rel, scan: Scan, of: Rel) -> Rel:
    """The plan with `of` in place of the scan; every projection passes the column UNIT on."""
    if q is scan or q == scan:
        return of
    match q:
        case Filter():
            return replace(q, child=_replace_scan(q.child, scan, of))
        case Project():
            return Project(_replace_scan(q.child, scan, of), (*q.outputs, Output(UNIT, col(UNIT))))
        case Join() if _contains(q.left, scan) and q.kind is not JoinKind.FULL:
            return replace(q, left=_replace_scan(q.left, scan, of))
        case Join(kind=JoinKind.INNER):
            return replace(q, right=_replace_scan(q.right, scan, of))
        case Join():
            raise _mixed_rows(f"a {q.kind.value} join with the view on its right side")
        case Aggregate() | Distinct() | Window() | TopK():
            raise _mixed_rows(
                {"TopK": "LIMIT", "Aggregate": "GROUP BY"}.get(
                    type(q).__name__, type(q).__name__.upper()
                )
            )
        case Union() | Except() | Intersect():
            raise _mixed_rows(type(q).__name__.upper())
        case Scan() | Change() | Restrict() | Negate() | Net() | Support() | Unsigned() | Empty():
            raise _mixed_rows(type(q).__name__)
        case _:
            assert_never(q)


def _contains(q: Rel, scan: Scan) -> bool:
    return any(n == scan for n in nodes(q))


def _mixed_rows(what: str) -> Unsupported:
    return Unsupported(
        f"an estimate over {what} of the view's rows",
        detail="below the aggregate each row of the view must stand by itself",
        hint="aggregate the view once, or create a view of the inner query and sample that",
        reason="ESTIMATE_NESTED",
    )
