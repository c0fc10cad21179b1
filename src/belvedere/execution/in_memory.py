"""Rows in memory that stand for leaves of a plan: changes, and the results of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.relations import Change, Empty, Field, Rel, Scan
from belvedere.algebra.walks import children, each_once, with_children
from belvedere.analyses.sizes import Column, Sizes, Statistics
from belvedere.analyses.types import Types
from belvedere.execution.sources import Versions
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows
from belvedere.rules.empties import without_empties
from belvedere.rules.outward import FEW, SMALL
from belvedere.sql.names import STORED_PREFIX
from belvedere.sql.render import SIGN

MOST = 2 * SMALL
"""Rows of any part of a plan that is computed in memory, more than is expected of them."""
WHOLE = FEW
"""Rows of a table that is read whole for it."""


@dataclass
class Held:
    """What one refresh holds: the changes from the beginning, results as they come."""

    tables: Versions
    changes: Mapping[str, pa.Table]
    types: Types = field(default_factory=dict)
    """Of the view's columns, by their names in plans."""
    _results: dict[str, Rows] = field(default_factory=dict)
    _views: dict[str, str] = field(default_factory=dict)

    def has(self, leaf: Scan | Change) -> bool:
        """Whether the rows of a leaf are in memory."""
        if leaf.table in self._results:
            return True
        return isinstance(leaf, Change) and leaf.table in self.changes

    def __contains__(self, table: str) -> bool:
        return table in self.changes or table in self._results

    def rows(self, leaf: Rel) -> pa.Table | None:
        """The rows of a leaf that is in memory."""
        if not isinstance(leaf, Scan | Change) or not self.has(leaf):
            return None
        return self._table(leaf.table)

    def result(self, leaf: Rel) -> Rows | None:
        """The result that stands for a leaf, if there is one."""
        return self._results.get(leaf.table) if isinstance(leaf, Scan | Change) else None

    def source(self, leaf: Scan | Change) -> exp.Table:
        """What stands in FROM: a result, or a table."""
        name = leaf.table
        if name not in self._results:
            return self.tables(leaf)
        if name not in self._views:
            result = self._results[name]
            signs = {SIGN: "bigint"} if result.signed else {}
            self._views[name] = self.tables.work.hold(
                "rows", result.table, {**result.types, **signs}
            )
        return exp.to_table(self._views[name])

    def values(self, columns: Iterable[Column]) -> pa.Array:
        """The values but NULL that columns of leaves in memory have."""
        held = [self._table(table)[column] for table, column in columns]
        chunks = [chunk for column in held for chunk in column.chunks]
        return pc.unique(pa.chunked_array(chunks, type=held[0].type).drop_null())

    def add(self, known: Statistics, shape: Rel, rows: Rows) -> tuple[str, Statistics]:
        """Take in a result: the name of its leaf, and what is known with it."""
        # No table has such a name.
        name = f"{STORED_PREFIX} {len(self._results) + 1}"
        self._results[name] = rows
        return name, with_result(known, name, shape, rows.table.num_rows)

    def folded(self, q: Rel, known: Statistics) -> tuple[Rel, Statistics]:
        """The plan with results for its largest parts that can be computed here and now."""
        if not self.tables.work.usual_decimals:
            return q, known
        memory, sizes, done = Memory(self._near, MOST, self.types), Sizes(known), dict[int, Rel]()
        leaves = leaves_below(q)

        def fold(node: Rel) -> Rel:
            nonlocal known
            if id(node) not in done:
                rows = computed(node) if children(node) else None
                if rows is None:
                    below = [fold(child) for child in children(node)]
                    same = all(a is b for a, b in zip(children(node), below, strict=True))
                    done[id(node)] = node if same else with_children(node, below)
                else:
                    done[id(node)], known = self.stands_for(node, rows, known)
            return done[id(node)]

        def computed(node: Rel) -> Rows | None:
            below = leaves[id(node)]
            # Tables are not read for their own sake.
            if not any(map(self.has, below)):
                return None
            if not all(self.has(leaf) or self.small(leaf, sizes) for leaf in below):
                return None
            try:
                return memory.rows(node)
            except Declined:
                return None

        return without_empties(fold(q)), known

    def small(self, leaf: Scan | Change, sizes: Sizes) -> bool:
        """Whether a leaf is a table that may be read whole."""
        return isinstance(leaf, Scan) and sizes.rows(leaf) <= WHOLE and self.tables.work.near

    def _near(self, leaf: Scan | Change) -> pa.Table | None:
        """The rows of a leaf: in memory, or of a table that is small."""
        if self.has(leaf) or not isinstance(leaf, Scan):
            return self.rows(leaf)
        _, version = self.tables.version(leaf)
        # One column may be wanted under two names.
        columns = tuple(dict.fromkeys(f.source for f in leaf.fields))
        rows = self.tables.pins.whole(leaf.table, version, columns, WHOLE)
        if rows is not None:
            self.tables.opened.add((leaf.table, version))
        return rows

    def stands_for(self, part: Rel, rows: Rows, known: Statistics) -> tuple[Rel, Statistics]:
        """The leaf of a result that stands for a part of a plan, and what is known with it."""
        if not rows.table.num_rows:
            return Empty(part.columns), known
        name, known = self.add(known, part, rows)
        fields = tuple(Field(c, c, rows.types[c]) for c in part.columns)
        return (Change if rows.signed else Scan)(name, fields), known

    def _table(self, name: str) -> pa.Table:
        return self._results[name].table if name in self._results else self.changes[name]


def leaves_below(q: Rel) -> dict[int, frozenset[Scan | Change]]:
    """The leaves below each part of a plan."""
    found: dict[int, frozenset[Scan | Change]] = {}
    for node in reversed(each_once(q)):
        own = frozenset((node,)) if isinstance(node, Scan | Change) else frozenset()
        found[id(node)] = own.union(*(found[id(child)] for child in children(node)))
    return found


def with_result(known: Statistics, name: str, shape: Rel, rows: float) -> Statistics:
    """What is known, with a leaf for the result of a part of a plan."""
    sizes, size = Sizes(known), {name: rows}
    values = {(name, c): sizes.values(shape, c) for c in shape.columns}
    return replace(
        known,
        rows={**known.rows, **size},
        changed={**known.changed, **size},
        values={**known.values, **values},
    )
