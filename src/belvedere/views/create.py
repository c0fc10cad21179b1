"""Create and drop views: everything is checked before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from belvedere.algebra.relations import Output, Project
from belvedere.algebra.scalars import col
from belvedere.analyses.origins import origin
from belvedere.analyses.sizes import Sizes
from belvedere.analyses.types import types as types_of
from belvedere.delta.schema_types import type_words
from belvedere.delta.stamps import Stamp
from belvedere.delta.tables import COLUMN_MAPPING
from belvedere.derivations.guard import refuse_if_needed, view_readers
from belvedere.derivations.history import note
from belvedere.derivations.ledger import Ledger, Record
from belvedere.derivations.meter import Meter
from belvedere.errors import Invalid, Unsupported
from belvedere.execution.costs import CostHistory, candidate
from belvedere.execution.sources import Versions, reference
from belvedere.execution.strategies import REASONS, Strategy
from belvedere.lake.offline import VIEW_PROPERTY
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.errors import computing
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables import catalog as lake_catalog
from belvedere.lake.writes import commits
from belvedere.sql.binder.bind import bind
from belvedere.sql.binder.char_columns import has_char
from belvedere.sql.render import render
from belvedere.sql.statements.views import CreateView, Policy
from belvedere.views.catalog import (
    Names,
    as_not_read,
    canonical_name,
    is_view,
    stored_of,
    the_view,
)
from belvedere.views.choice import rebuild_reason
from belvedere.views.definition import Definition, View
from belvedere.views.maintenance import fill, most_selective_key, rebuild_work
from belvedere.views.parts import assembled, chosen, part_of
from belvedere.views.references import holding_references
from belvedere.views.state import Bag

SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")


def plan_view(door: SparkLake, statement: CreateView) -> View:
    """The view a statement declares, compiled and checked; nothing is written."""
    name = canonical_name(door, statement.name)
    settings = {key: str(door.spark.conf.get(key)) for key in SETTINGS}
    if settings["spark.sql.caseSensitive"] == "true":
        raise Unsupported(
            "views in a case-sensitive session",
            hint="SET spark.sql.caseSensitive = false before creating the view",
            reason="CASE_SENSITIVE",
        )
    names = Names(door, (name,))
    with as_not_read(door, statement.query):
        # Places in errors are those of the whole statement.
        bound = bind(statement.lead + statement.query, names)
    columns = _declared(door, statement.query, settings)
    _refuse_if_read_otherwise(columns, bound.columns)
    types = types_of(bound.plan, lambda asked, known: door.types(asked, known, settings))
    definition = Definition(
        id=str(uuid.uuid4()),
        name=statement.name,
        query=statement.query,
        policy=statement.policy.value,
        settings=settings,
        columns=columns,
        types=types,
        comment=statement.comment,
        sources=dict(names.seen),
        properties=_own_properties(statement),
    )
    view = _with_parts(door, View(definition, bound, stored_of(name)))
    _refuse_maps(view)
    _refuse_nested_char(door, view)
    _refuse_if_strict(view)
    return view


def _refuse_if_read_otherwise(
    spark: Sequence[tuple[str, str]], ours: Sequence[tuple[str, str]]
) -> None:
    """Unsupported if Spark reads the SELECT list otherwise: a keyword may be a name to it."""
    pairs = [(theirs, own) for (theirs, _), (own, _) in zip(spark, ours, strict=False)]
    named = [(a, b) for a, b in pairs if a.isidentifier() and b.isidentifier()]
    if len(spark) != len(ours) or any(a.lower() != b.lower() for a, b in named):
        raise Unsupported(
            "the SELECT list can be read in two ways",
            detail=f"Spark shows {', '.join(name for name, _ in spark)};"
            f" the view would show {', '.join(name for name, _ in ours)}",
            hint="write columns that are named like keywords in backquotes, as in `all`",
            reason="AMBIGUOUS",
        )


def _with_parts(door: SparkLake, view: View) -> View:
    """The view, with what is worth keeping of its plan in tables of their own."""
    if Policy(view.definition.policy) is Policy.FULL:
        return view
    with Pins(door) as pins:
        places = chosen(view, Sizes(pins.statistics(view.tables, {}, {})))
    return assembled(replace(view.definition, parts=places), view.bound, view.stored)


def create_view(door: SparkLake, statement: CreateView) -> View | None:
    """Create a view and fill it; None if it exists and that was allowed.

    The name is free, or that of a view which may exist or is replaced.
    """
    name = canonical_name(door, statement.name)
    existing = is_view(door, name)
    if existing and statement.if_not_exists:
        return None
    view = plan_view(door, statement)
    if existing:
        # What reads it was compiled against the columns and the state it has now.
        refuse_if_needed(statement.name, view_readers(door, view.stored))
    fill_view(door, view)
    return view


def fill_view(door: SparkLake, view: View) -> None:
    """Compute a view that was planned, and show it under its name.

    A view that it replaces has its rows until the new ones are there.
    """
    name = canonical_name(door, view.name)
    with commits.holding(door, view.stored):
        try:
            _fill(door, view)
        except BaseException:
            if not door.exists(view.stored):
                _drop_parts(door, name)
            raise
        _drop_parts(door, name, len(view.every_part))  # of the view before
    show(door, view)


def drop_view(door: SparkLake, name: str, *, if_exists: bool = False) -> bool:
    """Drop a view with its state; False if there was none and that was allowed."""
    canonical = canonical_name(door, name)
    stored = stored_of(canonical)
    if if_exists and not door.exists(stored):
        _drop_parts(door, canonical)  # left by a creation that was cut off
        return False
    if not door.exists(stored):
        the_view(door, name)
    refuse_if_needed(name, view_readers(door, stored))
    _drop(door, canonical)
    return True


def alter_policy(door: SparkLake, name: str, policy: Policy) -> None:
    """Give a view another refresh policy."""
    view = the_view(door, name)
    definition = replace(view.definition, policy=policy.value)
    _refuse_if_strict(replace(view, definition=definition))
    stored = door.table(view.stored)
    door.set_properties(stored, {VIEW_PROPERTY: definition.to_json()})


def show(door: SparkLake, view: View, version: int | None = None) -> None:
    """Put the view under its name: exactly the declared columns, read from the stored table."""
    lake_catalog.create_view(door, canonical_name(door, view.name), read_sql(door, view, version))


def read_sql(door: SparkLake, view: View, version: int | None = None) -> str:
    """The query of the catalog view, over the newest version of the stored table or another."""
    declared = (
        Output(name, col(plan))
        for (name, _), (_, plan) in zip(view.definition.columns, view.bound.columns, strict=True)
    )
    stored = reference(door.table(view.stored), version)
    return render(Project(view.read, tuple(declared)), lambda _: stored.copy()).sql(dialect="spark")


def _fill(door: SparkLake, view: View) -> None:
    with Pins(door) as pins, Ledger(door.journal) as ledger, computing(f"view {view.name!r}"):
        for part in view.every_part:
            ledger.add(_filled(door, part, pins))
        ledger.add(_filled(door, view, pins))


def _filled(door: SparkLake, view: View, pins: Pins) -> Record | None:
    meter = Meter()
    how = note("create", "", meter.began)
    tables = {t: pins.table(t) for t in (*view.inputs, *view.tables)}
    vector = {t: table.position for t, table in tables.items()}
    newest = {t: table.version for t, table in tables.items()}
    stamp = Stamp(view.definition.id, 1, vector, how)
    work = pins.work(view.definition.settings)
    versions = Versions(pins, work, newest, newest, opened=meter.opened)
    declared = {t: table.declared for t, table in tables.items()}
    query = fill(view.state, versions, declared).sql(dialect="spark")
    known = pins.statistics(view.tables, {}, {})
    meter.candidates = (
        candidate(Strategy.REBUILD, rebuild_work(view.state, known), CostHistory()),
    )
    with meter.counting(door, view):
        stamp = replace(stamp, holding=holding_references(work, pins, view, newest))
        near = most_selective_key(view.state, view.definition.types, known)
        make = commits.replace if door.exists(view.stored) else commits.create
        make(work, view.stored, query, stamp, view.properties, near)
    return meter.record(door, view, stamp, {}, None, pins.table)


def _drop(door: SparkLake, name: str) -> None:
    lake_catalog.drop_view(door, name)
    _drop_parts(door, name)
    lake_catalog.drop_table(door, stored_of(name))


def _drop_parts(door: SparkLake, name: str, after: int = 0) -> None:
    """Drop a view's parts, those after some number."""
    stored, number = stored_of(name), after + 1
    while door.exists(part := part_of(stored, number)):
        lake_catalog.drop_table(door, part)
        number += 1


