"""Rows in memory that stand for leaves of a plan: changes, and the results of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.relations import Change, Rel, Scan
from belvedere.analyses.sizes import Column, Sizes, Statistics
from belvedere.lake.names import STORED_PREFIX
from belvedere.views.sources import Versions


@dataclass
class Held:
    """What one refresh holds: the changes from the beginning, results as they come."""

    tables: Versions
    changes: Mapping[str, pa.Table]
    _results: dict[str, pa.Table] = field(default_factory=dict)
    _views: dict[str, str] = field(default_factory=dict)

    def has(self, leaf: Scan | Change) -> bool:
        """Whether the rows of a leaf are in memory."""
        if leaf.table in self._results:
            return True
        return isinstance(leaf, Change) and leaf.table in self.changes

    def __contains__(self, table: str) -> bool:
        return table in self.changes or table in self._results

    def source(self, leaf: Scan | Change) -> exp.Table:
        """What stands in FROM: a result, or a table."""
        view = self._views.get(leaf.table)
        return self.tables(leaf) if view is None else exp.to_table(view)

    def values(self, columns: Iterable[Column]) -> pa.Array:
        """The values but NULL that columns of leaves in memory have."""
        held = [{**self.changes, **self._results}[table][column] for table, column in columns]
        chunks = [chunk for column in held for chunk in column.chunks]
        return pc.unique(pa.chunked_array(chunks, type=held[0].type).drop_null())

    def add(
        self, known: Statistics, shape: Rel, rows: pa.Table, view: str
    ) -> tuple[str, Statistics]:
        """Take in a result: the name of its leaf, and what is known with it."""
        # No table has such a name.
        name = f"{STORED_PREFIX} {len(self._results) + 1}"
        self._results[name], self._views[name] = rows, view
        return name, with_result(known, name, shape, rows.num_rows)


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
