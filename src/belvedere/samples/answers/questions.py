"""A question to a view: its aggregates, and what they are asked of.

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
    Kind,
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
    """What stands over the aggregate, or of rows over everything, outermost first."""
    aggregate: Aggregate | None
    below: Rel

    @property
    def sampling(self) -> Sampling:
        """How the view is sampled."""
        found = self.sample.definition.sampling
        assert found is not None
        return found

    def rows(self, of: Rel) -> Rel:
        """What is below the aggregate, over other rows of the view: `of` has a column of units."""
        return _carry(self.below, self.scan, of)

    @property
    def outputs(self) -> dict[str, Scalar]:
        """Each column shown, over the aggregates and the group."""
        values = {c: col(c) for c in (self.aggregate or self.below).columns}
        for node in reversed(self.above):
            if isinstance(node, Project):
                values = {o.name: o.value.substitute(values) for o in node.outputs}
        return {name: values[plan] for name, plan in self.bound.columns}

    @property
    def having(self) -> tuple[Scalar, ...]:
        """The conditions on groups, over the aggregates."""
        found = []
        values = {c: col(c) for c in (self.aggregate or self.below).columns}
        for node in reversed(self.above):
            if isinstance(node, Project):
                values = {o.name: o.value.substitute(values) for o in node.outputs}
            elif isinstance(node, Filter):
                found.append(node.predicate.substitute(values))
        return tuple(found)


def ask(lake: ReadableLake, text: str) -> Question:
    """The question that a text asks; refused where its answer cannot be estimated."""
    with as_not_read(lake, text):
        bound = bind(text, Names(lake))
    view, scan, samples = _sampled(lake, bound)
    chain: list[Filter | Project | TopK] = []
    node = bound.plan
    while isinstance(node, Filter | Project | TopK):
        chain.append(node)
        node = node.child
    outliers = samples[1] if len(samples) > 1 else None
    made = Question(text, bound, view, samples[0], outliers, scan, tuple(chain), None, bound.plan)
    if isinstance(node, Aggregate):
        made = replace(made, aggregate=node, below=node.child)
        for a in node.aggregates:
            _refuse_unknown(a, made)
    else:
        made = replace(made, above=())
    made.rows(_with_units(scan))  # refuses what mixes rows
    return made


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
RANKS = frozenset(
    (
        "median",
        "percentile",
        "percentile_cont",
        "percentile_disc",
        "percentile_approx",
        "approx_percentile",
    )
)
ENDS = frozenset(("min", "max"))


def _refuse_unknown(a: Agg, question: Question) -> None:
    if a.distinct and a.function == "count":
        _refuse_unless_hashed(a, question)
        return
    if a.distinct or a.function not in SMOOTH | RANKS | ENDS:
        raise Unsupported(
            f"an estimate of {str(a.call).replace('`', '').lower()}",
            hint="sum, count, avg, variance, stddev, median, percentile, min and max are estimated",
            reason="ESTIMATE_AGGREGATE",
        )


def _refuse_unless_hashed(a: Agg, question: Question) -> None:
    """count(DISTINCT …) scales with the sample only over the key that was hashed."""
    fields = {f.name: f.source for f in question.scan.fields}
    asked = {arg.column for arg in a.args}
    own = {fields.get(c or "") for c in asked}
    wanted = set(hashed_columns(question))
    if own != wanted:
        raise Unsupported(
            f"an estimate of {str(a.call).replace('`', '').lower()}",
            detail="values of other columns are in the sample as often as their rows are",
            hint=f"count(DISTINCT {', '.join(sorted(wanted))}) is estimated: it is what is hashed",
            reason="ESTIMATE_DISTINCT",
        )


def hashed_columns(question: Question) -> tuple[str, ...]:
    """The stored columns that are hashed."""
    names = physical(question.view.state)
    return tuple(names[k] for k in question.sampling.key)


def _sampled(lake: ReadableLake, bound: Bound) -> tuple[View, Scan, list[View]]:
    """The one view of the query that has a sample, and its scan."""
    scans = [n for n in nodes(bound.plan) if isinstance(n, Scan)]
    read = {s.table for s in scans}
    views = {v.stored: v for v in all_views(lake) if v.stored in read}
    found = [(v, samples) for v in views.values() if (samples := samples_of(lake, v.name))]
    if not views:
        raise Invalid(
            "the query reads no materialized view",
            hint="estimates are of views: CREATE MATERIALIZED VIEW … first",
            reason="NO_VIEW",
        )
    if not found:
        raise no_sample(next(iter(views.values())).name)
    view, samples = found[0]
    own = [s for s in scans if s.table == view.stored]
    if len(found) > 1 or len(own) > 1:
        raise Unsupported(
            "an estimate over two samples",
            detail="pairs of sampled rows are sampled less often than either",
            hint="ask a view that joins them",
            reason="ESTIMATE_TWO_SAMPLES",
        )
    return view, own[0], samples


def _with_units(scan: Scan) -> Rel:
    return Project(
        scan, (*(Output(c, col(c)) for c in scan.columns), Output(UNIT, col(scan.columns[0])))
    )


def _carry(q: Rel, scan: Scan, of: Rel) -> Rel:
    """The plan with `of` in the scan's place, its units carried up."""
    if q is scan or q == scan:
        return of
    match q:
        case Filter():
            return replace(q, child=_carry(q.child, scan, of))
        case Project():
            return Project(_carry(q.child, scan, of), (*q.outputs, Output(UNIT, col(UNIT))))
        case Join() if _holds(q.left, scan) and q.kind is not Kind.FULL:
            return replace(q, left=_carry(q.left, scan, of))
        case Join(kind=Kind.INNER):
            return replace(q, right=_carry(q.right, scan, of))
        case Join():
            raise _mixes(f"a {q.kind.value} join with the view on its right side")
        case Aggregate() | Distinct() | Window() | TopK():
            raise _mixes(
                {"TopK": "LIMIT", "Aggregate": "GROUP BY"}.get(
                    type(q).__name__, type(q).__name__.upper()
                )
            )
        case Union() | Except() | Intersect():
            raise _mixes(type(q).__name__.upper())
        case Scan() | Change() | Restrict() | Negate() | Net() | Support() | Unsigned() | Empty():
            raise _mixes(type(q).__name__)
        case _:
            assert_never(q)


def _holds(q: Rel, scan: Scan) -> bool:
    return any(n == scan for n in nodes(q))


def _mixes(what: str) -> Unsupported:
    return Unsupported(
        f"an estimate over {what} of the view's rows",
        detail="below the aggregate each row of the view must stand by itself",
        hint="ask for one aggregate over the view, or create a view of the inner query and sample it",
        reason="ESTIMATE_NESTED",
    )
