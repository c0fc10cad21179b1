"""What stands in FROM when a plan runs on Spark: versions of tables, and views of their changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.algebra.relations import At, Change, Scan
from belvedere.errors import Internal
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.tables.table import Table


@dataclass(frozen=True)
class Versions:
    """The leaves of a plan in SQL: OLD and NEW versions of each table, changes by view name.

    `opened` collects the versions that were read.
    """

    pins: Pins
    work: Workspace
    old: Mapping[str, int]
    new: Mapping[str, int]
    changes: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    opened: set[tuple[str, int]] = field(default_factory=set)

    def __call__(self, leaf: Scan | Change) -> exp.Table:
        if isinstance(leaf, Change):
            return exp.to_table(self.changes[leaf.table](), dialect="spark")
        _, version = self.version(leaf)
        self.opened.add((leaf.table, version))
        return exp.to_table(self.pins.opened(self.work, leaf.table, version), dialect="spark")

    def version(self, leaf: Scan) -> tuple[Table, int]:
        """The table and the version that a leaf is."""
        if isinstance(leaf.at, int):
            raise Internal(f"a definition reads version {leaf.at} of {leaf.table}")
        version = (self.old if leaf.at is At.OLD else self.new)[leaf.table]
        return self.pins.table(leaf.table), version


def reference(table: Table, version: int | None = None) -> exp.Table:
    """A table as SQL names it, or one version of it."""
    named = exp.to_table(table.reference, dialect="spark")
    if version is not None:
        at = exp.Version(this="VERSION", kind="AS OF", expression=exp.Literal.number(version))
        named.set("version", at)
    return named
