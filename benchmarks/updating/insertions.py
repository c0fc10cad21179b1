"""Insertions whose side effects are known: made, labelled by the indexed exact check, timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.in_memory import BaseChanges, NewRow, ViewEffect, view_effect
from belvedere.updating.summary.filter import UpdateFilter

Row = Mapping[str, Any]
STEPS = 50_000_000


def new_rows(made: UpdateFilter, row: Row) -> tuple[BaseChanges, Coder]:
    """The base rows that an insertion puts in."""
    coder = Coder(made.base)
    new: dict[str, dict[NewRow, None]] = {}
    for p, segment in enumerate(made.segments(row, coder)):
        if segment.number is None:
            table = made.shape.positions[p].table
            new.setdefault(table, {})[coder.encode(table, coder.shown_values(p, ViewRow(row)))] = (
                None
            )
    return BaseChanges({}, {t: tuple(r) for t, r in new.items()}), coder


def has_side_effects(made: UpdateFilter, row: Row) -> bool:
    """Whether an insertion has side effects, by the indexed exact check."""
    return view_rows(made, row, 1) > 1


def view_rows(made: UpdateFilter, row: Row, most: int | None = None) -> int:
    """How many view rows an insertion makes, itself among them; no more than so many others."""
    changes, coder = new_rows(made, row)
    asked = coder.signature(ViewRow(row))
    found: ViewEffect = view_effect(made.base, changes, expected=[asked], most=most, steps=STEPS)
    return len(found.added.keys() | {asked})


def labelled(
    made: UpdateFilter, rows: Iterable[Row], each: int
) -> tuple[list[tuple[Row, bool]], int]:
    """Insertions of rows that the view does not have: so many with side effects, and without.

    Besides, how many rows were looked at until they were found.
    """
    found: dict[bool, list[tuple[Row, bool]]] = {True: [], False: []}
    drawn = 0
    for row in rows:
        drawn += 1
        if any(s.number is None for s in made.segments(row)):
            real = has_side_effects(made, row)
            if len(found[real]) < each:
                found[real].append((row, real))
        if all(len(some) >= each for some in found.values()):
            break
    return found[True] + found[False], drawn


def timed(run: Callable[[Any], object], over: Sequence[Any]) -> float:
    """The mean milliseconds of a call, in this process's CPU time."""
    began = time.process_time()
    for each in over:
        run(each)
    return (time.process_time() - began) / max(len(over), 1) * 1000
