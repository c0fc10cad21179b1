"""The view rows that a statement deletes and inserts, as Spark computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from belvedere.errors import Invalid, Unsupported
from belvedere.sql.names import quote
from belvedere.sql.parse import parse_statements
from belvedere.sql.statements.spark import WriteKind
from belvedere.updating.request.view_updates import ViewUpdate

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

TypedColumns = Sequence[tuple[str, str]]
MOST_ROWS = 10_000
_TYPE_ERRORS = ("CAST_", "DATATYPE_MISMATCH.CAST", "NUMERIC_VALUE_OUT_OF_RANGE")
"""Prefixes of Spark's error classes for values that cannot be cast to a column's type."""

_KNOWN_CLAUSES: dict[type[exp.Expr], set[str]] = {
    exp.Insert: {"this", "expression", "source", "by_name", "with_"},
    exp.Delete: {"this", "where"},
    exp.Update: {"this", "expressions", "where"},
    exp.Schema: {"this", "expressions"},
    exp.Table: {"this", "alias", "db", "catalog"},
    exp.TableAlias: {"this"},
}
"""The clauses of a statement that are supported; any other would change its meaning."""


def update_of_statement(
    door: SparkLake, name: str, columns: TypedColumns, kind: WriteKind, text: str
) -> ViewUpdate:
    """The update of a view that a statement describes."""
    [tree] = parse_statements(text)
    match tree, kind:
        case exp.Insert(), WriteKind.INSERT:
            _refuse_unknown_clauses(tree)
            return ViewUpdate(insert=_inserted_rows(door, columns, tree))
        case exp.Delete(), WriteKind.DELETE:
            return ViewUpdate(
                delete=_selected_rows(door, _view_with_alias(name, tree), columns, tree, [])
            )
        case exp.Update(), WriteKind.UPDATE:
            return _replaced_rows(door, _view_with_alias(name, tree), columns, tree)
        case _:
            raise Unsupported(
                f"{kind.value} through an updatable view",
                hint="use INSERT, UPDATE or DELETE",
                reason="STATEMENT",
            )


def _refuse_unknown_clauses(tree: exp.Expr) -> None:
    """Refuse a statement that has a clause which would be ignored."""
    clauses = {name for name, value in tree.args.items() if value not in (None, False, [])}
    unknown = sorted(clauses - _KNOWN_CLAUSES.get(type(tree), set()))
    if unknown:
        raise Unsupported(
            f"{tree.key.upper()} through an updatable view with {unknown[0].rstrip('_').upper()}",
            detail=tree.sql(dialect="spark"),
            hint="leave it out, or change the tables themselves",
            reason="STATEMENT",
        )
    inner = tree.this
    if isinstance(inner, exp.Expr) and type(inner) in _KNOWN_CLAUSES:
        _refuse_unknown_clauses(inner)


def _view_with_alias(name: str, tree: exp.Expr) -> str:
    """The view in a FROM clause, with the alias that the statement gives it."""
    _refuse_unknown_clauses(tree)
    alias = tree.this.args.get("alias")
    if alias is None:
        return name
    _refuse_unknown_clauses(alias)
    return f"{name} AS {quote(alias.name)}"


def _inserted_rows(
    door: SparkLake, columns: TypedColumns, tree: exp.Insert
) -> tuple[dict[str, Any], ...]:
    frame = door.sql(_insert_query(tree))
    given = _given_columns(columns, tree, frame.columns)
    kinds = {c.lower(): (c, kind) for c, kind in columns}
    if len(frame.columns) != len(given):
        raise Invalid(
            f"{len(given)} values are expected, {len(frame.columns)} given",
            hint=f"the view's columns: {_column_list(columns)}",
            reason="COLUMNS",
        )
    named = frame.toDF(*[f"c{i}" for i in range(len(given))])
    casts = [f"CAST(c{i} AS {kinds[g.lower()][1]}) AS c{i}" for i, g in enumerate(given)]
    rows = _collect_rows(columns, lambda: named.selectExpr(*casts))
    return tuple(
        {kinds[g.lower()][0]: value for g, value in zip(given, row, strict=True)} for row in rows
    )


def _insert_query(tree: exp.Insert) -> str:
    """The query of an INSERT, with the WITH clause before it."""
    first, query = tree.args.get("with_"), tree.args.get("expression")
    inner = (
        query.sql(dialect="spark") if query else f"TABLE {tree.args['source'].sql(dialect='spark')}"
    )
    lead = f"{first.sql(dialect='spark')} " if first else ""
    return f"{lead}SELECT * FROM ({inner})"


def _given_columns(columns: TypedColumns, tree: exp.Insert, named: Sequence[str]) -> list[str]:
    """The view's columns in the order in which the statement gives their values."""
    target = tree.this
    given = [c for c, _ in columns]
    if tree.args.get("by_name"):
        given = list(named)
    elif isinstance(target, exp.Schema):
        given = [c.name for c in target.expressions]
    _refuse_repeated_columns(given)
    lower = {g.lower() for g in given}
    unknown = [g for g in given if g.lower() not in {c.lower() for c, _ in columns}]
    missing = [c for c, _ in columns if c.lower() not in lower]
    if unknown or missing:
        wrong = f"has no column {unknown[0]!r}" if unknown else f"needs a value of {missing[0]!r}"
        raise Invalid(
            f"the view {wrong}", hint=f"its columns: {_column_list(columns)}", reason="COLUMNS"
        )
    return given


