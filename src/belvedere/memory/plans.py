"""Plans over rows in memory: the operators of the algebra in Arrow and numpy, without Spark.

Signed rows have a sign beside their columns, +1 or -1 and as many rows as the count says, as in the
SQL of a plan. What is not computed here is declined, never approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Filter,
    Join,
    JoinKind,
    Negate,
    Net,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    Union,
    Unsigned,
)
from belvedere.algebra.scalars import Scalar, every
from belvedere.algebra.types import parse
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.equality import Numbers, RowGroups, grouped, meeting, numbered
from belvedere.memory.scalars import Value, as_kind, divided, true, value
from belvedere.sql.render import SIGN


@dataclass(frozen=True)
class Rows:
    """Rows in memory: columns by name, with signs or without, and their types in Spark's words."""

    table: pa.Table
    types: Mapping[str, str]

    @property
    def signed(self) -> bool:
        """Whether the rows have signs."""
        return SIGN in self.table.column_names

    @property
    def signs(self) -> Numbers:
        """The sign of each row."""
        if not self.signed:
            return np.ones(self.table.num_rows, dtype=np.int64)
        signs: Numbers = self.table[SIGN].to_numpy().astype(np.int64)
        return signs

    def columns(self, names: Iterable[str]) -> list[pa.ChunkedArray]:
        """Some columns."""
        return [self.table[n] for n in names]

    def take(self, places: Any) -> Rows:
        """The rows at some places."""
        return replace(self, table=self.table.take(pa.array(places)))

    def where(self, mask: Any) -> Rows:
        """The rows for which a mask is true."""
        return replace(self, table=self.table.filter(mask))

    def with_signs(self, signs: Numbers | None) -> Rows:
        """The same rows with other signs, or without."""
        plain = self.table.drop_columns([SIGN]) if self.signed else self.table
        return replace(self, table=plain if signs is None else plain.append_column(SIGN, [signs]))


@dataclass
class Memory:
    """Computes plans over leaves that are in memory, each part once."""

    leaves: Callable[[Scan | Change], pa.Table | None]
    """The rows of a leaf under its table's names, if they are in memory."""
    most: int
    """Rows of any part; more is for Spark."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Those of columns by name, for relations that are known to be empty."""
    _found: dict[int, tuple[Rel, Rows | Declined]] = field(default_factory=dict)

    def rows(self, q: Rel) -> Rows:
        """The rows of a plan; raises `Declined` for what is left to Spark."""
        if id(q) not in self._found:
            try:
                found: Rows | Declined = self._rows(q)
            except Declined as why:
                found = why
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError) as why:
                # A result that does not fit, or that Arrow has no way to compute.
                found = Declined(str(why))
            self._found[id(q)] = q, found
        _, known = self._found[id(q)]
        if isinstance(known, Declined):
            raise known
        return known

    def _rows(self, q: Rel) -> Rows:
        match q:
            case Scan() | Change():
                return self._leaf(q)
            case Filter():
                rows = self.rows(q.child)
                return rows.where(true(q.predicate, rows.table, rows.types))
            case Project():
                return _project(q, self.rows(q.child))
            case Join():
                return self._join(q, self.rows(q.left), self.rows(q.right))
            case Restrict():
                return self._restrict(q, self.rows(q.child), self.rows(q.among))
            case Union():
                return _union(q, [self.rows(c) for c in q.children])
            case Negate():
                rows = self.rows(q.child)
                return rows.with_signs(-rows.signs)
            case Distinct():
                return _once(self.rows(q.child), q.columns)
            case Support():
                return netted(self.rows(q.child), q.columns)[0].with_signs(None)
            case Net():
                rows, counts = netted(self.rows(q.child), q.columns)
                return rows.with_signs(counts)
            case Unsigned():
                return self._unsigned(self.rows(q.child), q.columns)
            case Aggregate():
                return _aggregate(q, self.rows(q.child))
            case Empty() if q.columns and set(q.columns) <= self.types.keys():
                kinds_of = {c: self.types[c] for c in q.columns}
                shape = pa.schema([pa.field(c, kinds.arrow(k)) for c, k in kinds_of.items()])
                return Rows(shape.empty_table(), kinds_of)
            case _:
                raise Declined(type(q).__name__)

    def _leaf(self, q: Scan | Change) -> Rows:
        held = self.leaves(q)
        if held is None or not q.fields or held.num_rows > self.most:
            raise Declined(f"{q.table} is not in memory")
        sources, names = [f.source for f in q.fields], [f.name for f in q.fields]
        # Spark's own names of the same types may differ in how long a text can be.
        shape = pa.schema([pa.field(f.name, kinds.arrow(f.type)) for f in q.fields])
        table = held.select(sources).rename_columns(names).cast(shape)
        rows = Rows(table, {f.name: f.type for f in q.fields})
        if not isinstance(q, Change):
            return rows
        counts = held[SIGN].to_numpy().astype(np.int64)
        return self._units(rows, np.abs(counts), np.sign(counts))

    def _units(self, rows: Rows, times: Numbers, signs: Numbers | None) -> Rows:
        """Each row as often as a count says."""
        if (times == 1).all():
            return rows.with_signs(signs)
        if (times < 0).any() or times.sum() > self.most:
            raise Declined("counts of rows out of bounds")
        each = np.repeat(np.arange(len(times)), times)
        return rows.take(each).with_signs(None if signs is None else signs[each])

    def _unsigned(self, rows: Rows, columns: tuple[str, ...]) -> Rows:
        if not rows.signed:
            return rows
        net, counts = netted(rows, columns)
        return self._units(net, counts, None)

    def _restrict(self, q: Restrict, rows: Rows, keys: Rows) -> Rows:
        if not q.key:
            return (
                rows if keys.table.num_rows else rows.where(pa.repeat(False, rows.table.num_rows))
            )
        left, right = numbered(rows.columns(q.key), keys.columns(q.among.columns))
        return rows.where(pa.array(np.isin(left, right)))

    def _join(self, q: Join, left: Rows, right: Rows) -> Rows:
        lefts, rights = self._pairs(q, left, right)
        match q.kind:
            case JoinKind.SEMI | JoinKind.ANTI:
                met = np.zeros(left.table.num_rows, dtype=bool)
                met[lefts] = True
                return left.where(pa.array(met if q.kind is JoinKind.SEMI else ~met))
            case JoinKind.FULL:
                raise Declined("a full join")
            case JoinKind.LEFT:
                if right.signed:
                    raise Declined("an outer join with signed rows")
                alone = np.setdiff1d(np.arange(left.table.num_rows), lefts)
                lefts = np.concatenate([lefts, alone])
                # No place: NULL in every column.
                places = pa.array(
                    np.concatenate([rights, np.zeros(len(alone), dtype=np.int64)]),
                    mask=np.arange(len(lefts)) >= len(rights),
                )
                one = left.take(lefts)
                return _beside(one, right.take(places), one.signs if left.signed else None)
            case JoinKind.INNER:
                one, other = left.take(lefts), right.take(rights)
                signs = one.signs * other.signs if left.signed or right.signed else None
                return _beside(one, other, signs)

    def _pairs(self, q: Join, left: Rows, right: Rows) -> tuple[Numbers, Numbers]:
        """The places of the rows that meet."""
        met, rest = _equalities(q, left, right)
        a, b = (np.zeros(r.table.num_rows, dtype=np.int64) for r in (left, right))
        if met:
            a, b = numbered([m.left for m in met], [m.right for m in met])
        for m in met:
            if not m.null_safe:
                a, b = np.where(_null(m.left), -1, a), np.where(_null(m.right), -2, b)
        lefts, rights = meeting(a, b, self.most)
        if rest.conjuncts and not rest.columns:
            raise Declined("a join by a constant")
        if not rest.conjuncts:
            return lefts, rights
        own = {c: left.table[c].take(pa.array(lefts)) for c in left.types if c in rest.columns}
        own |= {c: right.table[c].take(pa.array(rights)) for c in right.types if c in rest.columns}
        mask = true(rest, pa.table(own), {**left.types, **right.types}).to_numpy()
        return lefts[mask], rights[mask]


