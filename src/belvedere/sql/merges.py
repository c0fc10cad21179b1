"""A merge of source rows into stored rows, and its statement for each engine.

In its scalars `t` is the stored row and `s` the source row. DELETE is tried before UPDATE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.sql.names import quote

MISMATCH = "STATE_MISMATCH"
"""What a guard raises where stored rows are not what their vector says."""


@dataclass(frozen=True)
class Merge:
    """The rows that match and the actions on them; `keys` are the columns compared NULL-safe."""

    keys: tuple[str, ...]
    insert: Mapping[str, Scalar]
    insert_when: Scalar | None = None
    update: Mapping[str, Scalar] | None = None
    update_when: Scalar | None = None
    delete_when: Scalar | None = None

    @property
    def on(self) -> Scalar:
        """The match: every key the same."""
        pairs = [
            exp.NullSafeEQ(this=_column("t", k), expression=_column("s", k)) for k in self.keys
        ]
        return Scalar(exp.and_(*pairs) if pairs else exp.true())

    def spark(self, target: str, source_sql: str) -> str:
        """The statement for Spark."""
        clauses = [f"MERGE INTO {target} AS t USING ({source_sql}) AS s ON {self.on}"]
        if self.delete_when is not None:
            clauses.append(f"WHEN MATCHED AND ({self.delete_when}) THEN DELETE")
        if self.update:
            sets = ", ".join(f"t.{quote(c)} = {value}" for c, value in self.update.items())
            clauses.append(f"WHEN MATCHED{_and(self.update_when)} THEN UPDATE SET {sets}")
        names = ", ".join(quote(c) for c in self.insert)
        values = ", ".join(str(v) for v in self.insert.values())
        clauses.append(
            f"WHEN NOT MATCHED{_and(self.insert_when)} THEN INSERT ({names}) VALUES ({values})"
        )
        return "\n".join(clauses)


def datafusion(scalar: Scalar) -> str:
    """A scalar of a merge in the SQL that delta-rs speaks.

    It has no raise_error: a guard CASE WHEN x < 0 THEN raise_error(…) ELSE x END becomes
    x / CASE WHEN x < 0 THEN 0 ELSE 1 END, which fails at the same rows. Its parser takes what
    follows IS NOT DISTINCT FROM, ANDs included, as one operand: such a comparison is parenthesised.
    """
    return scalar.expr.transform(_spelled).sql(dialect="postgres")


def nan_greatest(scalar: Scalar) -> Scalar:
    """LEAST and GREATEST of two floating point numbers as Spark has them: NaN is the greatest.

    DataFusion goes by the bits, and NaNs with a sign come before all numbers.
    """
    return Scalar(scalar.expr.transform(_nan_greatest))


def _nan_greatest(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Least | exp.Greatest):
        return node
    one, other = node.this, node.expressions[0]
    if isinstance(node, exp.Greatest):
        ifs = [(one, one), (other, other)]
    else:
        ifs = [(one, exp.func("coalesce", other, one)), (other, exp.func("coalesce", one, other))]
    found = exp.Case(default=node.copy())
    for value, then in ifs:
        found = found.when(exp.Anonymous(this="isnan", expressions=[value.copy()]), then.copy())
    return exp.Paren(this=found)


def _spelled(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.NullSafeEQ) and not isinstance(node.parent, exp.Paren):
        return exp.Paren(this=node.copy())
    if not isinstance(node, exp.Case) or len(node.args["ifs"]) != 1:
        return node
    (branch,) = node.args["ifs"]
    raises = (c for c in branch.args["true"].find_all(exp.Anonymous) if c.name == "raise_error")
    if not any(raises):
        return node
    zero = exp.If(this=branch.this.copy(), true=exp.Literal.number(0))
    divisor = exp.Case(ifs=[zero], default=exp.Literal.number(1))
    value = exp.Paren(this=node.args["default"].copy())
    return exp.Paren(this=exp.Div(this=value, expression=divisor, typed=True))


def _column(table: str, name: str) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def _and(condition: Scalar | None) -> str:
    return "" if condition is None else f" AND ({condition})"
