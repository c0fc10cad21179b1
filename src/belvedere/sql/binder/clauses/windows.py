"""Windows: functions over partitions, one node per PARTITION BY, with ties broken.

A function that tells equal rows apart (row_number, lag, a ROWS frame …) gets every column of its
input appended to its ORDER BY, so that its result is a function of the bag of rows. Two such
functions with different orders stand in different nodes, the later one ordered by the earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.algebra.relations import Output, Project, Rel, Window
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Unsupported
from belvedere.sql.binder.context import Context
from belvedere.sql.binder.expressions import rewrite
from belvedere.sql.binder.functions import RANKINGS, REFUSED_AGGREGATES, ROW_MOVERS, ROW_PICKERS
from belvedere.sql.binder.naming import function_name, suggested_name

_ALL_ROWS = {
    "kind": "ROWS",
    "start": "UNBOUNDED",
    "start_side": "PRECEDING",
    "end": "UNBOUNDED",
    "end_side": "FOLLOWING",
}


@dataclass
class _Node:
    partition: tuple[str, ...]
    functions: list[tuple[str, exp.Window]] = field(default_factory=list)
    order: exp.Expr | None = None
    picky: bool = False

    def takes(self, partition: tuple[str, ...], picky: bool, order: exp.Expr | None) -> bool:
        same = set(self.partition) == set(partition)
        return same and not (picky and self.picky and self.order != order)


def has_window(node: exp.Expr) -> bool:
    """Whether a window function stands in a resolved expression."""
    return node.find(exp.Window) is not None


def windowed(
    ctx: Context, plan: Rel, values: Sequence[exp.Expr], hints: dict[exp.Expr, str]
) -> tuple[Rel, list[exp.Expr]]:
    """The plan with the window functions of the values as columns, and the values over these."""
    plan = _narrowed(plan, values)
    nodes: list[_Node] = []
    names: dict[exp.Expr, str] = {}
    computed: list[Output] = []

    def one(n: exp.Expr) -> exp.Expr | None:
        if not isinstance(n, exp.Window):
            return None
        if n not in names:
            if any(w is not n for w in n.find_all(exp.Window)):
                raise ctx.unsupported(
                    "a window function inside another",
                    n,
                    "compute the inner one in a subquery",
                    reason="NESTED_WINDOW",
                )
            partition = tuple(
                dict.fromkeys(_column(ctx, e, computed) for e in n.args.get("partition_by") or ())
            )
            names[n] = ctx.names.fresh(hints.get(n) or suggested_name(n))
            _home(ctx, nodes, n, partition).functions.append((names[n], n))
        return col(names[n]).expr

    new = [rewrite(v, one) for v in values]
    if computed:
        plan = Project(plan, (*(Output(c, col(c)) for c in plan.columns), *computed))
    for node in nodes:
        functions = tuple(
            Output(name, Scalar(_exact(ctx, w, node.partition, plan))) for name, w in node.functions
        )
        plan = Window(plan, node.partition, functions)
    return plan, new


def _narrowed(plan: Rel, values: Sequence[exp.Expr]) -> Rel:
    """Only the columns the values read: ties need not be broken by what nobody sees."""
    read = {c for v in values for c in Scalar(v).columns}
    kept = [c for c in plan.columns if c in read] or list(plan.columns[:1])
    if len(kept) == len(plan.columns):
        return plan
    return Project(plan, tuple(Output(c, col(c)) for c in kept))


def _column(ctx: Context, node: exp.Expr, computed: list[Output]) -> str:
    value = Scalar(node)
    if value.column is not None:
        return value.column
    for known in computed:
        if known.value == value:
            return known.name
    computed.append(Output(ctx.names.fresh(suggested_name(node)), value))
    return computed[-1].name


def _home(
    ctx: Context, nodes: list[_Node], window: exp.Window, partition: tuple[str, ...]
) -> _Node:
    picky, order = _tells_rows_apart(ctx, window), window.args.get("order")
    for node in nodes:
        if node.takes(partition, picky, order):
            break
    else:
        node = _Node(partition)
        nodes.append(node)
    if picky and not node.picky:
        node.picky, node.order = True, order
    return node


def _function(window: exp.Window) -> tuple[str, bool]:
    """The function's name, and whether it skips NULLs."""
    inner, skips = window.this, False
    while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        skips = skips or isinstance(inner, exp.IgnoreNulls)
        inner = inner.this
    return function_name(inner), skips