@dataclass(frozen=True)
class _Met:
    """Two columns that are equal where rows meet."""

    left: pa.ChunkedArray
    right: pa.ChunkedArray
    null_safe: bool


def _equalities(q: Join, left: Rows, right: Rows) -> tuple[list[_Met], Scalar]:
    """What must be equal on both sides of a join, and the rest of its condition."""
    met, rest = [], []
    for part in q.on.conjuncts:
        sides = _sides(part, left, right)
        if sides is None:
            rest.append(part)
            continue
        ours, theirs = (
            value(s, r.table, r.types) for s, r in zip(sides, (left, right), strict=True)
        )
        kind = kinds.common(ours.kind, theirs.kind)
        null_safe = isinstance(part.expr, exp.NullSafeEQ)
        met.append(_Met(as_kind(ours, kind).data, as_kind(theirs, kind).data, null_safe))
    return met, every(rest)


def _sides(part: Scalar, left: Rows, right: Rows) -> tuple[Scalar, Scalar] | None:
    """The left and the right side of an equality between the two."""
    if not isinstance(part.expr, exp.EQ | exp.NullSafeEQ):
        return None
    one, other = Scalar(part.expr.this), Scalar(part.expr.expression)
    for ours, theirs in ((one, other), (other, one)):
        read = ours.columns and theirs.columns
        if read and ours.columns <= left.types.keys() and theirs.columns <= right.types.keys():
            return ours, theirs
    return None


def _project(q: Project, rows: Rows) -> Rows:
    found = {o.name: value(o.value, rows.table, rows.types) for o in q.outputs}
    columns = {name: v.data for name, v in found.items()}
    signs = rows.signs if rows.signed else None
    return Rows(_table(columns, signs), {name: v.kind for name, v in found.items()})


