"""Create and drop views: everything is checked before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from belvedere.algebra.types import VARIANT, VOID, IntervalType, MapType, parse
from belvedere.analyses.origins import origin
from belvedere.analyses.sizes import Sizes
from belvedere.analyses.types import types as types_of
from belvedere.delta.snapshots import COLUMN_MAPPING
from belvedere.derivations.advance import call_of, create
from belvedere.derivations.guard import refuse_if_needed, view_readers
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import VIEW_PROPERTY
from belvedere.lake.pins import Pins
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.reasons import REASONS
from belvedere.sql.binder.bind import bind
from belvedere.sql.binder.char_columns import has_char
from belvedere.sql.statements.views import CreateView, RefreshPolicy
from belvedere.views.catalog import (
    Names,
    as_not_read,
    canonical_name,
    is_view,
    stored_of,
    the_view,
)
from belvedere.views.catalog_views import show
from belvedere.views.definition import View, ViewDefinition
from belvedere.views.drop import drop_parts
from belvedere.views.incremental.choice import rebuild_reason
from belvedere.views.kind import Views
from belvedere.views.parts import assembled, chosen
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
    definition = ViewDefinition(
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
    if RefreshPolicy(view.definition.policy) is RefreshPolicy.FULL:
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
            with call_of(door) as call:
                create(Views(door), view.name, view, call)
        except BaseException:
            if not door.exists(view.stored):
                drop_parts(door, name)
            raise
        drop_parts(door, name, len(view.every_part))  # of the view before
    show(door, view)


def alter_policy(door: SparkLake, name: str, policy: RefreshPolicy) -> None:
    """Give a view another refresh policy."""
    view = the_view(door, name)
    definition = replace(view.definition, policy=policy.value)
    _refuse_if_strict(replace(view, definition=definition))
    stored = door.table(view.stored)
    door.set_properties(stored, {VIEW_PROPERTY: definition.to_json()})


def _declared(
    door: SparkLake, query: str, settings: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The columns Spark gives the query, refused where they cannot be stored."""
    columns = tuple(door.output_schema(query, settings))
    for name, kind in columns:
        if any(t in (VOID, VARIANT) or isinstance(t, IntervalType) for t in parse(kind).nested):
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
        if any(isinstance(t, MapType) for t in parse(types[column]).nested):
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
    if RefreshPolicy(view.definition.policy) is not RefreshPolicy.STRICT:
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
            f"{view.name!r} could not be refreshed from its changes: {REASONS[reason].sentence}",
            detail=f"reason {reason}; the policy is INCREMENTAL STRICT",
            hint="REFRESH POLICY INCREMENTAL would rebuild it when needed",
            reason=reason,
        )
