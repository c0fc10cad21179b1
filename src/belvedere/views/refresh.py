"""A refresh of one view by itself, which is not recorded."""

from __future__ import annotations

from collections.abc import Collection

from belvedere.derivations.advance import Call, advance
from belvedere.derivations.outcome import Outcome
from belvedere.lake.pins import Pins
from belvedere.lake.spark_lake import SparkLake
from belvedere.views.kind import Views


def refresh(
    lake: SparkLake,
    name: str,
    *,
    full: bool = False,
    only: Collection[str] | None = None,
    pins: Pins | None = None,
) -> Outcome:
    """Move a view to the newest versions of its tables, or of only some of them."""
    if pins is None:
        with Pins(lake) as own:
            return refresh(lake, name, full=full, only=only, pins=own)
    return advance(Views(lake), name, Call(lake, pins), full=full, only=only)
