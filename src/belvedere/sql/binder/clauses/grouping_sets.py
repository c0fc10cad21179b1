"""Grouping sets: ROLLUP, CUBE and GROUPING SETS as one aggregation over a union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from belvedere.algebra.relations import Agg, Aggregate, Output, Project, Rel, Union
from belvedere.algebra.scalars import Scalar, col, lit
from belvedere.sql.binder.context import Context
from belvedere.sql.binder.freshen import freshen

Parts = list[list[exp.Expr]]


@dataclass(frozen=True)
class Sets:
    """All keys, and which of them each grouping set groups by."""

    keys: tuple[str, ...]
    sets: tuple[frozenset[str], ...]

    def number(self, grouped: frozenset[str]) -> int:
        """Spark's grouping_id of a set: a bit per key, set where the key is not grouped.

        >>> Sets(("a", "b"), ()).number(frozenset({"a"}))
        1
        """
        return sum(1 << i for i, k in enumerate(reversed(self.keys)) if k not in grouped)

    def bits(self, column: str, names: list[str], function: str) -> exp.Expr:
        """grouping(k) or grouping_id(k, …) out of the set's number."""
        if function == "grouping_id" and (not names or tuple(names) == self.keys):
            return col(column).expr
        total: exp.Expr | None = None
        for i, name in enumerate(reversed(names)):
            shift = len(self.keys) - 1 - self.keys.index(name)
            bit: exp.Expr = exp.paren(
                exp.Mod(
                    this=exp.IntDiv(
                        this=col(column).expr, expression=exp.Literal.number(1 << shift)
                    ),
                    expression=exp.Literal.number(2),
                )
            )
            bit = exp.Mul(this=bit, expression=exp.Literal.number(1 << i)) if i else bit
            total = bit if total is None else exp.Add(this=total, expression=bit)
        assert total is not None
        return exp.cast(total, "tinyint" if function == "grouping" else "bigint")


def listed(group: exp.Group) -> Parts | None:
    """The grouping sets a GROUP BY lists, each as expressions; None if it has plain keys only."""
    kinds = (exp.Rollup, exp.Cube, exp.GroupingSets)
    plain = [e for e in group.expressions if not isinstance(e, kinds)]
    inside = [e for e in group.expressions if isinstance(e, kinds)]
    trailing = [e for k in ("rollup", "cube", "grouping_sets") for e in group.args.get(k) or ()]
    if not inside and not trailing:
        return None
    factors: list[Parts] = []
    for node in trailing:
        if isinstance(node, exp.GroupingSets) or node.expressions:
            factors.append(_sets_of(node))
        else:
            factors.append(_sets_of(type(node)(expressions=[p.copy() for p in plain])))
    if not trailing:
        factors = [
            [[p] for p in [e]] if not isinstance(e, kinds) else _sets_of(e)
            for e in group.expressions
        ]
    return [[e for part in choice for e in part] for choice in product(*factors)]


def listed_before(group: exp.Group) -> list[exp.Expr]:
    """The keys of `GROUP BY a, b GROUPING SETS (…)`: NULL in the sets that leave them out."""
    trailing = any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets"))
    return list(group.expressions) if trailing else []


def _sets_of(node: exp.Expr) -> Parts:
    members = [_members(e) for e in node.expressions]
    match node:
        case exp.Rollup():
            return [_flat(members[:n]) for n in range(len(members), -1, -1)]
        case exp.Cube():
            sizes = range(len(members), -1, -1)
            return [_flat(c) for n in sizes for c in combinations(members, n)]
        case _:
            nested = (exp.Rollup, exp.Cube, exp.GroupingSets)
            return [
                s
                for e, m in zip(node.expressions, members, strict=True)
                for s in (_sets_of(e) if isinstance(e, nested) else [m])
            ]


def _members(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this if isinstance(node, exp.Paren) else node]


def _flat(parts: Sequence[list[exp.Expr]]) -> list[exp.Expr]:
    return [e for part in parts for e in part]


def expand(
    ctx: Context,
    child: Rel,
    keys: tuple[str, ...],
    aggregates: list[Agg],
    sets: Sets,
    number: str | None,
) -> Rel:
    """γ over ∪ of the child once per grouping set; the keys keep their names."""
    carried = sorted({c for a in aggregates for x in a.args for c in x.columns})
    own = {c: ctx.names.fresh(c) for c in carried}
    position = ctx.names.fresh("grouping_set")
    identity = number or ctx.names.fresh("grouping_id")
    branches = [
        _branch(ctx, child, keys, carried, grouped, (sets.number(grouped), i))
        for i, grouped in enumerate(sets.sets)
    ]
    columns = (*keys, *(own[c] for c in carried), identity, position)
    union = Union(tuple(branches), columns)
    args = {c: col(n) for c, n in own.items()}
    renamed = tuple(
        Agg(a.name, a.function, tuple(x.substitute(args) for x in a.args), a.distinct)
        for a in aggregates
    )
    return Aggregate(union, (*keys, identity, position), renamed)


def _branch(
    ctx: Context,
    child: Rel,
    keys: tuple[str, ...],
    carried: list[str],
    grouped: frozenset[str],
    numbers: tuple[int, int],
) -> Rel:
    """The child with the keys outside one grouping set NULL, as columns in the union's order."""
    renamed = freshen(child, ctx.names)
    new = dict(zip(child.columns, renamed.columns, strict=True))
    outputs = []
    for key in keys:
        value = col(new[key])
        if key not in grouped:
            value = Scalar(exp.Case(ifs=[exp.If(this=exp.false(), true=value.expr)]))
        outputs.append(Output(ctx.names.fresh(key), value))
    outputs += [Output(ctx.names.fresh(c), col(new[c])) for c in carried]
    for name, number in zip(("grouping_id", "grouping_set"), numbers, strict=True):
        typed = exp.cast(lit(number).expr, "bigint")
        outputs.append(Output(ctx.names.fresh(name), Scalar(typed)))
    return Project(renamed, tuple(outputs))
