"""What sketches cost and save: a linear model, learnt from what happened (IMP §12).

    maintain(Δ) = c₀ + c₁·Δ        capture = C        query = Q without, q through the sketch

Changes bring a sketch up to date while maintain(Δ) < C; the break-even point is (C - c₀) / c₁. A
sketch pays while what its queries save is more than what keeping it costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

_SOME = 1000.0
"""Changed rows from which on a maintenance says something about the cost of each."""
_WEIGHT = 0.3
"""How much the newest measurement counts."""
MARGIN = 1.5
"""Capture must be predicted to be cheaper by so much: what is predicted is not exact."""


@dataclass(frozen=True)
class Costs:
    """Seconds, as measured so far; 0 is not known."""

    capture: float = 0.0
    fixed: float = 0.0
    per_row: float = 0.0
    plain: float = 0.0
    through: float = 0.0
    uses: float = 0.0
    spent: float = 0.0

    @staticmethod
    def of(record: Mapping[str, float]) -> Costs:
        """What was saved."""
        return Costs(**record)

    def to_json(self) -> dict[str, float]:
        """What is saved."""
        return asdict(self)

    def captured(self, seconds: float) -> Costs:
        """After a capture."""
        return replace(self, capture=_blend(self.capture, seconds), spent=self.spent + seconds)

    def maintained(self, rows: int, seconds: float) -> Costs:
        """After a maintenance of so many changed rows."""
        after = replace(self, spent=self.spent + seconds)
        if rows < _SOME:
            return replace(after, fixed=_blend(self.fixed, seconds))
        each = max(seconds - self.fixed, 0.0) / rows
        return replace(after, per_row=_blend(self.per_row, each))

    def used(self, seconds: float) -> Costs:
        """After a query through the sketch."""
        return replace(self, through=_blend(self.through, seconds), uses=self.uses + 1)

    def unused(self, seconds: float) -> Costs:
        """After the same query without."""
        return replace(self, plain=_blend(self.plain, seconds))

    def maintenance(self, rows: int) -> float:
        """What bringing it up to date by so many changed rows will take."""
        return self.fixed + self.per_row * rows

    @property
    def break_even(self) -> float | None:
        """From how many changed rows on capture is cheaper; None if that is not known.

        >>> Costs(capture=10.0, fixed=1.0, per_row=0.001).break_even
        9000.0
        """
        if not self.capture or not self.per_row:
            return None
        return max(self.capture - self.fixed, 0.0) / self.per_row

    def capture_pays(self, rows: int) -> bool:
        """Whether so many changed rows are better met by a capture."""
        known = self.capture and self.per_row
        return bool(known) and self.maintenance(rows) > MARGIN * self.capture

    @property
    def saved(self) -> float | None:
        """What its queries saved less what it cost; None if that is not known."""
        if not self.plain or not self.through:
            return None
        return self.uses * (self.plain - self.through) - self.spent


def _blend(before: float, now: float) -> float:
    return now if not before else (1 - _WEIGHT) * before + _WEIGHT * now
