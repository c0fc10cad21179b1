"""The kinds of derivations besides views, each in one line."""

from __future__ import annotations

from collections.abc import Callable

from belvedere.derivations.registry import Kind
from belvedere.lake.offline import ReadableLake
from belvedere.samples.kind import Samples
from belvedere.sketches.kind import Sketches
from belvedere.synopses.kind import Synopses
from belvedere.updating.kind import UpdatableViews

KINDS: tuple[Callable[[ReadableLake], Kind], ...] = (Samples, Sketches, Synopses, UpdatableViews)


def kinds(lake: ReadableLake) -> tuple[Kind, ...]:
    """Every kind, of one lake; importing them must not import Spark, to look must not start it."""
    return tuple(kind(lake) for kind in KINDS)
