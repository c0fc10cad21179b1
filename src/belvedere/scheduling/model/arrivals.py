"""Streams of arrivals: random as in ABIVM §5, or read from a file.

A file has a header and one line for every batch of changes, `seconds,table,changes`, in the order
of time.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from belvedere.errors import Invalid
from belvedere.scheduling.model.problem import State

HEADER = ("seconds", "table", "changes")
STREAMS = {"SS": (0.5, 1.0), "SU": (0.5, 5.0), "FS": (0.9, 1.0), "FU": (0.9, 5.0)}
"""Slow or fast, stable or unstable: the probability of arrivals, and their standard deviation."""


@dataclass(frozen=True)
class Arrival:
    """Some changes of a table, at a time in seconds."""

    seconds: float
    table: str
    changes: int


def uniform_arrivals(each: State, steps: int) -> tuple[State, ...]:
    """The same arrivals at steps 0 … `steps`."""
    return (each,) * (steps + 1)


def random_arrivals(
    tables: int, steps: int, probability: float, deviation: float, seed: int, mean: float = 1.0
) -> tuple[State, ...]:
    """At each step and for each table, with a probability, ⌈X⌉ changes, X normal and positive."""
    random = np.random.default_rng(seed)
    counts = np.zeros((steps + 1, tables), np.int64)
    arrives = random.random(counts.shape) < probability
    missing = arrives.copy()
    while missing.any():
        drawn = random.normal(mean, deviation, counts.shape)
        drawn_now = missing & (drawn > 0)
        counts[drawn_now] = np.ceil(drawn[drawn_now]).astype(np.int64)
        missing &= ~drawn_now
    return tuple(tuple(map(int, row)) for row in counts)


def read_arrivals(path: Path | str, tables: Sequence[str] | None = None) -> list[Arrival]:
    """The arrivals of a file; Invalid names the first wrong line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {path}", detail=str(error), reason="UNREADABLE_FILE") from error
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    if tuple(name.strip().lower() for name in header) != HEADER:
        raise _bad_line(path, 1, f"the header is {','.join(header)!r}", f"write {','.join(HEADER)}")
    arrivals: list[Arrival] = []
    for row in lines:
        if row:
            before = arrivals[-1].seconds if arrivals else 0.0
            arrivals.append(_parse_arrival(path, lines.line_num, row, before, tables))
    if not arrivals:
        raise Invalid(
            f"{path} has no arrivals",
            hint="write one line for every batch of changes",
            reason="BAD_ARRIVALS",
        )
    return arrivals


def write_arrivals(path: Path, arrivals: Sequence[Arrival]) -> None:
    """Write a file that `read_arrivals` reads."""
    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink)
        writer.writerow(HEADER)
        writer.writerows((f"{a.seconds:g}", a.table, a.changes) for a in arrivals)


def in_steps(arrivals: Sequence[Arrival], tables: Sequence[str], every: float) -> tuple[State, ...]:
    """Arrivals by steps of so many seconds.

    >>> in_steps([Arrival(0.5, "a", 2), Arrival(2.5, "b", 1)], ["a", "b"], 1.0)
    ((2, 0), (0, 0), (0, 1))
    """
    position = {name: i for i, name in enumerate(tables)}
    count = max((int(a.seconds // every) for a in arrivals), default=0) + 1
    counts = np.zeros((count, len(tables)), np.int64)
    for arrival in arrivals:
        if arrival.table in position:
            counts[int(arrival.seconds // every), position[arrival.table]] += arrival.changes
    return tuple(tuple(map(int, row)) for row in counts)


def _parse_arrival(
    path: Path | str, line: int, row: list[str], before: float, tables: Sequence[str] | None
) -> Arrival:
    if len(row) != len(HEADER):
        raise _bad_line(path, line, f"{len(row)} values", f"write {','.join(HEADER)}")
    seconds, table, changes = (value.strip() for value in row)
    try:
        at = float(seconds)
    except ValueError:
        raise _bad_line(path, line, f"{seconds!r} is not a number of seconds") from None
    if not isfinite(at) or at < 0:
        raise _bad_line(path, line, f"{seconds} seconds", "write a time of at least 0")
    if at < before:
        raise _bad_line(
            path, line, f"{seconds} seconds, after {before:g}", "order the lines by time"
        )
    if not table or (tables is not None and table not in tables):
        hint = f"the tables are {', '.join(tables)}" if tables else "name a table"
        raise _bad_line(path, line, f"{table!r} is not a table", hint)
    if not changes.isdecimal():
        raise _bad_line(path, line, f"{changes!r} is not a number of changes")
    return Arrival(at, table, int(changes))


def _bad_line(path: Path | str, line: int, what: str, hint: str = "") -> Invalid:
    return Invalid(f"{path}, line {line}: {what}", hint=hint, reason="BAD_ARRIVALS")
