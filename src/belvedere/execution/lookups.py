"""Look-ups in memory: the rows of large tables that have the keys of the changes.

The rules are in rules/lookups.py. This pass decides which look-ups are worth it, reads their rows
from the tables' files without Spark, and puts them into the plan.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import (
    At,
    Change,
    Empty,
    Field,
    Negate,
    Rel,
    Scan,
    Union,
    Unsigned,
)
from belvedere.analyses.sizes import Sizes
from belvedere.analyses.values import Sources
from belvedere.delta.lookups import can_look_up, look_up
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.context import ExecutionContext
from belvedere.execution.in_memory import MAX_ROWS, evaluate_in_memory
from belvedere.execution.records import RanStep
from belvedere.execution.sources import Versions
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows
from belvedere.rules.empties import without_empties
from belvedere.rules.lookups import LookUp, Texts, filled, look_ups
from belvedere.rules.outward import SMALL

MIN_TABLE_ROWS = 50_000
"""A smaller table is read whole instead."""
MAX_PART = 0.25
"""A table is read whole if the look-up wants a larger part of a column's values."""


def resolve_lookups(change: ChangePlan, context: ExecutionContext) -> ChangePlan:
    """The plan over rows that are looked up: those of the changes' keys, then of their keys.

    After each look-up the parts that can be computed in memory are computed: their results say
    which rows to look up next, and how few.
    """
    while True:
        change = evaluate_in_memory(change, context.memory)
        plan, wanted = wanted_lookups(change.plan, change.sizes, context)
        if not wanted:
            return change
        groups, leaves = next_groups(wanted, change.sizes, context)
        for group in groups:
            change = _look_up(change, group, leaves, context)
        change = change.with_plan(without_empties(filled(plan, leaves)))


def wanted_lookups(
    q: Rel, sizes: Sizes, context: ExecutionContext, expected: Collection[str] = ()
) -> tuple[Rel, dict[Scan, LookUp]]:
    """The look-ups that are worth it now, and the plan with placeholders for their rows.

    Results under `expected` names count as if they were in memory.
    """

    def in_memory(leaf: Scan | Change) -> bool:
        return leaf.table in expected or context.memory.has(leaf)

    return look_ups(q, in_memory, partial(_lookup_size, sizes, context))


def _lookup_size(sizes: Sizes, context: ExecutionContext, wanted: LookUp) -> float:
    """How many values a look-up has; infinite if it is not worth it."""
    if context.foreign_keys.answers(wanted):
        return 0
    rows = sizes.rows(wanted.leaf)
    if not MIN_TABLE_ROWS <= rows < inf or wanted in context.lookups.failed:
        return inf
    table, _ = context.versions.version(wanted.leaf)
    if not context.workspace.computes_here or not can_look_up(table, wanted.column):
        return inf
    count = value_count(wanted.sources, sizes, context)
    part = LookupGroup(wanted.leaf, wanted.column, wanted.sources).part(sizes, count)
    return count if part <= MAX_PART and part * rows <= SMALL else inf


def value_count(sources: Sources, sizes: Sizes, context: ExecutionContext) -> float:
    """How many distinct values some columns have; estimated if they are not in memory yet."""
    if all(table in context.memory for table, _ in sources):
        return len(context.memory.values(sources))
    return sum(sizes.known.changed[table] for table, _ in sources)


@dataclass
class LookupGroup:
    """The places of a plan that want rows of one table by one column: they are read at once."""

    leaf: Scan
    """With the fields that any of them wants."""
    column: str
    sources: Sources = frozenset()
    nulls: bool = False
    only: Texts = frozenset()
    in_change: bool = False
    """Whether only a change has such rows, by a foreign key."""
    places: dict[Scan, LookUp] = field(default_factory=dict)

    @property
    def question(self) -> object:
        """What is looked up, whatever the state of the table."""
        return self.leaf.table, self.column, self.sources, self.nulls, self.only, self.in_change

    def matching_texts(self, rows: pa.Table) -> pa.Table:
        """Those of some rows that have the texts."""
        for column, text in self.only:
            rows = rows.filter(pc.equal(rows[column], text))
        return rows

    @property
    def shape(self) -> Scan:
        """The leaf under its table's own names."""
        return with_source_names(self.leaf)

    def part(self, sizes: Sizes, count: float) -> float:
        """The part of the column's values that `count` values are."""
        return count / sizes.values(self.shape, self.column)

    def replacements(self, name: str | None) -> dict[Scan, Rel]:
        """The leaves for its places: of a result under a name, or of no rows."""
        leaves = {place: wanted.leaf for place, wanted in self.places.items()}
        if name is None:
            return {place: Empty(leaf.columns) for place, leaf in leaves.items()}
        return {place: Scan(name, leaf.fields) for place, leaf in leaves.items()}


def with_source_names(leaf: Scan) -> Scan:
    """A leaf under its table's own names, each column once."""
    own = {f.source: Field(f.source, f.source, f.type) for f in leaf.fields}
    return replace(leaf, fields=tuple(own.values()))


