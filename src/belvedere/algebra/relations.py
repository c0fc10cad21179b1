"""Relations: the closed union `Rel` that every rule is a function of.

A relation denotes a bag with signed multiplicities (a Z-set). A definition is built of the
operators SQL has; a plan that a rule derives from it may also use the signed ones
(`Change`, `Negate`, `Net`, `Support`, `Unsigned`, `Restrict`). Nodes are immutable, check themselves when
built, and never point at their parents. Column names are unique among joined relations,
without regard to case; the set operations are positional and name their own output.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from sqlglot import exp

from belvedere.algebra.scalars import TRUE, Scalar, call
from belvedere.errors import Internal


class At(Enum):
    """Which state of a table: the recorded version or the pinned target."""

    OLD = "old"
    NEW = "new"


class JoinKind(Enum):
    """How a join treats rows with and without a partner."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Field:
    """A column of a table as a plan reads it: its name here, its name there, its type."""

    name: str
    source: str
    type: str


@dataclass(frozen=True)
class Output:
    """A named scalar."""

    name: str
    value: Scalar


@dataclass(frozen=True)
class Agg:
    """A named aggregate: a function in Spark's vocabulary over scalars; count(*) has no argument."""

    name: str
    function: str
    args: tuple[Scalar, ...] = ()
    distinct: bool = False

    @property
    def call(self) -> Scalar:
        """The aggregate as SQL writes it.

        >>> from belvedere.algebra.scalars import col
        >>> str(Agg("n", "count").call), str(Agg("d", "count", (col("a"),), distinct=True).call)
        ('COUNT(*)', 'COUNT(DISTINCT `a`)')
        """
        if self.function == "count" and not self.args:
            return Scalar(exp.Count(this=exp.Star()))
        if not self.distinct:
            return call(self.function, *self.args)
        several = len(self.args) if self.function == "count" else 1
        first = exp.Distinct(expressions=[a.expr.copy() for a in self.args[:several]])
        return call(self.function, Scalar(first), *self.args[several:])


