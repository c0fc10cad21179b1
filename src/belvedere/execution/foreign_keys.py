"""Foreign keys in a refresh: rows that only a change can have, once the changes are checked.

C.c refers to P.p: every c but NULL is some p. Let that hold in both states, and let every key of
ΔP be new (no row of P₀ has it) or gone (no row of P₁ has it). Then, of the rows whose c is among
the keys of ΔP,

    F1  C₁ has those that C⁺ has     a child of a new key is new; a gone key has none
    F2  C₀ has those that C⁻ has     a child of a gone key is gone; a new key had none

so that C is not read for them, and the term is empty if C did not change. The stamp says that the
foreign key holds before. Two look-ups show that it holds after:

    new children have a parent; keys that are gone have no child left
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import At, Scan
from belvedere.delta.small_changes import arrow_schema
from belvedere.rules.lookups import LookUp
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN

if TYPE_CHECKING:
    from belvedere.lake.pins import Pins
    from belvedere.lake.sessions.workspace import Workspace

_EXAMPLES = 3


@dataclass(frozen=True)
class KeyReference:
    """A declared foreign key of one column, between two tables of a plan."""

    child: str
    column: str
    parent: str
    key: str
    kind: str
    """The type of both columns."""

    def __str__(self) -> str:
        return f"{self.child}.{self.column} -> {self.parent}.{self.key}"


def verify_foreign_keys(
    work: Workspace, pins: Pins, declared: Iterable[KeyReference], versions: Mapping[str, int]
) -> frozenset[str]:
    """The foreign keys that hold at some versions, by a Spark query over all rows for each."""
    return frozenset(
        str(r) for r in declared if not work.query(_orphans(work, pins, r, versions)).take(1)
    )


def _orphans(work: Workspace, pins: Pins, r: KeyReference, versions: Mapping[str, int]) -> str:
    child, parent = (quote(pins.opened(work, t, versions[t])) for t in (r.child, r.parent))
    return (
        f"SELECT 1 FROM {child} AS c LEFT ANTI JOIN {parent} AS p"
        f" ON c.{quote(r.column)} = p.{quote(r.key)} WHERE c.{quote(r.column)} IS NOT NULL"
    )


@dataclass(frozen=True)
class CheckedForeignKeys:
    """The foreign keys of one refresh: which hold after it, and which look-ups may use."""

    holding: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    """Why others cannot be used."""
    _changes: Mapping[str, pa.Table] = field(default_factory=dict)
    _usable: frozenset[KeyReference] = frozenset()

    def answers(self, wanted: LookUp) -> bool:
        """Whether the rows of a look-up are those of a change."""
        return (
            not wanted.nulls
            and bool(wanted.sources)
            and all(
                any(
                    (r.child, r.column) == (wanted.leaf.table, wanted.column)
                    and (r.parent, r.key) == source
                    for r in self._usable
                )
                for source in wanted.sources
            )
        )

    def rows(self, leaf: Scan, column: str, values: pa.Array) -> pa.Table:
        """F1, F2: the rows of a leaf that have one of the values in a column."""
        change = self._changes.get(leaf.table)
        if change is None:
            return pa.table({})
        rows = copies_in_change(change, 1 if leaf.at is At.NEW else -1, column, values)
        return rows.select([f.source for f in leaf.fields])


def copies_in_change(change: pa.Table, sign: int, column: str, values: pa.Array) -> pa.Table:
    """The inserted (1) or deleted (-1) rows with one of the values in a column, each as often."""
    counts = pc.multiply(change[SIGN], sign)
    rows = change.filter(pc.and_(pc.greater(counts, 0), pc.is_in(change[column], values)))
    times = np.abs(rows[SIGN].to_numpy())
    return rows.take(np.repeat(np.arange(len(times)), times))


NewValues: TypeAlias = Callable[[str, str, pa.Array], pa.Array | None]
"""Those of some values that a table's column has in the new state, as often as it has them.

