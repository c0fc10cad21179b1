"""Retype: a view's columns have the types that its query gives them now.

A table's column may get a wider type, or the table be replaced by one with other types. The text
stays, and so do the declared names; the types are asked for again, and where they differ the
definition and the stored table are replaced together with the rows.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.analyses.types import types as types_of
from belvedere.errors import Invalid
from belvedere.lake.spark_lake import SparkLake
from belvedere.sql.binder.bind import bind
from belvedere.views.catalog import Names, canonical_name
from belvedere.views.definition import Columns, View, ViewDefinition
from belvedere.views.parts import assembled, stored_whole
from belvedere.views.sampling import sampling_types


def retyped(door: SparkLake, view: View) -> View:
    """The view over its tables as they are now; the same one if no type changed."""
    definition = view.definition
    sources = {t: _now(door, t, columns) for t, columns in definition.sources.items()}
    names = Names(door, (canonical_name(door, definition.name),), sources)
    try:
        bound = bind(definition.query, names)
        types = types_of(
            bound.plan, lambda asked, known: door.types(asked, known, definition.settings)
        )
    except Invalid as error:
        raise Invalid(
            f"{view.name!r} cannot be computed from its tables as they are now",
            detail=error.message,
            hint=f"CREATE OR REPLACE MATERIALIZED VIEW {view.name}; it has its rows as they were",
            reason="SCHEMA_CHANGED",
        ) from error
    if definition.sampling is not None:
        types = sampling_types(types, definition.sampling)
    if types == definition.types:
        return view
    now = assembled(replace(definition, types=types, sources=sources), bound, _stored(view))
    if definition.part:
        return now
    return replace(now, definition=replace(now.definition, columns=_declared(now, definition)))


def _stored(view: View) -> str:
    """The table of the view itself, where this is a part."""
    return stored_whole(view.stored) if view.definition.part else view.stored


def _now(door: SparkLake, table: str, columns: Columns) -> Columns:
    """The recorded columns with the types they have now; SELECT * means those and no others."""
    kinds = door.table(table).types
    return tuple((name, kinds[name.lower()]) for name, _ in columns if name.lower() in kinds)


def _declared(now: View, before: ViewDefinition) -> Columns:
    types = now.definition.types
    return tuple(
        (name, kind if types[plan] == before.types[plan] else types[plan])
        for (name, kind), (_, plan) in zip(before.columns, now.bound.columns, strict=True)
    )
