"""What a sketch is: the query it is of, how its tables are cut, why that is safe, what it has seen."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from belvedere.delta.stamps import Vector, vector_of, vector_record
from belvedere.joins.partitions import Bitmap, Partition

KIND = "sketches"
"""Under which word they are saved."""
PAST = 20
"""How many earlier versions of a sketch are kept, for queries of earlier versions of its tables."""


@dataclass(frozen=True)
class Watched:
    """Between which values a column must stay for the sketch to be safe."""

    table: str
    column: str
    low: str
    high: str


@dataclass(frozen=True)
class Version:
    """A sketch as it was when its tables were at a vector."""

    vector: Vector
    bitmaps: tuple[Bitmap, ...]


@dataclass(frozen=True)
class SketchDefinition:
    """A sketch without its state."""

    id: str
    name: str
    query: str
    settings: Mapping[str, str]
    partitions: tuple[Partition, ...]
    kinds: Mapping[str, str]
    """The types of the columns of its feeds; none if it is captured anew each time."""
    reads: Mapping[str, tuple[str, ...]]
    """The columns it uses of each table."""
    types: Mapping[str, Mapping[str, str]]
    """Their types."""
    room: int
    watched: tuple[Watched, ...] = ()
    retired: str = ""
    """Why it is no longer used."""
    kept: str = ""
    """Why changes do not bring it up to date, if they do not."""
    automatic: bool = False
    costs: Mapping[str, float] = field(default_factory=dict)
    past: tuple[Version, ...] = ()
    blooms: tuple[tuple[str, str, int, int], ...] = ()
    """Tables and key columns that have a filter, how many keys each has, and how many are gone."""
    loose: bool = False
    """Whether it may have fragments too many, for less upkeep."""

    def remembering(self, version: Version) -> SketchDefinition:
        """The same with one more version of the past."""
        return replace(self, past=(version, *self.past)[:PAST])

    def to_json(self) -> dict[str, Any]:
        """What is saved of it."""
        return {
            "id": self.id,
            "name": self.name,
            "query": self.query,
            "settings": dict(self.settings),
            "partitions": [p.to_json() for p in self.partitions],
            "kinds": dict(self.kinds),
            "reads": {t: list(c) for t, c in self.reads.items()},
            "types": {t: dict(c) for t, c in self.types.items()},
            "room": self.room,
            "loose": self.loose,
            "watched": [[w.table, w.column, w.low, w.high] for w in self.watched],
            "retired": self.retired,
            "kept": self.kept,
            "automatic": self.automatic,
            "costs": dict(self.costs),
            "blooms": [list(b) for b in self.blooms],
            "past": [[vector_record(v.vector), [_packed(b) for b in v.bitmaps]] for v in self.past],
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> SketchDefinition:
        """The sketch that was saved."""
        partitions = tuple(Partition.from_json(p) for p in record["partitions"])
        past = tuple(
            Version(
                vector_of(vector),
                tuple(_unpacked(b, p.count) for b, p in zip(bits, partitions, strict=True)),
            )
            for vector, bits in record["past"]
        )
        return SketchDefinition(
            record["id"],
            record["name"],
            record["query"],
            record["settings"],
            partitions,
            record["kinds"],
            {t: tuple(c) for t, c in record["reads"].items()},
            record["types"],
            record["room"],
            tuple(Watched(*w) for w in record["watched"]),
            record["retired"],
            record["kept"],
            record["automatic"],
            record["costs"],
            past,
            tuple((t, c, k, g) for t, c, k, g in record["blooms"]),
            record["loose"],
        )


def _packed(bitmap: Bitmap) -> str:
    return base64.b85encode(np.packbits(bitmap).tobytes()).decode()


def _unpacked(text: str, count: int) -> Bitmap:
    """
    >>> bits = np.array([True, False, True])
    >>> _unpacked(_packed(bits), 3).tolist()
    [True, False, True]
    """
    raw = np.frombuffer(base64.b85decode(text), dtype=np.uint8)
    return np.unpackbits(raw, count=count).astype(np.bool_)
