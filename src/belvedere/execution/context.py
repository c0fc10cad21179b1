"""The context of a change plan: what its passes read from, and what they have read so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from belvedere.analyses.types import Types
from belvedere.execution.foreign_keys import CheckedForeignKeys
from belvedere.execution.in_memory import RowsInMemory
from belvedere.execution.records import RanStep
from belvedere.execution.sources import Versions
from belvedere.lake.sessions.workspace import Workspace
from belvedere.rules.lookups import LookUp


@dataclass
class LookupResults:
    """What the look-ups of one change plan found, for the look-ups that follow."""

    failed: set[LookUp] = field(default_factory=set)
    """Look-ups that could not be done in memory: Spark reads their tables."""
    new_rows: dict[object, pa.Table] = field(default_factory=dict)
    """The rows of new states, by the question that they answer."""


@dataclass(frozen=True)
class ExecutionContext:
    """The tables and changes of one refresh, the rows in memory, and what ran."""

    memory: RowsInMemory
    ran: list[RanStep]
    foreign_keys: CheckedForeignKeys = field(default_factory=CheckedForeignKeys)
    """Foreign keys by which the rows of some look-ups are those of changes."""
    lookups: LookupResults = field(default_factory=LookupResults)

    @property
    def versions(self) -> Versions:
        """The tables in both states."""
        return self.memory.versions

    @property
    def workspace(self) -> Workspace:
        """Where Spark computes."""
        return self.versions.work

    def with_foreign_keys(self, foreign_keys: CheckedForeignKeys) -> ExecutionContext:
        """The same context, in which look-ups may use checked foreign keys."""
        return replace(self, foreign_keys=foreign_keys)

    def without_results(self) -> ExecutionContext:
        """A context for another plan over the same tables and changes."""
        return new_context(self.versions, self.memory.changes, self.memory.types, self.ran)


def new_context(
    versions: Versions, changes: Mapping[str, pa.Table], types: Types, ran: list[RanStep]
) -> ExecutionContext:
    """A context with nothing but changes in memory; `types` are those of columns in plans."""
    return ExecutionContext(RowsInMemory(versions, changes, types), ran)
