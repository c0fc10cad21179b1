"""Names: which table or view a name means, and the views a lake has."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.algebra.walks import tables
from belvedere.errors import Invalid
from belvedere.lake import catalog as lake_catalog
from belvedere.lake.door import Door
from belvedere.lake.names import dotted, parts, stored_name
from belvedere.lake.tables import Table
from belvedere.sql.bind import bind
from belvedere.sql.context import Relation
from belvedere.views.definition import Definition, View


@dataclass(frozen=True)
class Names:
    """The relations of a lake by name, for one statement: a view stands for its read plan."""

    door: Door
    creating: str | None = None

    def resolve(self, name: str) -> Relation:
        """The relation of that name; `Invalid` with the nearest name if there is none."""
        canonical = canonical_name(self.door, name)
        if canonical == self.creating:
            raise Invalid(f"view {name!r} reads itself", hint="a view cannot depend on itself")
        view = find_view(self.door, canonical)
        if view is not None:
            return Relation(columns=view.definition.columns, plan=view.read)
        return Relation(columns=self.door.table(canonical).columns, table=canonical)


def canonical_name(door: Door, name: str) -> str:
    """The one spelling under which a table is recorded: lower case, and qualified in a session."""
    given = parts(name)
    if door.directory is not None:
        return given[-1].lower()
    here = (door.spark.catalog.currentCatalog(), door.spark.catalog.currentDatabase())
    return (
        dotted(".".join(dotted_part(p) for p in (*here, *given)[-3:])) if len(given) < 3 else name
    )


def dotted_part(part: str) -> str:
    """A part of a name, quoted."""
    return "`" + part.replace("`", "``") + "`"


def stored_of(name: str) -> str:
    """The table that holds the state of a view."""
    *space, last = parts(name)
    return ".".join([*(dotted_part(p) for p in space), stored_name(last)])


def find_view(door: Door, name: str) -> View | None:
    """The view of a canonical name, compiled; None if there is none."""
    stored = stored_of(name)
    if not door.exists(stored):
        return None
    return compile_view(door, door.table(stored))


def the_view(door: Door, name: str) -> View:
    """The view of a name; `Invalid` if it is something else or nothing."""
    canonical = canonical_name(door, name)
    view = find_view(door, canonical)
    if view is not None:
        return view
    if door.exists(canonical):
        raise Invalid(
            f"{name!r} is not a materialized view",
            hint="SHOW MATERIALIZED VIEWS lists them",
            reason="NOT_A_VIEW",
        )
    raise door.unknown(name)


def compile_view(door: Door, stored: Table) -> View:
    """The view whose state a stored table holds."""
    text = stored.properties.get(lake_catalog.VIEW_PROPERTY)
    if text is None:
        raise Invalid(
            f"{stored.name!r} holds no definition of a view",
            hint="drop the view and create it again",
            reason="CORRUPT_DEFINITION",
        )
    definition = Definition.from_json(text, stored.name)
    bound = bind(definition.query, Names(door, canonical_name(door, definition.name)))
    return View(definition, bound, stored.name)


def all_views(door: Door) -> list[View]:
    """Every view of the lake, those that others read first."""
    found = {t.name: compile_view(door, t) for t in lake_catalog.stored(door)}
    ordered: dict[str, View] = {}

    def visit(stored: str) -> None:
        if stored in found and stored not in ordered:
            for below in found[stored].tables:
                visit(below)
            ordered[stored] = found[stored]

    for stored in sorted(found):
        visit(stored)
    return list(ordered.values())


def readers(door: Door, table: str) -> list[str]:
    """The views that read a table or another view's stored table."""
    return [v.name for v in all_views(door) if table in tables(v.plan)]
