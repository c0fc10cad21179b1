"""What a view stores, and how it is read back.

A definition is split in two: the core, which is stored and maintained, and what stands above it,
which the catalog view applies at read (projection, HAVING, ORDER BY … LIMIT).

    Grouped   the core is an aggregate (DISTINCT is one that counts): one stored row per group,
              with `__n` = count(*) and the parts from which each aggregate is finished at read
    Bag       any other core: its rows, equal ones numbered by `__rid`

The parts of an aggregate say how a change adds to them:

    count        c                       add
    sum          s = Σx, c = count(x)    add      integers in decimal(38,0), decimals as they are
    avg          the same                add
    min, max     the value               least, greatest; a delete may take the extremum away
    any other    the value               never: recomputed for touched groups
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from sqlglot import exp

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Distinct,
    Field,
    Filter,
    Output,
    Project,
    Rel,
    Scan,
    TopK,
)
from belvedere.algebra.scalars import Scalar, call, col, lit
from belvedere.algebra.types import parse
from belvedere.analyses.types import Types, argument

COUNT = "__n"
ROW = "__rid"


class Combine(Enum):
    """How the change of a part joins the stored part."""

    ADD = "+"
    LEAST = "least"
    GREATEST = "greatest"
    NEVER = "recomputed"


@dataclass(frozen=True)
class Part:
    """A stored column of an aggregate: what computes it, how changes join it."""

    agg: Agg
    combine: Combine
    type: str


@dataclass(frozen=True)
class Grouped:
    """A core kept as one row per group."""

    child: Rel
    keys: tuple[str, ...]
    parts: tuple[Part, ...]
    above: Callable[[Rel], Rel]
    finish: tuple[Output, ...]

    @property
    def plan(self) -> Aggregate:
        """The stored rows as a plan over the base tables."""
        return Aggregate(self.child, self.keys, tuple(p.agg for p in self.parts))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.plan.columns

    def read(self, stored: Scan) -> Rel:
        """The view as a plan over its stored table."""
        return self.above(Project(stored, self.finish))

    def adds(self, *, inserts_only: bool) -> bool:
        """Whether a change can be added to the stored rows without reading old ones."""
        allowed = {Combine.ADD, Combine.LEAST, Combine.GREATEST} if inserts_only else {Combine.ADD}
        return all(p.combine in allowed for p in self.parts)


@dataclass(frozen=True)
class Bag:
    """A core kept as its rows, equal ones numbered."""

    plan: Rel
    above: Callable[[Rel], Rel]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.plan.columns

    def read(self, stored: Scan) -> Rel:
        """The view as a plan over its stored table."""
        return self.above(stored)


State: TypeAlias = Grouped | Bag


def state_of(plan: Rel, types: Types) -> State:
    """How a definition is stored."""
    core, above = split(plan)
    match core:
        case Aggregate():
            return _grouped(core, above, types)
        case Distinct():
            child = core.child
            finish = tuple(Output(c, col(c)) for c in child.columns)
            counted = Part(Agg(COUNT, "count"), Combine.ADD, "bigint")
            return Grouped(child, child.columns, (counted,), above, finish)
        case _:
            return Bag(core, above)


def stored_scan(state: State, table: str, types: Types) -> Scan:
    """The scan of a stored table, under the core's column names."""
    names = physical(state)
    own = {p.agg.name: p.type for p in state.parts} if isinstance(state, Grouped) else {}
    known = {**types, **own}
    return Scan(table, tuple(Field(c, names[c], known[c]) for c in state.columns))


def physical(state: State) -> dict[str, str]:
    """Column of the core -> a name every table format accepts, unique without regard to case."""
    taken: set[str] = set()
    names = {}
    for column in state.columns:
        hidden = column.startswith("__")
        base = column if hidden else re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_") or "c"
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name.lower())
        names[column] = name
    return names


def split(plan: Rel) -> tuple[Rel, Callable[[Rel], Rel]]:
    """The core, and the operators above it as a function of what stands in for it."""
    chain: list[Project | Filter | TopK] = []
    node = plan
    while isinstance(node, Project | Filter | TopK):
        chain.append(node)
        node = node.child
    if not isinstance(node, Aggregate | Distinct):
        tops = [i for i, n in enumerate(chain) if isinstance(n, TopK)]
        kept = tops[-1] + 1 if tops else 0
        node = chain[kept] if kept < len(chain) else node
        chain = chain[:kept]

    def above(core: Rel) -> Rel:
        for operator in reversed(chain):
            core = replace(operator, child=core)
        return core

    return node, above


