"""The state of an updatable view: its query compiled, and its rows in memory or in its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from belvedere.delta.stamps import Vector
from belvedere.derivations.saved_states import Undivided
from belvedere.errors import Unsupported
from belvedere.joins.equijoin_tree import EquijoinTree, Keys, equijoin_tree
from belvedere.joins.normal_form import JoinBlock
from belvedere.lake.capabilities import spark_lake
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.declared_keys import key_of
from belvedere.sql.binder.bind import Bound, bind
from belvedere.updating.reading import row_count
from belvedere.updating.side_effects.neighbours import hidden_held_columns
from belvedere.updating.summary.base_tables import held_columns
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.in_tables.summary import StoredSummary
from belvedere.updating.summary.roots import root_by_keys
from belvedere.updating.updatable_block import updatable_block
from belvedere.views.catalog import Names, as_not_read
from belvedere.views.definition import Columns

MOST_HELD = 50_000_000
"""Rows of all tables up to which they are held in memory, unless a user says otherwise."""


class LookupPlace(Enum):
    """Where rows of a view's tables are looked up."""

    MEMORY = "MEMORY"
    TABLES = "TABLES"


@dataclass(frozen=True)
class UpdatableDefinition(Undivided):
    """An updatable view without its state: what is saved of it, and what it reads."""

    record: Mapping[str, Any]
    reads: Mapping[str, Mapping[str, str]]

    @property
    def id(self) -> str:
        """What the record of refreshes calls it."""
        return f"updatable view {self.name}"

    @property
    def name(self) -> str:
        """Its canonical name."""
        return str(self.record["name"])

    @property
    def in_tables(self) -> bool:
        """Whether its rows stay in its tables."""
        return self.record.get("lookups") == LookupPlace.TABLES.value

    @property
    def has_stored_summary(self) -> bool:
        """Whether its summary is kept in tables."""
        return self.in_tables and bool(self.record.get("summary"))


@dataclass
class UpdatableState:
    """A view at a vector: its definition as it is saved, its join tree, its filter if that is in memory."""

    definition: Mapping[str, Any]
    bound: Bound
    tree: EquijoinTree
    keys: Keys
    vector: Vector
    rows: UpdateFilter | None = None
    unsaved: int | None = None
    """Changed rows since its rows were saved; None if they never were."""
    tabled: StoredSummary | None = None
    """Its summary, if that is kept in tables."""

    @property
    def shape(self) -> JoinBlock:
        """The view in normal form."""
        return self.tree.block

    @property
    def filter(self) -> UpdateFilter:
        """Its filter, where all its rows are in memory."""
        assert self.rows is not None
        return self.rows


def compile_updatable(
    lake: ReadableLake, query: str, name: str, recorded: Mapping[str, Columns] | None = None
) -> tuple[Bound, JoinBlock]:
    """A view's query in normal form; `Unsupported` if it reads a view.

    `recorded` are the columns that the tables had when a saved state was built.
    """
    names = Names(lake, (name,), recorded or {})
    with as_not_read(lake, query):
        bound = bind(query, names)
    if names.views:
        raise Unsupported(
            "an updatable view over a materialized view",
            hint="name the tables that the view reads",
            reason="OVER_A_VIEW",
        )
    return bound, updatable_block(bound)


def declared_keys(lake: ReadableLake, shape: JoinBlock) -> dict[str, tuple[str, ...]]:
    """The declared keys of a view's tables."""
    keys = {t: key_of(lake.table(t)) for t in shape.tables}
    return {t: key for t, key in keys.items() if key is not None}


def usual_lookups(lake: ReadableLake, shape: JoinBlock) -> LookupPlace:
    """LookupPlace rows are looked up unless a user says so: large tables stay where they are."""
    counts = [row_count(lake.table(t)) for t in shape.tables]
    few = None not in counts and sum(n for n in counts if n is not None) <= MOST_HELD
    hidden = hidden_held_columns(shape, held_columns(shape, declared_keys(lake, shape)))
    return LookupPlace.MEMORY if few or hidden else LookupPlace.TABLES


def open_in_tables(lake: ReadableLake, definition: Mapping[str, Any]) -> UpdatableState:
    """A view whose rows stay in its tables: nothing is read."""
    bound, shape = compile_updatable(lake, definition["query"], definition["name"])
    keys = declared_keys(lake, shape)
    hidden = hidden_held_columns(shape, held_columns(shape, keys))
    if hidden:
        raise Unsupported(
            f"rows are not found in the tables by a view that does not show {hidden[0]}",
            detail=f"it would have to show {', '.join(hidden)}",
            hint="show keys and what is joined on, or say LOOKUPS IN MEMORY",
            reason="HIDDEN_KEYS",
        )
    root = definition.get("root")
    tree = equijoin_tree(shape, root_by_keys(shape, keys) if root is None else root, keys)
    vector = {t: lake.table(t).position for t in shape.tables}
    view = UpdatableState(definition, bound, tree, keys, vector)
    return replace(view, tabled=_stored_summary(lake, view))


def _stored_summary(lake: ReadableLake, view: UpdatableState) -> StoredSummary | None:
    """The summary of a view as its tables have it now, if it is kept there; without Spark, none."""
    definition, spark = view.definition, spark_lake(lake)
    if not definition.get("summary") or spark is None:
        return None
    return StoredSummary(spark, definition["name"], view.tree, definition.get("pieces", ()))