None if reading them needs Spark.
"""


def check_foreign_keys(
    held_before: Collection[str],
    declared: Collection[KeyReference],
    moving: Collection[str],
    changes: Mapping[str, pa.Table],
    new_values: NewValues,
) -> CheckedForeignKeys:
    """Check the foreign keys that held before a refresh against its changes."""
    holding, usable, notes = set[str](), set[KeyReference](), list[str]()
    for reference in declared:
        tables = {reference.child, reference.parent}.intersection(moving)
        if str(reference) not in held_before or not tables <= changes.keys():
            continue
        result = _Check(reference, changes, new_values).run() if tables else _UNTOUCHED
        if result is None:
            continue
        notes += [f"{reference} is not relied on: {violation}" for violation in result.violations]
        if not result.violations:
            holding.add(str(reference))
            if result.no_key_stays:
                usable.add(reference)
    return CheckedForeignKeys(frozenset(holding), tuple(notes), changes, frozenset(usable))


@dataclass(frozen=True)
class _CheckResult:
    violations: list[str]
    no_key_stays: bool


_UNTOUCHED = _CheckResult([], no_key_stays=False)


@dataclass(frozen=True)
class _Check:
    reference: KeyReference
    changes: Mapping[str, pa.Table]
    new_values: NewValues

    def run(self) -> _CheckResult | None:
        """What the changes do to a foreign key; None if finding that out needs Spark."""
        r = self.reference
        new_references, keys = self._new_references(), self._changed_keys()
        parents = self._after(
            r.parent, r.key, pa.concat_arrays([new_references, _one_chunk(keys["key"])])
        )
        if parents is None:
            return None
        counted = pc.value_counts(parents)
        after = pa.table({"key": counted.field("values"), "after": counted.field("counts")})
        keys = keys.join(after, "key")
        rows = pc.fill_null(keys["after"], 0)
        gone = _one_chunk(keys.filter(pc.equal(rows, 0))["key"])
        orphaned = self._after(r.child, r.column, gone)
        if orphaned is None:
            return None
        dangling = new_references.filter(pc.invert(pc.is_in(new_references, parents)))
        violations = [
            *_violation(dangling, f"rows of {r.child} came that refer to none of {r.parent}"),
            *_violation(pc.unique(orphaned), f"rows of {r.parent} went that {r.child} refers to"),
        ]
        stays = pc.and_(pc.greater(rows, 0), pc.not_equal(rows, keys["net"]))
        return _CheckResult(violations, no_key_stays=not pc.any(stays).as_py())

    def _after(self, table: str, column: str, values: pa.Array) -> pa.Array | None:
        return self.new_values(table, column, pc.unique(values)) if len(values) else values

    def _new_references(self) -> pa.Array:
        """The values of inserted children."""
        change = self.changes.get(self.reference.child)
        if change is None:
            return pa.array([], self._kind)
        inserted = change.filter(pc.greater(change[SIGN], 0))
        return pc.unique(_one_chunk(inserted[self.reference.column]).drop_null())

    def _changed_keys(self) -> pa.Table:
        """Each changed key of the parent, and by how many rows."""
        change = self.changes.get(self.reference.parent)
        if change is None:
            return pa.table({"key": pa.array([], self._kind), "net": pa.array([], pa.int64())})
        rows = pa.table({"key": change[self.reference.key], "net": change[SIGN]})
        net = rows.group_by("key").aggregate([("net", "sum")]).rename_columns(["key", "net"])
        return net.filter(pc.is_valid(net["key"]))

    @property
    def _kind(self) -> pa.DataType:
        return arrow_schema({"key": self.reference.kind}).field(0).type


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _violation(values: pa.Array, description: str) -> Iterator[str]:
    if len(values):
        examples = ", ".join(map(str, values[:_EXAMPLES].to_pylist()))
        yield f"{description} ({examples}{', …' if len(values) > _EXAMPLES else ''})"
