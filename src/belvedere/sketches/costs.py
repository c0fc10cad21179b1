"""What sketches cost and save: a linear model, learnt from what happened (IMP §12).

    maintain(Δ) = c₀ + c₁·Δ        capture = C        query = Q without, q through the sketch

c₀ and c₁ are the line with the least squares of errors through the maintenances so far, the newer
ones counting for more: large changes say what a row costs, small ones what is there anyway.

Δ counts rows that Spark has to read several times (`weighed`). Changes bring a sketch up to date
while maintain(Δ) < C; the break-even point is (C - c₀) / c₁. A sketch pays while what its queries
save is more than what keeping it costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

_APART = 1000.0
"""By how many changed rows maintenances must differ before they tell what each row costs."""
_WEIGHT = 0.3
"""How much a capture or query counts that took longer than the ones before."""
_FADES = 0.9
"""How much less a maintenance counts with every one after it."""
MARGIN = 1.5
"""Capture must be predicted to be cheaper by so much: what is predicted is not exact."""


BY_SPARK = 3
"""As how many rows one counts that Spark reads and sends: so many times longer it takes."""


def weighed(rows: int, *, by_spark: bool) -> int:
    """Changed rows as the model counts them: in rows that are read without Spark.

    >>> weighed(10, by_spark=False), weighed(10, by_spark=True)
    (10, 30)
    """
    return BY_SPARK * rows if by_spark else rows


@dataclass(frozen=True)
class Costs:
    """Seconds, as measured so far; 0 is not known. Maintenances as sums for a line through them."""

    capture: float = 0.0
    count: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    products: float = 0.0
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
        """After a capture.

        >>> Costs().captured(9.0).captured(4.0).captured(5.0).capture
        4.3
        """
        return replace(self, capture=_blend(self.capture, seconds), spent=self.spent + seconds)

    def maintained(self, rows: int, seconds: float) -> Costs:
        """After a maintenance of so many changed rows."""
        return replace(
            self,
            count=_FADES * self.count + 1,
            rows=_FADES * self.rows + rows,
            seconds=_FADES * self.seconds + seconds,
            squares=_FADES * self.squares + rows * rows,
            products=_FADES * self.products + rows * seconds,
            spent=self.spent + seconds,
        )

    def used(self, seconds: float) -> Costs:
        """After a query through the sketch."""
        return replace(self, through=_blend(self.through, seconds), uses=self.uses + 1)

    def unused(self, seconds: float) -> Costs:
        """After the same query without."""
        return replace(self, plain=_blend(self.plain, seconds))

    @property
    def per_row(self) -> float:
        """What one more changed row costs: the slope of the line nearest to what was measured."""
        if not self.count:
            return 0.0
        mean = self.rows / self.count
        spread = self.squares / self.count - mean * mean
        if spread < _APART * _APART / 4:
            return 0.0
        both = self.products / self.count - mean * self.seconds / self.count
        return max(both / spread, 0.0)

    @property
    def fixed(self) -> float:
        """What a maintenance costs however little changed."""
        if not self.count:
            return 0.0
        return max(self.seconds - self.per_row * self.rows, 0.0) / self.count

    def maintenance(self, rows: int) -> float:
        """What bringing it up to date by so many changed rows will take."""
        return self.fixed + self.per_row * rows

    @property
    def break_even(self) -> float | None:
        """From how many changed rows on capture is cheaper; None if that is not known.

        >>> round(Costs(capture=10.0).maintained(0, 1.0).maintained(1000000, 2.0).break_even)
        9000000
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
    """What is faster is believed at once: the first of its kind is slow, and so is one disturbed."""
    return now if not before or now < before else (1 - _WEIGHT) * before + _WEIGHT * now
