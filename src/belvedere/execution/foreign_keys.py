"""Foreign keys in a refresh: rows that only a change can have, once the changes are checked.

C.c refers to P.p: every c but NULL is some p. Let that hold in both states, and let every key of
ΔP be new (no row of P₀ has it) or gone (no row of P₁ has it). Then, of the rows whose c is among
the keys of ΔP,

    F1  C₁ has those that C⁺ has     a child of a new key is new; a gone key has none
    F2  C₀ has those that C⁻ has     a child of a gone key is gone; a new key had none

so that C is not read for them, and the term is empty if C did not change. That it holds before is
in the stamp; that it holds after is found by looking up what the changes ask of it:

    children that came have a parent; keys that are gone have no child left
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import At, Scan
from belvedere.delta.small_changes import arrow_schema
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.workspace import Workspace
from belvedere.rules.lookups import LookUp
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN
from belvedere.views.definition import View
from belvedere.views.references import Reference, references

_EXAMPLES = 3


def verified(
    work: Workspace, pins: Pins, view: View, versions: Mapping[str, int]
) -> frozenset[str]:
    """The references that hold between some versions: every row is looked at."""
    return frozenset(
        str(r)
        for r in references(work.door, view, pins.table)
        if not work.query(_orphans(work, pins, r, versions)).take(1)
    )


def _orphans(work: Workspace, pins: Pins, r: Reference, versions: Mapping[str, int]) -> str:
    child, parent = (quote(pins.opened(work, t, versions[t])) for t in (r.child, r.parent))
    return (
        f"SELECT 1 FROM {child} AS c LEFT ANTI JOIN {parent} AS p"
        f" ON c.{quote(r.column)} = p.{quote(r.key)} WHERE c.{quote(r.column)} IS NOT NULL"
    )


@dataclass
class Relied:
    """The references of one refresh: which hold after it, which it relies on, and why not."""

    holding: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    _changes: Mapping[str, pa.Table] = field(default_factory=dict)
    _on: set[Reference] = field(default_factory=set)

    def answers(self, wanted: LookUp) -> bool:
        """Whether the rows that are asked for are those of a change."""
        return (
            not wanted.nulls
            and bool(wanted.sources)
            and all(
                any(
                    (r.child, r.column) == (wanted.leaf.table, wanted.column)
                    and (r.parent, r.key) == source
                    for r in self._on
                )
                for source in wanted.sources
            )
        )

    def rows(self, leaf: Scan, column: str, values: pa.Array) -> pa.Table:
        """F1, F2: the rows of a leaf that have one of the values in a column."""
        change = self._changes.get(leaf.table)
        if change is None:
            return pa.table({})
        rows = copies(change, 1 if leaf.at is At.NEW else -1, column, values)
        return rows.select([f.source for f in leaf.fields])


def copies(change: pa.Table, sign: int, column: str, values: pa.Array) -> pa.Table:
    """The rows that came (1) or went (-1) with one of the values in a column, as often as they did."""
    counts = pc.multiply(change[SIGN], sign)
    some = change.filter(pc.and_(pc.greater(counts, 0), pc.is_in(change[column], values)))
    times = np.abs(some[SIGN].to_numpy())
    return some.take(np.repeat(np.arange(len(times)), times))


Values: TypeAlias = Callable[[str, str, pa.Array], pa.Array | None]
"""The values of a table's column, after the refresh, that are among some: as often as they are.

None if that cannot be found out at little cost.
"""


def checked(
    known: Collection[str],
    possible: Collection[Reference],
    moving: Collection[str],
    changes: Mapping[str, pa.Table],
    values: Values,
) -> Relied:
    """What holds after a refresh if what is known held before, and what can be relied on."""
    relied = Relied(_changes=changes)
    holding = set()
    for reference in possible:
        tables = {reference.child, reference.parent}.intersection(moving)
        if str(reference) not in known or not tables <= changes.keys():
            continue
        found = _Check(reference, changes, values).run() if tables else _UNTOUCHED
        if found is None:
            continue
        relied.notes += [f"{reference} is not relied on: {what}" for what in found.broken]
        if not found.broken:
            holding.add(str(reference))
            if found.no_key_stays:
                relied._on.add(reference)
    relied.holding = frozenset(holding)
    return relied


@dataclass(frozen=True)
class _Found:
    broken: list[str]
    no_key_stays: bool


_UNTOUCHED = _Found([], no_key_stays=False)


@dataclass(frozen=True)
class _Check:
    reference: Reference
    changes: Mapping[str, pa.Table]
    values: Values

    def run(self) -> _Found | None:
        """What the changes do to a reference; None if that cannot be found out at little cost."""
        r = self.reference
        came, keys = self._came(), self._keys()
        there = self._after(r.parent, r.key, pa.concat_arrays([came, _one(keys["key"])]))
        if there is None:
            return None
        counted = pc.value_counts(there)
        after = pa.table({"key": counted.field("values"), "after": counted.field("counts")})
        keys = keys.join(after, "key")
        rows = pc.fill_null(keys["after"], 0)
        left = self._after(r.child, r.column, _one(keys.filter(pc.equal(rows, 0))["key"]))
        if left is None:
            return None
        orphans = came.filter(pc.invert(pc.is_in(came, there)))
        broken = [
            *_said(orphans, f"rows of {r.child} came that refer to none of {r.parent}"),
            *_said(pc.unique(left), f"rows of {r.parent} went that {r.child} refers to"),
        ]
        stays = pc.and_(pc.greater(rows, 0), pc.not_equal(rows, keys["net"]))
        return _Found(broken, no_key_stays=not pc.any(stays).as_py())

    def _after(self, table: str, column: str, values: pa.Array) -> pa.Array | None:
        return self.values(table, column, pc.unique(values)) if len(values) else values

    def _came(self) -> pa.Array:
        """The references that came."""
        change = self.changes.get(self.reference.child)
        if change is None:
            return pa.array([], self._kind)
        some = change.filter(pc.greater(change[SIGN], 0))
        return pc.unique(_one(some[self.reference.column]).drop_null())

    def _keys(self) -> pa.Table:
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


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _said(values: pa.Array, what: str) -> Iterator[str]:
    if len(values):
        some = ", ".join(map(str, values[:_EXAMPLES].to_pylist()))
        yield f"{what} ({some}{', …' if len(values) > _EXAMPLES else ''})"