@dataclass(frozen=True)
class Order:
    """A sort key: a column of the child."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Scan:
    """The rows of a table in one of its states."""

    table: str
    fields: tuple[Field, ...]
    at: At | int = At.NEW

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)


@dataclass(frozen=True)
class Change:
    """NEW minus OLD of a table, net: for each row value its signed count, never zero."""

    table: str
    fields: tuple[Field, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)


@dataclass(frozen=True)
class Filter:
    """The rows for which the predicate is TRUE."""

    child: Rel
    predicate: Scalar

    def __post_init__(self) -> None:
        _reads(self, self.predicate, self.child)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Project:
    """Each row mapped to named scalars; duplicates stay."""

    child: Rel
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        for o in self.outputs:
            _reads(self, o.value, self.child)
        _unique(self, self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.outputs)


@dataclass(frozen=True)
class Join:
    """Pairs of rows that satisfy a condition; its kind says which rows stay without a partner."""

    left: Rel
    right: Rel
    kind: JoinKind = JoinKind.INNER
    on: Scalar = TRUE

    def __post_init__(self) -> None:
        both = self.left.columns + self.right.columns
        _unique(self, both)
        if not self.on.columns <= set(both):
            raise Internal(f"join reads unknown columns {sorted(self.on.columns - set(both))}")

    @property
    def columns(self) -> tuple[str, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return self.left.columns + self.right.columns


@dataclass(frozen=True)
class Aggregate:
    """One row per distinct key with its aggregates; without a key, always exactly one row."""

    child: Rel
    keys: tuple[str, ...]
    aggregates: tuple[Agg, ...]

    def __post_init__(self) -> None:
        _has(self, self.keys, self.child)
        for a in self.aggregates:
            for arg in a.args:
                _reads(self, arg, self.child)
        _unique(self, self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.keys + tuple(a.name for a in self.aggregates)


@dataclass(frozen=True)
class Distinct:
    """Each row once."""

    child: Rel

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Union:
    """All rows of all children, by position; multiplicities add."""

    children: tuple[Rel, ...]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _aligned(self, self.children, self.columns)


@dataclass(frozen=True)
class Except:
    """Left rows less right rows, by position: once each, or (`all`) by count."""

    left: Rel
    right: Rel
    columns: tuple[str, ...]
    all: bool = False

    def __post_init__(self) -> None:
        _aligned(self, (self.left, self.right), self.columns)


@dataclass(frozen=True)
class Intersect:
    """Rows on both sides, by position: once each, or (`all`) by the smaller count."""

    left: Rel
    right: Rel
    columns: tuple[str, ...]
    all: bool = False

    def __post_init__(self) -> None:
        _aligned(self, (self.left, self.right), self.columns)


@dataclass(frozen=True)
class Window:
    """Each row beside window functions over its partition; all share one PARTITION BY.

    Each function is a sqlglot Window expression whose partition is exactly `partition`.
    """

    child: Rel
    partition: tuple[str, ...]
    functions: tuple[Output, ...]

    def __post_init__(self) -> None:
        _has(self, self.partition, self.child)
        for f in self.functions:
            _reads(self, f.value, self.child)
        _unique(self, self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns + tuple(f.name for f in self.functions)


@dataclass(frozen=True)
class TopK:
    """Rows offset+1 … offset+limit in an order; ties are broken by all columns, ascending, NULLs first."""

    child: Rel
    order: tuple[Order, ...]
    limit: int
    offset: int = 0

    def __post_init__(self) -> None:
        _has(self, tuple(o.column for o in self.order), self.child)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Keys:
    """Key values to restrict to, one per row of an unsigned relation without duplicates."""

    rel: Rel


@dataclass(frozen=True)
class Hash:
    """A share of all key values: those whose seeded hash is below a bound (SVC's η)."""

    seed: int
    ratio: float


By: TypeAlias = Keys | Hash


@dataclass(frozen=True)
class Restrict:
    """The rows whose key is among those of `by`, by position, NULL equal to NULL.

    By a hash it stands only while it is pushed down: `rules/sample.py` makes filters of it.
    """

    child: Rel
    key: tuple[str, ...]
    by: By

    def __post_init__(self) -> None:
        _has(self, self.key, self.child)
        if isinstance(self.by, Keys) and len(self.by.rel.columns) != len(self.key):
            raise Internal(f"restrict by {self.by.rel.columns} on {self.key}")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns

    @property
    def among(self) -> Rel:
        """The key values that are kept."""
        if isinstance(self.by, Hash):
            raise Internal("a restriction by a hash is a filter by now")
        return self.by.rel


@dataclass(frozen=True)
class Negate:
    """Every multiplicity with the other sign."""

    child: Rel

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Net:
    """The same rows with their counts added up; rows that cancel disappear. No count exceeds one."""

    child: Rel

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Support:
    """Each row whose net multiplicity is not zero, once."""

    child: Rel

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Unsigned:
    """The same rows, each as often as its net multiplicity says, which is never negative."""

    child: Rel

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Empty:
    """No rows."""

    columns: tuple[str, ...]


Rel: TypeAlias = (
    Scan
    | Change
    | Filter
    | Project
    | Join
    | Aggregate
    | Distinct
    | Union
    | Except
    | Intersect
    | Window
    | TopK
    | Restrict
    | Negate
    | Net
    | Support
    | Unsigned
    | Empty
)


def _reads(node: Rel, scalar: Scalar, child: Rel) -> None:
    if not scalar.columns <= set(child.columns):
        missing = sorted(scalar.columns - set(child.columns))
        raise Internal(
            f"{type(node).__name__} reads {missing}", detail=f"its child has {list(child.columns)}"
        )


def _has(node: Rel, names: tuple[str, ...], child: Rel) -> None:
    missing = [n for n in names if n not in child.columns]
    if missing:
        raise Internal(
            f"{type(node).__name__} names {missing}", detail=f"its child has {list(child.columns)}"
        )


def _unique(node: Rel, names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise Internal(f"{type(node).__name__} has two columns named {name!r}")
        seen.add(name.lower())


def _aligned(node: Rel, children: tuple[Rel, ...], columns: tuple[str, ...]) -> None:
    for child in children:
        if len(child.columns) != len(columns):
            raise Internal(
                f"{type(node).__name__} of {len(columns)} columns over one of {len(child.columns)}"
            )
