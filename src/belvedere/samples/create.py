"""Create and drop samples. Everything is checked before anything is written."""

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
from belvedere.samples.outlier_bounds import with_bounds
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
from belvedere.views.definition import View, ViewDefinition
from belvedere.views.drop import drop_view
from belvedere.views.parts import assembled, called
from belvedere.views.sampling import Sampling, leaves, records, sampled_plan, sampling_types
from belvedere.views.state import Grouped, split, state_of


def create_sample(door: SparkLake, statement: CreateSample) -> list[View]:
    """Create the sample of a view, and its outliers, and fill them."""
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
            f"{view.name!r} already has a sample",
            hint=f"CREATE OR REPLACE SAMPLE ON {view.name} …, or DROP SAMPLE ON {view.name} first",
            reason="NAME_TAKEN",
        )
    planned = plan_sample(door, view, statement)
    for sample in planned:
        name = canonical_name(door, sample.name)
        if sample.name not in {e.name for e in existing} and (
            door.exists(name) or is_view(door, name)
        ):
            raise Invalid(
                f"{sample.name!r} already exists, and the sample would have this name",
                hint="rename the table",
                reason="NAME_TAKEN",
            )
    for sample in existing:
        drop_view(door, sample.name)
    for sample in planned:
        creation.fill_view(door, sample)
    return planned


def drop_sample(door: SparkLake, view: str, *, if_exists: bool = False) -> list[str]:
    """Drop the sample and the outliers of a view; returns their names."""
    existing = samples_of(door, view)
    if not existing and not if_exists:
        raise no_sample(the_view(door, view).name)
    for old in existing:
        drop_view(door, old.name)
    return [old.name for old in existing]


def samples_of(lake: ReadableLake, view: str) -> list[View]:
    """The sample of a view and its outliers; empty if it has none."""
    canonical = canonical_name(lake, view)
    samples = [
        v
        for v in all_views(lake)
        if (s := v.definition.sampling) and canonical_name(lake, s.of) == canonical
    ]
    return sorted(
        samples, key=lambda v: bool(v.definition.sampling and v.definition.sampling.table)
    )


def no_sample(view: str) -> Invalid:
    """The error for a view that has no sample."""
    return Invalid(
        f"{view!r} has no sample",
        hint=f"CREATE SAMPLE ON {view} RATIO 10 PERCENT",
        reason="NO_SAMPLE",
    )


def plan_sample(door: SparkLake, view: View, statement: CreateSample) -> list[View]:
    """The views of a sample and its outliers, compiled and checked. Writes nothing."""
    definition = view.definition
    if definition.sample is not None:
        raise Invalid(
            f"{view.name!r} is itself a sample",
            hint="sample the view that it samples",
            reason="SAMPLE_OF_SAMPLE",
        )
    names = Names(door, (canonical_name(door, view.name),), definition.sources)
    bound = bind(definition.query, names)
    _refuse_limit(view.name, bound.plan)
    hashed, unique = _hashed_columns(door, view, bound, statement)
    sampling = Sampling(
        view.name, hashed, unique, statement.ratio, statement.seed, leaves=statement.leaves
    )
    planned = [_compile(door, view, bound, sampling, "sample")]
    if statement.outliers is not None:
        index = replace(sampling, leaves=False)
        index = with_bounds(door, view, statement.outliers, index)
        planned.append(_compile(door, view, bound, index, "outliers"))
    return planned


def plan_outliers(door: SparkLake, view: View, sampling: Sampling) -> View:
    """The outliers of a view with new bounds, compiled. Writes nothing."""
    names = Names(door, (canonical_name(door, view.name),), view.definition.sources)
    bound = bind(view.definition.query, names)
    return _compile(door, view, bound, sampling, "outliers")


def _compile(door: SparkLake, view: View, bound: Bound, sampling: Sampling, role: str) -> View:
    *space, last = parts(view.name)
    name = dotted([*space, f"{last}_{role}"])
    own: ViewDefinition = replace(
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
    stored = leaves(plan) if sampling.leaves else records(plan, sampling) if sampling.most else []
    own = replace(own, parts=tuple((i, called(order[i])) for i in stored))
    return assembled(own, bound, stored_of(canonical_name(door, name)))


def _refuse_limit(name: str, plan: Rel) -> None:
    """Unsupported for a top-k: whether it has a row depends on all other rows (SVC §9)."""
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


def _hashed_columns(
    door: SparkLake, view: View, bound: Bound, statement: CreateSample
) -> tuple[tuple[str, ...], bool]:
    """The columns to hash, and whether no two rows agree on them."""
    types = view.definition.types
    state = state_of(bound.plan, types)
    core, _ = split(bound.plan)
    declared = _declared_keys(door, core)
    unique_key = key(core, declared)
    if isinstance(state, Grouped):
        unique_key = Key(fewest(state.child, state.keys, declared))
    if isinstance(state, Grouped) and not state.keys:
        raise Unsupported(
            f"a sample of {view.name!r}, which has one row",
            hint="query the view: one row needs no sample",
            reason="SAMPLE_OF_ONE_ROW",
        )
    if statement.by:
        requested = tuple(_core_column(bound, state.columns, view.name, c) for c in statement.by)
        chosen, unique = (
            requested,
            unique_key is not None and set(unique_key.columns) <= set(requested),
        )
    elif unique_key is not None and unique_key.columns:
        chosen, unique = unique_key.columns, True
    else:
        chosen, unique = state.columns, False
    if isinstance(state, Grouped):
        _refuse_aggregates(chosen, state.keys, view.name)
    _refuse_unhashable(chosen, types, view.name)
    return chosen, unique


def _declared_keys(door: SparkLake, core: Rel) -> Declared:
    keys = {t: key_of(door.table(t)) for t in tables(core)}
    return keys.get


def _core_column(bound: Bound, columns: tuple[str, ...], view: str, requested: str) -> str:
    (name,) = name_parts(requested)
    stored_names = {n.lower(): stored for n, stored in bound.columns}
    stored = stored_names.get(name.lower())
    if stored is None or stored not in columns:
        raise Invalid(
            f"{view!r} has no column {name!r} to hash",
            hint=f"hash one of the columns that are stored unchanged: {', '.join(c for c in columns if c in stored_names.values())}",
            reason="NO_SUCH_COLUMN",
        )
    return stored


def _refuse_aggregates(hashed: tuple[str, ...], keys: tuple[str, ...], view: str) -> None:
    aggregates = [c for c in hashed if c not in keys]
    if aggregates:
        raise Invalid(
            f"{aggregates[0]!r} changes with the rows of {view!r} and cannot identify them",
            hint=f"hash columns of the GROUP BY: {', '.join(keys)}",
            reason="SAMPLE_KEY",
        )


def _refuse_unhashable(chosen: tuple[str, ...], types: Mapping[str, str], view: str) -> None:
    for column in chosen:
        if family(types[column]) is None:
            raise Unsupported(
                f"a sample of {view!r} by {column!r} of type {types[column]}",
                hint="name columns of plain types in BY (…)",
                reason="UNHASHABLE_TYPE",
            )
