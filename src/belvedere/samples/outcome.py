"""The outcome of a cleaning."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.derivations.outcome import Outcome


@dataclass(frozen=True)
class Cleaned:
    """The refreshes of a view's sample and of its outliers."""

    view: str
    refreshes: tuple[Outcome, ...]

    @property
    def seconds(self) -> float:
        """The seconds of all refreshes together."""
        return sum(r.seconds for r in self.refreshes)

    def __str__(self) -> str:
        return "\n".join(str(r) for r in self.refreshes)
