"""Drop views with the tables that hold their state."""

from __future__ import annotations

from belvedere.derivations.guard import refuse_if_needed, view_readers
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables import catalog as lake_catalog
from belvedere.views.catalog import canonical_name, stored_of, the_view
from belvedere.views.parts import part_of


def drop_view(door: SparkLake, name: str, *, if_exists: bool = False) -> bool:
    """Drop a view with its state; False if there was none and that was allowed."""
    canonical = canonical_name(door, name)
    stored = stored_of(canonical)
    if if_exists and not door.exists(stored):
        drop_parts(door, canonical)  # left by a creation that was cut off
        return False
    if not door.exists(stored):
        the_view(door, name)
    refuse_if_needed(name, view_readers(door, stored))
    _drop(door, canonical)
    return True


def _drop(door: SparkLake, name: str) -> None:
    lake_catalog.drop_view(door, name)
    drop_parts(door, name)
    lake_catalog.drop_table(door, stored_of(name))


def drop_parts(door: SparkLake, name: str, after: int = 0) -> None:
    """Drop a view's parts, those after some number."""
    stored, number = stored_of(name), after + 1
    while door.exists(part := part_of(stored, number)):
        lake_catalog.drop_table(door, part)
        number += 1