def _frame(window: exp.Window) -> tuple[str, str, str]:
    """Kind, start and end of the frame, as words."""
    spec = window.args.get("spec")
    if spec is None:
        end = "CURRENT ROW" if window.args.get("order") else "UNBOUNDED FOLLOWING"
        return "RANGE", "UNBOUNDED PRECEDING", end

    def bound(key: str) -> str:
        edge, side = spec.args.get(key), spec.args.get(f"{key}_side")
        text = edge.sql() if isinstance(edge, exp.Expr) else str(edge or "CURRENT ROW")
        return f"{text} {side or ''}".strip().upper()

    return str(spec.args.get("kind")).upper(), bound("start"), bound("end")


def _tells_rows_apart(ctx: Context, window: exp.Window) -> bool:
    name, _ = _function(window)
    if name in RANKINGS:
        return False
    if name in ROW_PICKERS or name in ROW_MOVERS:
        return True
    if name in REFUSED_AGGREGATES:
        why, hint = REFUSED_AGGREGATES[name]
        raise ctx.unsupported(f"{name}()", window, hint, reason="NOT_REPEATABLE", detail=why)
    kind, start, end = _frame(window)
    return kind == "ROWS" and (start, end) != ("UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING")


def _exact(ctx: Context, window: exp.Window, partition: tuple[str, ...], child: Rel) -> exp.Expr:
    """The window expression over plan columns, with its ties broken where it matters."""
    new = window.copy()
    new.set("partition_by", [col(c).expr for c in partition])
    if not _tells_rows_apart(ctx, window):
        return new
    name, skips_nulls = _function(window)
    if name in ROW_PICKERS:
        new.set("spec", _picker_frame(ctx, window, name, skips_nulls))
    order = window.args.get("order")
    written = [o.copy() for o in order.expressions] if order else []
    ordered = {o.this.name for o in written if isinstance(o.this, exp.Column)}
    rest = [c for c in child.columns if c not in ordered and c not in partition]
    rest = rest if rest or written else list(child.columns[:1])
    refuse_unordered(ctx, rest, window)
    ties = [exp.Ordered(this=col(c).expr, desc=False, nulls_first=True) for c in rest]
    new.set("order", exp.Order(expressions=[*written, *ties]))
    return new


def _picker_frame(
    ctx: Context, window: exp.Window, name: str, skips_nulls: bool
) -> exp.Expr | None:
    """The frame in rows of a function that picks one row out of it."""
    kind, start, end = _frame(window)
    if kind == "ROWS":
        spec: exp.Expr = window.args["spec"]
        return spec.copy()
    if start == "UNBOUNDED PRECEDING" and end == "UNBOUNDED FOLLOWING":
        return exp.WindowSpec(**_ALL_ROWS)
    first = name in ("first", "first_value") and not skips_nulls
    if first and start == "UNBOUNDED PRECEDING" and end == "CURRENT ROW":
        return exp.WindowSpec(**_ALL_ROWS)
    raise ctx.unsupported(
        f"{name}() over a RANGE frame",
        window,
        "write ROWS BETWEEN …, which says which of equal rows are in the frame",
        reason="NOT_REPEATABLE",
        detail="among rows equal in ORDER BY it may pick any",
    )


def refuse_unordered(ctx: Context, columns: Sequence[str], node: exp.Expr) -> None:
    """Refuse ties that would have to be broken by a column that has no order."""
    for column in columns:
        if "map<" in ctx.types.get(column, "") or ctx.types.get(column) == "variant":
            raise _no_order(ctx, column, node)


def _no_order(ctx: Context, column: str, node: exp.Expr) -> Unsupported:
    return ctx.unsupported(
        f"breaking ties by column {column!r}",
        node,
        "leave the column out of this query, or join it afterwards by key",
        reason="NOT_REPEATABLE",
        detail=f"its type {ctx.types[column]} has no order",
    )
