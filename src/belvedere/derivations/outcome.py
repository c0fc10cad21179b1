"""Outcome: what an advance of a derivation did, the same for every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.derivations.ledger import Record
from belvedere.execution.records import RanStep
from belvedere.reasons import REASONS


@dataclass(frozen=True)
class Outcome:
    """What an advance of one derivation did."""

    name: str
    strategy: str
    """`nothing`, `merge`, `replace keys` or `rebuild`."""
    reason: str
    """The code that says why, empty where the strategy needs no reason."""
    rows_changed: int | None
    """Rows of the state that a view changed, or changed rows that were read into another state."""
    seconds: float
    vector_before: Mapping[str, int]
    vector_after: Mapping[str, int]
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Figures that only one kind of derivation has."""
    ran: tuple[RanStep, ...] = field(default=(), repr=False)
    """What ran, in order: look-ups, queries, computations in memory."""
    record: Record | None = field(default=None, repr=False)
    """The row of the ledger; None if there was nothing to do."""
    inner: tuple[Outcome, ...] = field(default=(), repr=False)
    """The advances of what the derivation is made of, before its own."""

    @property
    def sql(self) -> tuple[str, ...]:
        """The statements that ran; what ran without SQL stands as comments."""
        return tuple(map(str, self.ran))

    def __str__(self) -> str:
        """
        >>> print(Outcome("visits", "rebuild", "REQUESTED", None, 1.5, {}, {}))
        visits: rebuild (REQUESTED: a full refresh was requested), 1.50 s
        """
        why = f" ({REASONS[self.reason]})" if self.reason else ""
        rows = "" if self.rows_changed is None else f", {self.rows_changed} rows changed"
        details = "".join(f", {name} {value}" for name, value in self.details.items())
        notes = "".join(f"\n  {note}" for note in self.notes)
        return f"{self.name}: {self.strategy}{why}{rows}, {self.seconds:.2f} s{details}{notes}"
