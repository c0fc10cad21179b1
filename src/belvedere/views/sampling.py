"""A view's sample and its outliers are views too: the same query, with fewer of its rows.

    sample     η(Q): the rows whose key hashes below a bound, pushed down to the tables
    outliers   Q ⋉ O: the rows of the keys O that an index says, always all of them

What is kept besides the query is a property of their definition, so that they are compiled,
filled, refreshed, killed and dropped as any view is; there is no second way to do it. O is

    of a table's column   the keys that a record beyond the bounds takes part in, pushed up by
                          SVC Def. 5, with O₁⋈R₂ ∪ R₁⋈O₂ for joins (the paper's O₁⋈O₂ is empty
                          where one side has no index) and O₁−R₂ for differences
    of the view itself    the keys of its stored rows beyond the bounds

Of a TOP k the records beyond the bounds are a part of their own, maintained from the change feed:
how many they are tells when the bounds are to be set anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Distinct,
    Except,
    Field,
    Filter,
    Hash,
    Join,
    JoinKind,
    Output,
    Project,
    Rel,
    Scan,
    Union,
)
from belvedere.algebra.scalars import Scalar, col, every, lit, same
from belvedere.algebra.walks import children, each_once, nodes, with_children
from belvedere.analyses.types import Types
from belvedere.errors import Unsupported
from belvedere.rules.sample import Sampled, is_hash, sample
from belvedere.sql.binder.freshen import rename
from belvedere.sql.statements.samples import Index
from belvedere.views.state import Grouped, split, state_of, stored_scan


@dataclass(frozen=True)
class Bounds:
    """Values of a column that are outliers: below `low` or above `high`, bounds included."""

    column: str
    low: float | None = None
    high: float | None = None
    type: str = "double"
    """Of a table's column."""

    def holds(self, value: Scalar) -> Scalar:
        """The condition of an outlier."""
        parts: list[exp.Expr] = []
        if self.low is not None:
            parts.append(exp.LTE(this=value.expr.copy(), expression=lit(self.low).expr))
        if self.high is not None:
            parts.append(exp.GTE(this=value.expr.copy(), expression=lit(self.high).expr))
        return Scalar(exp.or_(*parts)) if len(parts) > 1 else Scalar(parts[0])


@dataclass(frozen=True)
class Sampling:
    """What of a view is kept: which keys, hashed how; of outliers, what makes them."""

    of: str
    key: tuple[str, ...]
    unique: bool
    ratio: float
    seed: int
    table: str | None = None
    """Of outliers, the table whose column is indexed, or the view's own stored table."""
    bounds: tuple[Bounds, ...] = ()
    index: Index | None = None
    """The index as its user asked for it."""
    most: int = 0
    """Of a TOP k, how many records may be beyond the bounds before these are set anew."""
    set_at: int = 0
    """The version of the view's stored table when the bounds were set."""
    leaves: bool = field(default=False)

    @property
    def hash(self) -> Hash:
        return Hash(self.seed, self.ratio)

    def to_dict(self) -> dict[str, Any]:
        """As the definition records it."""
        return asdict(self)

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Sampling:
        """From a definition's record."""
        bounds = tuple(Bounds(**b) for b in found["bounds"])
        index = Index(**found["index"]) if found["index"] else None
        read = {"key": tuple(found["key"]), "bounds": bounds, "index": index}
        return Sampling(**{**found, **read})


def sampled_plan(plan: Rel, sampling: Sampling, types: Types) -> Rel:
    """The plan of the rows that are kept."""
    core, above = split(plan)
    if not sampling.table:
        return above(pushed(plan, sampling, types).plan)
    okeys = _outlier_keys(plan, core, sampling, types)
    names = [f"{_KEY}{i}" for i in range(len(sampling.key))]
    on = every(same(col(k), col(n)) for k, n in zip(sampling.key, names, strict=True))
    if isinstance(core, Aggregate | Distinct):
        return above(replace(core, child=Join(core.child, okeys, JoinKind.SEMI, on)))
    return above(Join(core, okeys, JoinKind.SEMI, on))


def pushed(plan: Rel, sampling: Sampling, types: Types) -> Sampled:
    """η of a view's core, pushed down, with where it stopped."""
    core, _ = split(plan)
    return sample(core, sampling.key, sampling.hash, types)


