"""What the log of a local table says of its size: rows, and the bounds of its columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.analyses.floats import INTEGERS
from belvedere.analyses.spans import Range
from belvedere.lake.files import File, count, files
from belvedere.lake.tables import Table


@dataclass(frozen=True)
class Measured:
    """The rows of a version, and the least and greatest values of its columns."""

    rows: int
    bounds: Mapping[str, Range] = field(default_factory=dict)


def measured(table: Table) -> Measured | None:
    """What is recorded of the version of a table; None if not every file has a row count."""
    found = files(table.root, table.version) if table.root is not None else None
    rows = None if found is None else count(found)
    return None if found is None or rows is None else Measured(rows, _bounds(table, found))


def _bounds(table: Table, found: Iterable[File]) -> dict[str, Range]:
    """The least and the greatest value of integers and dates, where every file recorded them."""
    bounds: dict[str, Range] = {}
    some = [f.stats for f in found if f.rows]
    for name, kind in table.columns:
        if kind != "date" and kind not in INTEGERS:
            continue
        try:
            low = min(_value(s["minValues"][name], kind) for s in some)
            high = max(_value(s["maxValues"][name], kind) for s in some)
        except (KeyError, ValueError, TypeError):
            continue  # a file without bounds, or a table without rows
        bounds[name] = low, high
    return bounds


def _value(recorded: Any, kind: str) -> Any:
    return datetime.date.fromisoformat(recorded) if kind == "date" else int(recorded)