def next_groups(
    wanted: dict[Scan, LookUp], sizes: Sizes, context: ExecutionContext
) -> tuple[list[LookupGroup], dict[Scan, Rel]]:
    """The look-ups in the smallest table, and the leaves of the others, which stay for now.

    The rows of the smallest table may show that fewer rows of the others are needed.
    """
    groups = _grouped(wanted, context)
    least = min(sizes.rows(group.leaf) for group in groups)
    first = [group for group in groups if sizes.rows(group.leaf) == least]
    leaves: dict[Scan, Rel] = {
        place: lookup.leaf
        for group in groups
        if sizes.rows(group.leaf) > least
        for place, lookup in group.places.items()
    }
    _add_fields_of_old_states(first, context)
    return sorted(first, key=lambda group: group.leaf.at is At.OLD), leaves


def _grouped(wanted: dict[Scan, LookUp], context: ExecutionContext) -> list[LookupGroup]:
    groups: dict[object, LookupGroup] = {}
    for place, lookup in wanted.items():
        in_change = context.foreign_keys.answers(lookup)
        key = lookup.leaf.table, lookup.leaf.at, lookup.column, lookup.only, in_change
        if key not in groups:
            bare = replace(lookup.leaf, fields=())
            groups[key] = LookupGroup(bare, lookup.column, only=lookup.only, in_change=in_change)
        group = groups[key]
        own = {f.source: f for f in (*group.leaf.fields, *lookup.leaf.fields)}
        group.leaf = replace(lookup.leaf, fields=tuple(own.values()))
        group.sources |= lookup.sources
        group.nulls |= lookup.nulls
        group.places[place] = lookup
    return list(groups.values())


def _add_fields_of_old_states(groups: list[LookupGroup], context: ExecutionContext) -> None:
    """Add what is wanted of an old state to the look-up in the new one, from which it follows."""
    after = {group.question: group for group in groups if group.leaf.at is At.NEW}
    for group in groups:
        new = after.get(group.question)
        if new is None or new is group or group.leaf.table not in context.memory.changes:
            continue
        table, _ = context.versions.version(group.leaf)
        key = Field(group.column, group.column, table.types[group.column.lower()])
        both = {f.source: f for f in (*group.leaf.fields, key, *new.leaf.fields)}
        new.leaf = replace(new.leaf, fields=tuple(both.values()))


def _look_up(
    change: ChangePlan, group: LookupGroup, leaves: dict[Scan, Rel], context: ExecutionContext
) -> ChangePlan:
    """Read the rows of a group and add the leaves for its places."""
    values = context.memory.values(group.sources)
    rows = _rows(group, values, context)
    if rows is None:
        context.lookups.failed.update(group.places.values())
        leaves.update({place: lookup.leaf for place, lookup in group.places.items()})
        return change
    if not rows.num_rows:
        leaves.update(group.replacements(None))
        return change
    types = {f.source: f.type for f in group.leaf.fields}
    name, statistics = context.memory.add(change.statistics, group.shape, Rows(rows, types))
    leaves.update(group.replacements(name))
    return change.with_plan(change.plan, statistics)


def _rows(group: LookupGroup, values: pa.Array, context: ExecutionContext) -> pa.Table | None:
    """The rows of a group: from a change, from the new state, or from the table's files."""
    table, version = context.versions.version(group.leaf)
    start = time.perf_counter()

    def record(rows: pa.Table, how: str) -> pa.Table:
        text = f"{rows.num_rows} rows of {table.name} at version {version}, {how}"
        seconds = time.perf_counter() - start
        context.ran.append(RanStep("look-up", text, rows.num_rows, seconds))
        return rows

    by = f"by {len(values)} values of {group.column}"
    if group.in_change:
        rows = context.foreign_keys.rows(group.leaf, group.column, values)
        return record(rows, f"{by}: those of its change")
    before = _old_rows(group, values, context)
    if before is not None:
        return record(before, f"{by}: back by its change")
    rows = context.versions.pins.lookup_cache.rows(
        table,
        version,
        [f.source for f in group.leaf.fields],
        group.column,
        values,
        nulls=group.nulls,
        most=MAX_ROWS,
    )
    if rows is None:
        return None
    rows = group.matching_texts(rows)
    context.versions.opened.add((group.leaf.table, version))
    if group.leaf.at is At.NEW:
        context.lookups.new_rows[group.question] = rows
    return record(rows, f"looked up {by}")


def _old_rows(group: LookupGroup, values: pa.Array, context: ExecutionContext) -> pa.Table | None:
    """The rows of the old state: those of the new one, if they were looked up, less the change."""
    columns = {*(f.source for f in group.leaf.fields), group.column}
    new = context.lookups.new_rows.get(group.question)
    change = context.memory.changes.get(group.leaf.table)
    if group.leaf.at is not At.OLD or new is None or change is None:
        return None
    if not columns <= set(new.column_names) or not columns <= set(change.column_names):
        return None
    match = pc.is_in(change[group.column], value_set=values)
    if group.nulls:
        match = pc.or_(match, pc.is_null(change[group.column]))
    changed = group.matching_texts(change.filter(match))
    fields = group.shape.fields
    after, between = Scan("after", fields), Change("between", fields)
    back = Unsigned(Union((after, Negate(between)), after.columns))
    try:
        return Memory(lambda leaf: new if leaf is after else changed, MAX_ROWS).rows(back).table
    except Declined:
        return None


def new_values(versions: Versions, name: str, column: str, values: pa.Array) -> pa.Array | None:
    """Those of some values that a table's column has in the new state; None if that needs Spark."""
    if not versions.work.computes_here:
        return None
    table, version = versions.pins.table(name), versions.new[name]
    rows = look_up(table, version, [column], column, values, nulls=False, most=SMALL)
    return None if rows is None else rows[column].combine_chunks()