def _declared(
    door: SparkLake, query: str, settings: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The columns Spark gives the query, refused where they cannot be stored."""
    columns = tuple(door.output_schema(query, settings))
    for name, kind in columns:
        if type_words(kind) & {"interval", "void", "variant"}:
            raise Unsupported(
                f"column {name!r} of type {kind} cannot be stored in a Delta table",
                hint="cast it to another type",
                reason="UNSTORABLE_TYPE",
            )
    return columns


def _own_properties(statement: CreateView) -> dict[str, str]:
    """The properties a user gives the stored table; what views rely on is not theirs to set."""
    for key, _ in statement.properties:
        if key.startswith("belvedere.") or key in (*commits.RELIED_ON, COLUMN_MAPPING):
            raise Invalid(
                f"the property {key!r} of a materialized view cannot be chosen",
                hint="leave it out: views set it themselves",
                reason="OWN_PROPERTY",
            )
    return dict(statement.properties)


def _refuse_maps(view: View) -> None:
    """Rows are told apart by their values; values of type MAP cannot be compared."""
    state, types = view.state, view.definition.types
    compared = state.columns if isinstance(state, Bag) else state.keys
    for column in compared:
        if "map" in type_words(types[column]):
            raise Unsupported(
                f"column {column!r} of type {types[column]} cannot be compared",
                hint="select the entries you need, or map_entries(…), instead of the map",
                reason="UNCOMPARABLE_TYPE",
            )


def _refuse_nested_char(door: SparkLake, view: View) -> None:
    """CHAR within an array, a struct or a map would stay CHAR where it is stored: Delta cannot merge that."""
    for column in view.state.columns:
        place = origin(view.state.plan, column)
        if place is None or "<" not in place.type or "string" not in place.type:
            continue
        kind = door.table(place.table).declared.get(place.column, "")
        if has_char(kind):
            raise Unsupported(
                f"column {column!r} of type {kind} cannot be stored",
                hint="select the parts of it that you need",
                reason="UNSTORABLE_TYPE",
            )


def _refuse_if_strict(view: View) -> None:
    """A STRICT view that could never be refreshed from changes is refused at once."""
    if Policy(view.definition.policy) is not Policy.STRICT:
        return
    reason = next(
        filter(
            None,
            (
                rebuild_reason(v.state, v.definition.types, v.tables)
                for v in (*view.every_part, view)
            ),
        ),
        "",
    )
    if reason:
        raise Unsupported(
            f"{view.name!r} could not be refreshed from its changes: {REASONS[reason]}",
            detail=f"reason {reason}; the policy is INCREMENTAL STRICT",
            hint="REFRESH POLICY INCREMENTAL would rebuild it when needed",
            reason=reason,
        )