def _grouped(core: Aggregate, above: Callable[[Rel], Rel], types: Types) -> Grouped:
    parts: dict[str, Part] = {COUNT: Part(Agg(COUNT, "count"), Combine.ADD, "bigint")}
    finish = [Output(k, col(k)) for k in core.keys]
    for number, a in enumerate(core.aggregates, start=1):
        own, value = _parts(a, number, types)
        for part in own:
            parts.setdefault(part.agg.name, part)
        finish.append(Output(a.name, value))
    return Grouped(core.child, core.keys, tuple(parts.values()), above, tuple(finish))


def _parts(a: Agg, number: int, types: Types) -> tuple[list[Part], Scalar]:
    """The stored parts of an aggregate and its value from them."""
    if a.function == "count" and not a.args:
        return [], col(COUNT)
    if a.function == "count" and not a.distinct and len(a.args) == 1:
        part = Part(Agg(f"__c{number}", "count", a.args), Combine.ADD, "bigint")
        return [part], col(part.agg.name)
    if a.function in ("sum", "avg", "mean") and not a.distinct:
        added = _sum(a, number, types)
        if added is not None:
            return added
    combine = {"min": Combine.LEAST, "max": Combine.GREATEST}.get(a.function, Combine.NEVER)
    part = Part(replace(a, name=f"__v{number}"), combine, types[a.name])
    return [part], col(part.agg.name)


def _sum(a: Agg, number: int, types: Types) -> tuple[list[Part], Scalar] | None:
    """Sum and mean from a running total, where it is exact; None where it is not."""
    kind = types[argument(a)]
    value = a.args[0]
    if parse(kind).is_integer:
        total_type, value = "decimal(38,0)", cast(value, "decimal(38,0)")
    else:
        total_type = _decimal_total(a, kind, types[a.name])
    if not total_type:
        return None
    total = Part(Agg(f"__s{number}", "sum", (value,)), Combine.ADD, total_type)
    count = Part(Agg(f"__c{number}", "count", a.args), Combine.ADD, "bigint")
    s, c = col(total.agg.name), col(count.agg.name)
    if a.function == "sum":
        result = cast(s, types[a.name])
    elif parse(kind).is_integer:
        result = Scalar(exp.Div(this=cast(s, "double").expr, expression=c.expr, typed=False))
    else:
        ratio = Scalar(exp.Div(this=s.expr, expression=c.expr, typed=False))
        result = cast(ratio, types[a.name])
    some = Scalar(exp.GT(this=c.expr.copy(), expression=lit(0).expr))
    return [total, count], when(some, result)


def _decimal_total(a: Agg, kind: str, result: str) -> str:
    """The type of a decimal running total; empty where adding or dividing it would round.

    Spark gives a sum ten more digits, at most 38, and cuts the scale of an addition that would
    pass 38 digits down to 6; it divides to a scale that must leave room for one exact rounding.
    """
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    if match is None:
        return ""
    scale = int(match[2])
    precision = min(int(match[1]) + 10, 38)
    if precision == 38 and scale > 6:
        return ""
    if a.function != "sum":
        digits = precision - scale
        wide = max(6, scale + 21)
        quotient = wide if digits + wide <= 38 else max(38 - digits, min(wide, 6))
        rounded = re.fullmatch(r"decimal\((\d+),(\d+)\)", result)
        if rounded is None or quotient - int(rounded[2]) < 9:
            return ""
    return f"decimal({precision},{scale})"


def cast(value: Scalar, kind: str) -> Scalar:
    """The value as another type."""
    return Scalar(exp.cast(value.expr.copy(), kind, dialect="spark"))


def when(condition: Scalar, value: Scalar) -> Scalar:
    """The value where the condition holds, otherwise NULL."""
    branch = exp.If(this=condition.expr.copy(), true=value.expr.copy())
    return Scalar(exp.Case(ifs=[branch]))


def coalesce(value: Scalar, otherwise: Scalar) -> Scalar:
    """The value, or another where it is NULL."""
    return call("coalesce", value, otherwise)
