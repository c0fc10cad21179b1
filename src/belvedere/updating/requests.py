"""What a statement asks of a view: the rows that it deletes and inserts, as Spark computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from belvedere.errors import Invalid, Unsupported
from belvedere.lake.names import quote
from belvedere.sql.statements import WriteKind
from belvedere.updating.updates import Update

if TYPE_CHECKING:
    from belvedere.lake.door import Door

Columns = Sequence[tuple[str, str]]
MOST_ROWS = 10_000


def requested(door: Door, name: str, columns: Columns, kind: WriteKind, text: str) -> Update:
    """The update that a statement asks for."""
    tree = sqlglot.parse_one(text, dialect="spark")
    match tree, kind:
        case exp.Insert(), WriteKind.INSERT:
            return Update(insert=_inserted(door, columns, tree))
        case exp.Delete(), WriteKind.DELETE:
            return Update(delete=_selected(door, name, columns, tree.args.get("where"), []))
        case exp.Update(), WriteKind.UPDATE:
            return _replaced(door, name, columns, tree)
        case _:
            raise Unsupported(
                f"{kind.value} through an updatable view",
                hint="INSERT, UPDATE and DELETE go through it",
                reason="STATEMENT",
            )


def _inserted(door: Door, columns: Columns, tree: exp.Insert) -> tuple[dict[str, Any], ...]:
    if tree.args.get("overwrite"):
        raise Unsupported("INSERT OVERWRITE through an updatable view", reason="STATEMENT")
    target, source = tree.this, tree.args["expression"]
    listed = [c.name for c in target.expressions] if isinstance(target, exp.Schema) else []
    given = listed or [c for c, _ in columns]
    kinds = {c.lower(): (c, kind) for c, kind in columns}
    unknown = [c for c in given if c.lower() not in kinds]
    missing = [c for c, _ in columns if c.lower() not in {g.lower() for g in given}]
    if unknown or missing:
        wrong = f"has no column {unknown[0]!r}" if unknown else f"needs a value of {missing[0]!r}"
        names = ", ".join(c for c, _ in columns)
        raise Invalid(f"the view {wrong}", hint=f"its columns: {names}", reason="COLUMNS")
    inner = source.sql(dialect="spark")
    frame = door.sql(f"SELECT * FROM ({inner})")
    if len(frame.columns) != len(given):
        raise Invalid(
            f"{len(given)} values are expected, {len(frame.columns)} given", reason="COLUMNS"
        )
    named = frame.toDF(*[f"c{i}" for i in range(len(given))])
    casts = [f"CAST(c{i} AS {kinds[g.lower()][1]}) AS c{i}" for i, g in enumerate(given)]
    rows = _collected(named.selectExpr(*casts))
    return tuple(
        {kinds[g.lower()][0]: value for g, value in zip(given, row, strict=True)} for row in rows
    )


def _selected(
    door: Door, name: str, columns: Columns, where: exp.Expr | None, more: list[str]
) -> tuple[dict[str, Any], ...]:
    listed = ", ".join([*(quote(c) for c, _ in columns), *more])
    condition = f" {where.sql(dialect='spark')}" if where is not None else ""
    names = [*(c for c, _ in columns), *(f"__new{i}" for i in range(len(more)))]
    rows = _collected(door.sql(f"SELECT {listed} FROM {name}{condition}"))
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


def _replaced(door: Door, name: str, columns: Columns, tree: exp.Update) -> Update:
    kinds = {c.lower(): (c, kind) for c, kind in columns}
    changed, more = [], []
    for assignment in tree.expressions:
        column = assignment.this.name.lower()
        if column not in kinds:
            names = ", ".join(c for c, _ in columns)
            raise Invalid(f"the view has no column {column!r}", hint=f"its columns: {names}")
        changed.append(kinds[column][0])
        more.append(f"CAST({assignment.expression.sql(dialect='spark')} AS {kinds[column][1]})")
    rows = _selected(door, name, columns, tree.args.get("where"), more)
    old = [{c: row[c] for c, _ in columns} for row in rows]
    new = [
        {**o, **{c: row[f"__new{i}"] for i, c in enumerate(changed)}}
        for o, row in zip(old, rows, strict=True)
    ]
    pairs = [(o, n) for o, n in zip(old, new, strict=True) if o != n]
    return Update(tuple(o for o, _ in pairs), tuple(n for _, n in pairs), len(pairs))


def _collected(frame: Any) -> list[Any]:
    from belvedere.lake.trouble import translated

    with translated():
        rows: list[Any] = frame.limit(MOST_ROWS + 1).collect()
    if len(rows) > MOST_ROWS:
        raise Unsupported(
            f"an update of more than {MOST_ROWS} view rows at once", reason="TOO_MANY_ROWS"
        )
    return rows
