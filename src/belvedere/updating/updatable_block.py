"""Which queries are updatable views: select-project-join blocks that memory can check.

An updatable view shows columns as they are, joins by equality, and is a set of rows whether it says
DISTINCT or not: an update through it asks for a row to be there or not, never for a number of copies.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar, col, equal
from belvedere.algebra.types import parse
from belvedere.errors import Unsupported
from belvedere.joins.equijoin_tree import equijoin_edges
from belvedere.joins.join_tree import reached
from belvedere.joins.normal_form import (
    Acceptance,
    Equality,
    JoinBlock,
    JoinCondition,
    TableOccurrence,
    equated_columns,
    join_block,
)
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import true
from belvedere.sql.binder.bind import Bound


def updatable_block(bound: Bound) -> JoinBlock:
    """The normal form of an updatable view; `Unsupported` with a reason for any other query."""
    block = join_block(
        bound.plan, bound.columns, Acceptance(_not_spj, distinct=True, computed=_computed_column)
    )
    for constant in block.constants:
        _require_truth(constant)
    for condition in block.conditions:
        _require_equal_columns(condition)
    block = _with_implied_equalities(block)
    _require_comparable(block)
    return block


def _not_spj(operator: Rel) -> Unsupported:
    return Unsupported(
        f"an updatable view with {type(operator).__name__}",
        hint="an updatable view selects, projects and joins (inner joins) tables",
        reason="NOT_SPJ",
    )


def _computed_column(name: str, value: Scalar) -> Unsupported:
    return Unsupported(
        f"column {name!r} of an updatable view is computed: {value}",
        hint="an updatable view shows columns of its tables as they are",
        reason="COMPUTED_COLUMN",
    )


def _require_truth(constant: Scalar) -> None:
    """Refuse a condition without columns, unless it is always true."""
    try:
        holds = true(constant, pa.table({"one": [1]}), {})[0].as_py()
    except (Declined, pa.ArrowInvalid) as why:
        raise uncomputed("the view", constant, str(why)) from why
    if not holds:
        raise Unsupported(
            f"an updatable view that has no rows: {constant} is never true",
            hint="leave the condition out",
            reason="SELECTION",
        )


def _require_equal_columns(condition: JoinCondition) -> None:
    """Refuse a join by anything but the equality of two columns."""
    if isinstance(condition, Equality) and all(s.column for s in condition.sides):
        return
    raise Unsupported(
        f"the condition {condition.scalar} of an updatable view",
        hint="conditions compare columns of two tables by =, or speak of one table",
        reason="JOIN_CONDITION",
    )


def uncomputed(table: str, selection: Scalar, why: str) -> Unsupported:
    """The error for a condition that only Spark computes."""
    return Unsupported(
        f"the condition {selection} on {table} in an updatable view is not computed in memory",
        detail=why,
        hint="compare columns with constants of their own types (DATE '2021-01-01'), without functions",
        reason="SELECTION",
    )


def _with_implied_equalities(block: JoinBlock) -> JoinBlock:
    """Each position with all equalities of its own columns that the block implies, each once."""
    names = {ref: name for name, ref in block.refs.items()}
    implied: list[list[Scalar]] = [[] for _ in block.positions]
    for group in block.equal_columns:
        for p in {p for p, _ in group}:
            first, *others = (col(names[ref]) for ref in sorted(group) if ref[0] == p)
            implied[p] += [equal(first, other) for other in others]
    positions = (
        replace(at, conjuncts=(*(c for c in at.conjuncts if not _equates_two(c)), *more))
        for at, more in zip(block.positions, implied, strict=True)
    )
    return replace(block, positions=tuple(positions))


def _equates_two(conjunct: Scalar) -> bool:
    pair = equated_columns(conjunct)
    return pair is not None and pair[0] != pair[1]


def _require_comparable(block: JoinBlock) -> None:
    """Refuse types whose values memory does not compare, and tables that nothing joins."""
    for position in block.positions:
        for column, kind in position.columns:
            if not kinds.is_exact(kind) or parse(kind).is_float:
                raise Unsupported(
                    f"column {column!r} of {position.table!r} has type {kind}",
                    hint="rows of an updatable view are compared: leave it out",
                    reason="UNCOMPARABLE_TYPE",
                )
        _require_computable(position)
    for members in block.classes:
        types = {block.positions[p].types[c] for p, c in members}
        if len(types) > 1 and not all(parse(k).is_integer for k in types):
            (_, c), (_, d), *_ = members
            raise Unsupported(
                f"{c!r} and {d!r} are joined but have types {' and '.join(sorted(types))}",
                hint="give both columns one type",
                reason="JOIN_TYPES",
            )
    if len(reached(0, equijoin_edges(block))) < len(block.positions):
        raise Unsupported(
            "an updatable view that does not join all its tables",
            hint="join every table to another by =",
            reason="CARTESIAN_PRODUCT",
        )


def _require_computable(position: TableOccurrence) -> None:
    """Refuse a selection that memory does not compute, before there are rows."""
    rows = pa.table({c: pa.array([], kinds.arrow(kind)) for c, kind in position.columns})
    for conjunct in position.selection.conjuncts:
        try:
            true(conjunct, rows, position.types)
        except (Declined, pa.ArrowInvalid) as why:
            raise uncomputed(repr(position.table), conjunct, str(why)) from why
