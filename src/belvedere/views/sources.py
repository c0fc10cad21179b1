"""What stands in FROM when a plan runs on Spark: versions of tables, and views of their changes.

Each version of a table is opened once and then shared by every scan of it: Delta lists the files
of a version anew each time it is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.algebra.relations import At, Change, Scan
from belvedere.errors import Internal
from belvedere.lake.names import STORED_PREFIX
from belvedere.lake.tables import Table
from belvedere.lake.work import Work


@dataclass(frozen=True)
class Versions:
    """The leaves of a plan in SQL: OLD and NEW versions of each table, changes by view name."""

    work: Work
    tables: Mapping[str, Table]
    old: Mapping[str, int]
    new: Mapping[str, int]
    changes: Mapping[str, str] = field(default_factory=dict)
    _open: dict[tuple[str, int], str] = field(default_factory=dict)

    def __call__(self, leaf: Scan | Change) -> exp.Table:
        if isinstance(leaf, Change):
            return exp.to_table(self.changes[leaf.table], dialect="spark")
        if isinstance(leaf.at, int):
            raise Internal(f"a definition reads version {leaf.at} of {leaf.table}")
        version = (self.old if leaf.at is At.OLD else self.new)[leaf.table]
        return exp.to_table(self._opened(leaf.table, version), dialect="spark")

    def _opened(self, name: str, version: int) -> str:
        if (name, version) not in self._open:
            plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
            view = f"{STORED_PREFIX}{plain}_at_{version}_{len(self._open)}"
            frame = self.work.query(f"SELECT * FROM {self.tables[name].at(version)}")
            self._open[name, version] = self.work.register(view, frame)
        return self._open[name, version]


def reference(table: Table) -> exp.Table:
    """A table as SQL names it."""
    return exp.to_table(table.reference, dialect="spark")
