"""Create and drop samples: everything is checked before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from belvedere.algebra.hashing import family
from belvedere.algebra.relations import Aggregate, Distinct, Rel, TopK
from belvedere.algebra.walks import each_once, tables
from belvedere.analyses.keys import Declared, Key, fewest, key
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import ReadableLake
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.declared_keys import key_of
from belvedere.samples.outlier_bounds import beyond
from belvedere.sql.binder.bind import Bound, bind
from belvedere.sql.names import parts
from belvedere.sql.statements.cursor import dotted, name_parts
from belvedere.sql.statements.samples import CreateSample
from belvedere.views import create as creation
from belvedere.views.catalog import (
    Names,
    all_views,
    canonical_name,
    is_view,
    stored_of,
    the_view,
)
from belvedere.views.definition import Definition, View
from belvedere.views.drop import drop_view
from belvedere.views.parts import assembled, called
from belvedere.views.sampling import Sampling, leaves, records, sampled_plan, sampling_types
from belvedere.views.state import Grouped, split, state_of


def create_sample(door: SparkLake, statement: CreateSample) -> list[View]:
    """Create a view's sample, and the table of its outliers; each is filled at once."""
    view = the_view(door, statement.view)
    if not 0 < statement.ratio <= 1:
        raise Invalid(
            f"a ratio of {statement.ratio * 100:g} percent",
            hint="a ratio is more than 0 and at most 100 percent",
            reason="BAD_VALUE",
        )
    existing = samples_of(door, view.name)
    if existing and not statement.replace:
        raise Invalid(
            f"{view.name!r} has a sample already",
            hint=f"CREATE OR REPLACE SAMPLE ON {view.name} …, or DROP SAMPLE ON {view.name} first",
            reason="NAME_TAKEN",
        )
    made = planned(door, view, statement)
    for other in made:
        name = canonical_name(door, other.name)
        if other.name not in {e.name for e in existing} and (
            door.exists(name) or is_view(door, name)
        ):
            raise Invalid(
                f"{other.name!r} exists already: the sample would have this name",
                hint="rename the table",
                reason="NAME_TAKEN",
            )
    for old in existing:
        drop_view(door, old.name)
    for new in made:
        creation.fill_view(door, new)
    return made


def drop_sample(door: SparkLake, view: str, *, if_exists: bool = False) -> list[str]:
    """Drop a view's sample and outliers; their names."""
    existing = samples_of(door, view)
    if not existing and not if_exists:
        raise no_sample(the_view(door, view).name)
    for old in existing:
        drop_view(door, old.name)
    return [old.name for old in existing]


def samples_of(lake: ReadableLake, view: str) -> list[View]:
    """The sample of a view and its outliers; empty if it has none."""
    own = canonical_name(lake, view)
    found = [
        v
        for v in all_views(lake)
        if (s := v.definition.sampling) and canonical_name(lake, s.of) == own
    ]
    return sorted(found, key=lambda v: bool(v.definition.sampling and v.definition.sampling.table))


def no_sample(view: str) -> Invalid:
    """The error for a view that has no sample."""
    return Invalid(
        f"{view!r} has no sample",
        hint=f"CREATE SAMPLE ON {view} RATIO 10 PERCENT",
        reason="NO_SAMPLE",
    )


def planned(door: SparkLake, view: View, statement: CreateSample) -> list[View]:
    """The views of a sample and its outliers, compiled and checked; nothing is written."""
    definition = view.definition
    if definition.sample is not None:
        raise Invalid(
            f"{view.name!r} is a sample itself",
            hint="sample the view it is of",
            reason="SAMPLE_OF_SAMPLE",
        )
    names = Names(door, (canonical_name(door, view.name),), definition.sources)
    bound = bind(definition.query, names)
    _refuse_limit(view.name, bound.plan)
    hashed, unique = _hashed(door, view, bound, statement)
    sampling = Sampling(
        view.name, hashed, unique, statement.ratio, statement.seed, leaves=statement.leaves
    )
    made = [_compiled(door, view, bound, sampling, "sample")]
    if statement.outliers is not None:
        index = replace(sampling, leaves=False)
        index = beyond(door, view, statement.outliers, index)
        made.append(_compiled(door, view, bound, index, "outliers"))
    return made