def leaves(plan: Rel) -> list[int]:
    """The places of hash-restricted tables in a sampled plan, the last ones first."""
    return [
        i
        for i, node in reversed(list(enumerate(each_once(plan))))
        if isinstance(node, Filter) and isinstance(node.child, Scan) and is_hash(node.predicate)
    ]


def records(plan: Rel, sampling: Sampling) -> list[int]:
    """The places of an index's records in the plan of outliers, the last ones first."""
    return [
        i
        for i, node in reversed(list(enumerate(each_once(plan))))
        if isinstance(node, Filter) and indexed_column(node, sampling)
    ]


def indexed_column(node: Rel, sampling: Sampling) -> str:
    """The column by which a node keeps the records of the index; empty if it does not."""
    match node:
        case Filter(child=Scan(table=table, fields=fields), predicate=predicate):
            (bound, *_) = sampling.bounds
            for f in fields if table == sampling.table else ():
                same_column = f.source.lower() == bound.column.lower()
                if (
                    same_column
                    and f.name.startswith(_OTHER)
                    and predicate == bound.holds(col(f.name))
                ):
                    return f.name
    return ""


def sampling_types(types: Types, sampling: Sampling) -> dict[str, str]:
    """The types of the plan's columns, those of the index among them."""
    if not sampling.table:
        return dict(types)
    own = {f"{_OTHER}{name}": kind for name, kind in types.items()}
    own[f"{_OTHER}{_VALUE}"] = sampling.bounds[0].type
    keys = {f"{_KEY}{i}": types[k] for i, k in enumerate(sampling.key)}
    return {**types, **own, **keys}


_KEY = "__okey_"
_OTHER = "__o_"
_VALUE = "__ovalue"


def _outlier_keys(plan: Rel, core: Rel, sampling: Sampling, types: Types) -> Rel:
    """O: the distinct hashed keys of outliers, under names of their own."""
    state = state_of(plan, types)
    stored = stored_scan(state, sampling.table or "", types)
    if sampling.table not in {n.table for n in nodes(core) if isinstance(n, Scan)}:
        shown = Project(stored, state.finish) if isinstance(state, Grouped) else stored
        parts: list[Rel] = [Filter(shown, b.holds(col(b.column))) for b in sampling.bounds]
    else:
        below = core.child if isinstance(core, Aggregate | Distinct) else core
        parts = _with_outliers(below, sampling)
    renamed = [rename(p, {c: f"{_OTHER}{c}" for n in nodes(p) for c in n.columns}) for p in parts]
    keys = [
        Project(
            p, tuple(Output(f"{_KEY}{i}", col(f"{_OTHER}{k}")) for i, k in enumerate(sampling.key))
        )
        for p in renamed
    ]
    if len(keys) == 1:
        return Distinct(keys[0])
    return Distinct(Union(tuple(keys), keys[0].columns))


def _with_outliers(q: Rel, sampling: Sampling) -> list[Rel]:
    """The plan with only outlier records in one place of the table, for each of its places."""
    if isinstance(q, Scan):
        return [_indexed(q, sampling.bounds)] if q.table == sampling.table else []
    found = []
    for i, child in enumerate(children(q)):
        inner = _with_outliers(child, sampling)
        if inner and i and _subtracts(q):
            raise Unsupported(
                f"an outlier index on {sampling.table!r}, which {_named(q)} takes away or pads with",
                hint="index a table of the other side, or OUTLIERS AUTO",
                reason="OUTLIERS_BLOCKED",
            )
        new = list(children(q))
        for each in inner:
            new[i] = each
            found.append(with_children(q, new))
    return found


def _subtracts(q: Rel) -> bool:
    """Whether fewer rows on the right may mean more, or other, rows of the result."""
    if isinstance(q, Join):
        return q.kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)
    return isinstance(q, Except)


def _named(q: Rel) -> str:
    return f"a {q.kind.value} join" if isinstance(q, Join) else "EXCEPT"


def _indexed(scan: Scan, bounds: tuple[Bounds, ...]) -> Rel:
    """A table's outlier records; the column may be one that the view does not read."""
    (bound,) = bounds
    name = next((f.name for f in scan.fields if f.source.lower() == bound.column.lower()), None)
    if name is not None:
        return Filter(scan, bound.holds(col(name)))
    wide = replace(scan, fields=(*scan.fields, Field(_VALUE, bound.column, bound.type)))
    kept = tuple(Output(c, col(c)) for c in scan.columns)
    return Project(Filter(wide, bound.holds(col(_VALUE))), kept)