def _union(q: Union, parts: list[Rows]) -> Rows:
    types = [parts[0].types[c] for c in q.children[0].columns]
    signed = any(p.signed for p in parts)
    tables = []
    for part, child in zip(parts, q.children, strict=True):
        if [part.types[c] for c in child.columns] != types:
            raise Declined("a union of several types")
        columns = dict(zip(q.columns, part.columns(child.columns), strict=True))
        tables.append(_table(columns, part.signs if signed else None))
    return Rows(pa.concat_tables(tables), dict(zip(q.columns, types, strict=True)))


def _once(rows: Rows, columns: tuple[str, ...]) -> Rows:
    """Each row once."""
    return rows.take(grouped(rows.columns(columns), rows.table.num_rows).first)


def netted(rows: Rows, columns: tuple[str, ...]) -> tuple[Rows, Numbers]:
    """Each row whose counts do not cancel, and what they come to."""
    groups = grouped(rows.columns(columns), rows.table.num_rows)
    counts = groups.total(rows.signs)
    if not rows.signed:
        counts = np.minimum(counts, 1)
    some = counts != 0
    return rows.take(groups.first[some]), counts[some]


def _beside(left: Rows, right: Rows, signs: Numbers | None) -> Rows:
    """Rows of two sides, place by place."""
    columns = {c: left.table[c] for c in left.types} | {c: right.table[c] for c in right.types}
    return Rows(_table(columns, signs), {**left.types, **right.types})


def _table(columns: Mapping[str, pa.ChunkedArray], signs: Numbers | None = None) -> pa.Table:
    if not columns:
        raise Declined("rows without columns")
    return pa.table({**columns, **({} if signs is None else {SIGN: signs})})


def _aggregate(q: Aggregate, rows: Rows) -> Rows:
    groups = grouped(rows.columns(q.keys), rows.table.num_rows)
    columns = {k: rows.table[k].take(pa.array(groups.first)) for k in q.keys}
    types = {k: rows.types[k] for k in q.keys}
    for agg in q.aggregates:
        found = _aggregated(agg, rows, groups)
        columns[agg.name], types[agg.name] = found.data, found.kind
    return Rows(_table(columns), types)


def _aggregated(agg: Agg, rows: Rows, groups: RowGroups) -> Value:
    if agg.distinct:
        raise Declined(f"{agg.function} of distinct values")
    arguments = [value(a, rows.table, rows.types) for a in agg.args]
    match agg.function, arguments:
        case "count", _:
            counted = rows.signs
            for argument in arguments:
                counted = np.where(_null(argument.data), 0, counted)
            return Value(pa.chunked_array([groups.total(counted)]), "bigint")
        case "sum", [argument]:
            return _sum(argument, rows, groups)
        case "avg", [argument] if not rows.signed and parse(argument.kind).is_decimal:
            return _average(argument, rows, groups)
        case (("min" | "max"), [argument]):
            if parse(argument.kind).is_float:
                raise Declined(f"{agg.function} of {argument.kind}")
            return Value(_per_group(argument.data, groups, agg.function), argument.kind)
        case _:
            raise Declined(agg.function)


def _sum(argument: Value, rows: Rows, groups: RowGroups) -> Value:
    """Sums in the type that Spark gives them; those that may not fit are declined."""
    if parse(argument.kind).is_integer:
        kind, most = "bigint", 2**63
        data = argument.data.cast(pa.int64())
    else:
        precision, scale = kinds.digits(argument.kind)
        kind = kinds.decimal(min(precision + 10, kinds.MOST_DIGITS), scale)
        most = 10 ** (kinds.digits(kind)[0] - scale)
        data = argument.data.cast(pa.decimal128(kinds.MOST_DIGITS, scale))
    largest = pc.max(pc.abs_checked(data)).as_py()
    if largest is not None and largest * len(data) >= most:
        raise Declined("a sum that may be too large")
    if rows.signed:
        data = pc.if_else(pa.array(rows.signs < 0), pc.negate_checked(data), data)
    return Value(_per_group(data, groups, "sum").cast(kinds.arrow(kind)), kind)


def _average(argument: Value, rows: Rows, groups: RowGroups) -> Value:
    """Averages of decimals, with four digits more; NULL for groups without a value."""
    counts = pa.chunked_array([groups.total(np.where(_null(argument.data), 0, 1))])
    some = pc.if_else(pc.equal(counts, 0), pa.scalar(None, counts.type), counts)
    precision, scale = kinds.digits(argument.kind)
    kind = kinds.decimal(min(precision + 4, kinds.MOST_DIGITS), scale + 4)
    by = as_kind(Value(some, "bigint"), "decimal(20,0)")
    return divided(_sum(argument, rows, groups), by, kind)


def _per_group(data: pa.ChunkedArray, groups: RowGroups, function: str) -> pa.ChunkedArray:
    """An aggregate of Arrow's, a value for each group; NULL for those without any."""
    if not len(data):
        return pa.chunked_array([pa.nulls(len(groups), data.type)])
    table = pa.table({"group": groups.of, "value": data})
    found = table.group_by("group", use_threads=False).aggregate([("value", function)])
    return found.sort_by("group")[f"value_{function}"]


def _null(data: pa.ChunkedArray) -> Any:
    return pc.is_null(data).to_numpy()