def redefined(door: SparkLake, view: View, sampling: Sampling) -> View:
    """The outliers of a view with other bounds, compiled; nothing is written."""
    names = Names(door, (canonical_name(door, view.name),), view.definition.sources)
    bound = bind(view.definition.query, names)
    return _compiled(door, view, bound, sampling, "outliers")


def _compiled(door: SparkLake, view: View, bound: Bound, sampling: Sampling, role: str) -> View:
    *space, last = parts(view.name)
    name = dotted([*space, f"{last}_{role}"])
    own: Definition = replace(
        view.definition,
        id=str(uuid.uuid4()),
        name=name,
        policy="AUTO",
        parts=(),
        comment=f"{role} of {view.name}",
        sample=sampling.to_dict(),
        types=sampling_types(view.definition.types, sampling),
    )
    plan = sampled_plan(bound.plan, sampling, own.types)
    order = each_once(plan)
    kept = leaves(plan) if sampling.leaves else records(plan, sampling) if sampling.most else []
    own = replace(own, parts=tuple((i, called(order[i])) for i in kept))
    return assembled(own, bound, stored_of(canonical_name(door, name)))


def _refuse_limit(name: str, plan: Rel) -> None:
    """A top-k has no sample: which rows it has depends on all others (SVC §9)."""
    node = plan
    while not isinstance(node, Aggregate | Distinct) and hasattr(node, "child"):
        if isinstance(node, TopK):
            break
        node = node.child
    if isinstance(node, TopK):
        raise Unsupported(
            f"a sample of {name!r}, which has ORDER BY … LIMIT",
            hint="sample a view without the LIMIT",
            reason="SAMPLE_OF_LIMIT",
        )


def _hashed(
    door: SparkLake, view: View, bound: Bound, statement: CreateSample
) -> tuple[tuple[str, ...], bool]:
    """The columns to hash, and whether no two rows agree on them."""
    types = view.definition.types
    state = state_of(bound.plan, types)
    core, _ = split(bound.plan)
    declared = _declared(door, core)
    whole = key(core, declared)
    if isinstance(state, Grouped):
        whole = Key(fewest(state.child, state.keys, declared))
    if isinstance(state, Grouped) and not state.keys:
        raise Unsupported(
            f"a sample of {view.name!r}, which has one row",
            hint="read it: there is nothing to sample",
            reason="SAMPLE_OF_ONE_ROW",
        )
    if statement.by:
        asked = tuple(_core_column(bound, state.columns, view.name, c) for c in statement.by)
        chosen, unique = asked, whole is not None and set(whole.columns) <= set(asked)
    elif whole is not None and whole.columns:
        chosen, unique = whole.columns, True
    else:
        chosen, unique = state.columns, False
    if isinstance(state, Grouped):
        _refuse_aggregates(chosen, state.keys, view.name)
    _refuse_unhashable(chosen, types, view.name)
    return chosen, unique


def _declared(door: SparkLake, core: Rel) -> Declared:
    found = {t: key_of(door.table(t)) for t in tables(core)}
    return found.get


def _core_column(bound: Bound, columns: tuple[str, ...], view: str, asked: str) -> str:
    (name,) = name_parts(asked)
    shown = {n.lower(): plan for n, plan in bound.columns}
    plan = shown.get(name.lower())
    if plan is None or plan not in columns:
        raise Invalid(
            f"{view!r} has no column {name!r} to hash",
            hint=f"columns that are stored as they are: {', '.join(c for c in columns if c in shown.values())}",
            reason="NO_SUCH_COLUMN",
        )
    return plan


def _refuse_aggregates(chosen: tuple[str, ...], keys: tuple[str, ...], view: str) -> None:
    other = [c for c in chosen if c not in keys]
    if other:
        raise Invalid(
            f"{other[0]!r} changes with the rows of {view!r}: it cannot tell them apart",
            hint=f"hash columns of the GROUP BY: {', '.join(keys)}",
            reason="SAMPLE_KEY",
        )


def _refuse_unhashable(chosen: tuple[str, ...], types: Mapping[str, str], view: str) -> None:
    for column in chosen:
        if family(types[column]) is None:
            raise Unsupported(
                f"a sample of {view!r} by {column!r} of type {types[column]}",
                hint="BY (…) names columns of plain types",
                reason="UNHASHABLE_TYPE",
            )
