"""Why a step cannot be made from changes: one list of reasons for every kind of derivation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from belvedere.delta.stamps import Vector
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table


class TableFinder(Protocol):
    """What finds tables: a call's pins, or a lake."""

    def table(self, name: str) -> Table:
        """A table at the version that is taken for its newest."""


OLD_STATE_GONE = frozenset(("VERSION_GONE", "TABLE_REPLACED", "SCHEMA_CHANGED", "VERSION_BEHIND"))
"""Reasons that say that an old version of a table cannot be read, or is not the one that was read.

The state must then move to newer versions of all its tables: it cannot be built at a vector that
holds such a version.
"""


def problems(
    lake: ReadableLake,
    pins: TableFinder,
    before: Vector,
    target: Vector,
    used: Mapping[str, Mapping[str, str]],
    *,
    reads_old: bool,
) -> dict[str, str]:
    """By table, why its changes, or a version that it stays at, cannot be read.

    `used` are the columns that are read of each table. Versions that tables stay at are looked at
    only if they must be readable.
    """
    problems: dict[str, str] = {}
    for name, columns in used.items():
        moves = target[name] != before[name]
        if moves or reads_old:
            problem = _problem(lake, pins, name, before, target, columns)
            if problem:
                problems[name] = problem
    return problems


def _problem(
    lake: ReadableLake,
    pins: TableFinder,
    name: str,
    before: Vector,
    target: Vector,
    columns: Mapping[str, str],
) -> str | None:
    table, old = pins.table(name), before[name]
    if table.id == old.id and lake.put_back(table, old):
        return "VERSION_BEHIND"
    if target[name] != old:
        return lake.feed_problem(table, old, target[name].version, columns)
    return lake.state_problem(table, old, columns)


def first_problem(problems: Mapping[str, str], direct: Collection[str]) -> str:
    """The reason that decides: an old state that is gone before any other; empty if there is none.

    A change feed that is missing matters only for tables whose changes are applied directly.
    """
    reasons = [r for t, r in problems.items() if t in direct or r in OLD_STATE_GONE]
    return next((r for r in reasons if r in OLD_STATE_GONE), next(iter(reasons), ""))
