"""What a window function gives each row of one partition."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tests.reference.scalars import value

Row = tuple[Any, ...]


def window_column(w: exp.Expr, names: tuple[str, ...], rows: list[Row]) -> list[Any]:
    """The function's value for each row, in the order the rows were given."""
    assert isinstance(w, exp.Window)
    named = [dict(zip(names, r, strict=True)) for r in rows]
    order = w.args.get("order")
    keys = [_sort_key(order.expressions if order else [], row) for row in named]
    ranked = sorted(range(len(rows)), key=lambda i: keys[i])
    out: list[Any] = [None] * len(rows)
    for position, i in enumerate(ranked):
        peers = [j for j in ranked if keys[j] <= keys[i]]
        match w.this:
            case exp.RowNumber():
                out[i] = position + 1
            case exp.Rank():
                out[i] = 1 + sum(keys[j] < keys[i] for j in ranked)
            case exp.DenseRank():
                out[i] = 1 + len({tuple(keys[j]) for j in ranked if keys[j] < keys[i]})
            case exp.Lag():
                out[i] = value(w.this.this, named[ranked[position - 1]]) if position else None
            case _:
                frame = peers if order else ranked
                out[i] = _aggregate(w.this, [named[j] for j in frame])
    return out


def _sort_key(order: list[exp.Expr], row: dict[str, Any]) -> list[tuple[bool, Any]]:
    """By integers; unless it is said otherwise, NULLs come first ascending and last descending."""
    key = []
    for o in order:
        v, down, first = value(o.this, row), bool(o.args.get("desc")), o.args.get("nulls_first")
        at_the_end = (not first) if first is not None else down
        present = v is not None
        number = 0 if v is None else -v if down else v
        key.append((present != at_the_end, number))
    return key


def _aggregate(call: exp.Expr, rows: list[dict[str, Any]]) -> Any:
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
        return len(rows)
    present = [v for v in (value(call.this, r) for r in rows) if v is not None]
    match call:
        case exp.Count():
            return len(present)
        case exp.Sum():
            return sum(present) if present else None
        case exp.Min():
            return min(present, default=None)
        case exp.Max():
            return max(present, default=None)
        case _:
            raise TypeError(f"the reference does not know the window function {call.sql()}")