def _refuse_repeated_columns(names: Sequence[str]) -> None:
    lower = [n.lower() for n in names]
    twice = [n for i, n in enumerate(names) if n.lower() in lower[:i]]
    if twice:
        raise Invalid(
            f"the column {twice[0]!r} is given a value twice",
            hint="give each column one value",
            reason="COLUMNS",
        )


def _column_list(columns: TypedColumns) -> str:
    return ", ".join(c for c, _ in columns)


def _selected_rows(
    door: SparkLake, source: str, columns: TypedColumns, tree: exp.Expr, expressions: list[str]
) -> tuple[dict[str, Any], ...]:
    """The view rows that a statement selects, with further expressions computed for each."""
    listed = ", ".join([*(quote(c) for c, _ in columns), *expressions])
    where = tree.args.get("where")
    condition = f" {where.sql(dialect='spark')}" if where is not None else ""
    names = [*(c for c, _ in columns), *(f"__new{i}" for i in range(len(expressions)))]
    rows = _collect_rows(columns, lambda: door.sql(f"SELECT {listed} FROM {source}{condition}"))
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


def _replaced_rows(
    door: SparkLake, source: str, columns: TypedColumns, tree: exp.Update
) -> ViewUpdate:
    kinds = {c.lower(): (c, kind) for c, kind in columns}
    assigned, expressions = [], []
    for assignment in tree.expressions:
        column = assignment.this.name.lower()
        if column not in kinds:
            raise Invalid(
                f"the view has no column {column!r}",
                hint=f"its columns: {_column_list(columns)}",
                reason="COLUMNS",
            )
        assigned.append(kinds[column][0])
        expressions.append(
            f"CAST({assignment.expression.sql(dialect='spark')} AS {kinds[column][1]})"
        )
    _refuse_repeated_columns(assigned)
    rows = _selected_rows(door, source, columns, tree, expressions)
    old = [{c: row[c] for c, _ in columns} for row in rows]
    new = [
        {**o, **{c: row[f"__new{i}"] for i, c in enumerate(assigned)}}
        for o, row in zip(old, rows, strict=True)
    ]
    pairs = [(o, n) for o, n in zip(old, new, strict=True) if o != n]
    return ViewUpdate(tuple(o for o, _ in pairs), tuple(n for _, n in pairs), len(pairs))


def _collect_rows(columns: TypedColumns, query: Callable[[], Any]) -> list[Any]:
    from belvedere.lake.sessions.errors import named_as_invalid

    try:
        with named_as_invalid():
            rows: list[Any] = query().limit(MOST_ROWS + 1).collect()
    except Invalid as error:
        if not error.reason.startswith(_TYPE_ERRORS):
            raise
        listed = ", ".join(f"{c} {kind.upper()}" for c, kind in columns)
        raise Invalid(
            "a value is not of its column's type",
            detail=error.message,
            hint=f"the view's columns: {listed}",
            reason="TYPE",
        ) from error
    if len(rows) > MOST_ROWS:
        raise Unsupported(
            f"an update of more than {MOST_ROWS} view rows at once", reason="TOO_MANY_ROWS"
        )
    return rows
