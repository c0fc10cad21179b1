"""Sketches in memory, and where they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from belvedere.algebra.relations import Rel
from belvedere.delta.stamps import Vector
from belvedere.joins.partitions import Bitmap
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Saves
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.definition import KIND, SketchDefinition, Version
from belvedere.sketches.engine.bloom_filters import Bloom
from belvedere.sketches.engine.engine import SketchEngine
from belvedere.sql.binder.bind import bind
from belvedere.views.catalog import Names


@dataclass(frozen=True)
class Live:
    """A sketch at a vector, with the engine that keeps it, if one does."""

    definition: SketchDefinition
    vector: Vector
    bitmaps: tuple[Bitmap, ...]
    engine: SketchEngine | None
    owed: float = 0.0
    """Seconds of upkeep that a process killed now would have done in vain."""
    blooms: Mapping[tuple[str, str], Bloom] = field(default_factory=dict)

    @property
    def version(self) -> Version:
        """What is remembered of it when it has moved on."""
        return Version(self.vector, self.bitmaps)

    @property
    def fragment_count(self) -> int:
        """How many fragments it has."""
        return sum(int(b.sum()) for b in self.bitmaps)

    @property
    def fragments(self) -> int:
        """How many there are."""
        return sum(p.count for p in self.definition.partitions)


def plan_of(lake: ReadableLake, query: str) -> Rel:
    """The plan of a sketch's query."""
    return bind(query, Names(lake)).plan


def engine_of(lake: ReadableLake, definition: SketchDefinition) -> SketchEngine | None:
    """An empty engine for a sketch; None for one that is captured anew each time."""
    if definition.kept or definition.retired:
        return None
    found = sketch_block(plan_of(lake, definition.query), definition.partitions)
    return SketchEngine(
        found, definition.partitions, definition.kinds, definition.room, loose=definition.loose
    )


def load(lake: ReadableLake, saves: Saves, name: str) -> Live:
    """A sketch as it was saved; `Corrupt` if it is not what was."""
    saved = saves.load(KIND, name)
    definition = SketchDefinition.from_json(saved.head.definition)
    engine = engine_of(lake, definition)
    if engine is not None:
        engine.restore(
            {n: a for n, a in saved.arrays.items() if not n.startswith(("bitmap", "bloom"))}
        )
    bitmaps = tuple(
        np.array(saved.arrays[f"bitmap{i}"], dtype=np.bool_)
        for i in range(len(definition.partitions))
    )
    blooms = {
        (table, key): Bloom.restored(np.array(saved.arrays[f"bloom{i}"]), keys, gone)
        for i, (table, key, keys, gone) in enumerate(definition.blooms)
    }
    return Live(definition, saved.head.vector, bitmaps, engine, blooms=blooms)


def save(saves: Saves, name: str, live: Live) -> Live:
    """Put a sketch in the place of what was saved of it."""
    arrays: dict[str, npt.NDArray[Any]] = {f"bitmap{i}": b for i, b in enumerate(live.bitmaps)}
    if live.engine is not None:
        arrays |= live.engine.save()
    arrays |= {f"bloom{i}": b.bits for i, b in enumerate(live.blooms.values())}
    told = tuple((t, k, b.keys, b.gone) for (t, k), b in live.blooms.items())
    live = replace(live, definition=replace(live.definition, blooms=told))
    saves.save(KIND, name, live.definition.to_json(), live.vector, arrays)
    return replace(live, owed=0.0)
