"""The state of an updatable view built from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from belvedere.delta.stamps import Vector
from belvedere.lake.offline import ReadableLake
from belvedere.updating.reading import read_version
from belvedere.updating.state import (
    LookupPlace,
    UpdatableState,
    compile_updatable,
    declared_keys,
    open_in_tables,
)
from belvedere.updating.summary.base_tables import held_columns
from belvedere.updating.summary.candidates import counted_candidates
from belvedere.updating.summary.filter import UpdateFilter, build_filter
from belvedere.updating.summary.in_tables import parts
from belvedere.updating.summary.in_tables.build import ChooseCandidates
from belvedere.updating.summary.in_tables.candidate_queries import (
    TableMakers,
    choose_count,
    choose_share,
)
from belvedere.updating.summary.in_tables.summary import StoredSummary
from belvedere.updating.summary.insertion_sample import choose_root_by_sample
from belvedere.updating.summary.roots import RootChoice, root_by_keys

MOST_SAMPLED = 5_000_000
"""Rows up to which roots are tried out: each costs about half a build."""


def build_updatable(
    lake: ReadableLake, definition: Mapping[str, Any], vector: Vector | None = None
) -> UpdatableState:
    """A view's state from its tables at a vector, or at their newest versions.

    A summary in tables is made of views, which are at the newest versions when they are new.
    """
    if definition.get("lookups") == LookupPlace.TABLES.value:
        view = open_in_tables(lake, definition)
        if view.tabled is not None:
            return _with_new_summary(view, view.tabled)
        return view if vector is None else replace(view, vector=vector)
    bound, shape = compile_updatable(lake, definition["query"], definition["name"])
    keys = declared_keys(lake, shape)
    tables = {t: lake.table(t) for t in shape.tables}
    at = {t: table.position for t, table in tables.items()} if vector is None else vector
    rows = {
        t: read_version(lake, tables[t], at[t].version, list(shape.used[t])) for t in shape.tables
    }
    share = definition["percent"] / 100
    chosen_root = definition.get("root") or definition.get("rooted")
    first = root_by_keys(shape, keys) if chosen_root is None else chosen_root
    filter_, choice = build_filter(shape, rows, keys, root=first, share=share), None
    few = sum(filter_.base.tables[t].size for t in shape.tables) <= MOST_SAMPLED
    if chosen_root is None and few:
        filter_, choice = choose_root_by_sample(filter_, share, filter_.base.tree.root)
    if definition.get("candidates") is not None:
        filter_.candidates = counted_candidates(
            filter_.base, filter_.graph, definition["candidates"]
        )
        filter_.summarize()
    record = {**definition, **_root_record(filter_, choice)}
    return UpdatableState(record, bound, filter_.base.tree, filter_.keys, dict(at), filter_)


def _with_new_summary(view: UpdatableState, summary: StoredSummary) -> UpdatableState:
    """A view with its summary made in tables, and candidates chosen."""
    record, columns = view.definition, held_columns(view.shape, view.keys)
    count, share = record.get("candidates"), record["percent"] / 100

    def choose(makers: TableMakers) -> ChooseCandidates:
        return choose_share(share, makers) if count is None else choose_count(count, makers)

    door, name = summary.door, record["name"]
    pieces = parts.create_parts(door, name, view.tree, columns, view.keys, choose)
    return replace(
        view,
        definition={**record, "pieces": pieces},
        tabled=replace(summary, pieces=pieces),
        vector=parts.vector_of_parts(door, name, view.shape.tables),
    )


def _root_record(filter_: UpdateFilter, choice: RootChoice | None) -> dict[str, Any]:
    """What is saved of how a root was chosen."""
    if choice is None:
        return {}
    errors = [
        [at.table, choice.errors[p]]
        for p, at in enumerate(filter_.shape.positions)
        if p in choice.errors
    ]
    return {"chosen": {"sample": choice.sample, "bound": choice.bound, "errors": errors}}
