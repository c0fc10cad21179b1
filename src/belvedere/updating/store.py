"""The store of updatable views: rows are saved now and then, where they are at once.

A state that is saved whole stands before the note of the vector since then is taken away: a vector
that is not ahead of the saved rows means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from belvedere.delta.history import Event
from belvedere.delta.stamps import Vector
from belvedere.derivations.protocol import AdvanceStep, Loaded, StateWrite
from belvedere.derivations.registry import the_saves
from belvedere.derivations.unreadable import first_problem, problems
from belvedere.joins.equijoin_tree import Keys, equijoin_tree
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Corrupt, Saved
from belvedere.updating.changes import apply_changes
from belvedere.updating.reading import net_changes
from belvedere.updating.state import (
    UpdatableDefinition,
    UpdatableState,
    compile_updatable,
    declared_keys,
    open_in_tables,
)
from belvedere.updating.summary.base_tables import RowNotHeld, held_columns
from belvedere.updating.summary.in_tables import parts
from belvedere.updating.summary.saved_arrays import (
    domain_groups,
    filter_from_arrays,
    filter_to_arrays,
)
from belvedere.views.definition import Columns

if TYPE_CHECKING:
    from belvedere.lake.pins import Pins

KIND = "updating"
MOVED = "updating-moved"
FEW, PART = 10_000, 20
"""Changed rows that are not worth saving all rows for: so many, and that part of them."""


class UpdatableStates:
    """The states of a lake's updatable views; the newest stay in memory."""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._held: dict[str, UpdatableState] = {}

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a view, from load to commit."""
        return the_saves(self._lake).locked(KIND, name)

    def load(
        self,
        name: str,
        pins: Pins | None = None,  # noqa: ARG002
    ) -> Loaded[UpdatableDefinition, UpdatableState]:
        """The state in memory, or the saved one with the changes up to its vector."""
        vector = saved_vector(self._lake, name)
        held = self._held.get(name)
        if held is None or held.vector != vector:
            self._held.pop(name, None)
            loaded = load_updatable(self._lake, name)
            if loaded.state is not None:
                self._held[name] = loaded.state
            return loaded
        definition = definition_of(self._lake, held.definition)
        if not _summary_is_complete(held):
            return Loaded(definition, None, vector, reason="PART_GONE")
        return Loaded(definition, held, held.vector)

    def commit(
        self,
        name: str,
        write: StateWrite[UpdatableDefinition, UpdatableState],
        step: AdvanceStep,
    ) -> None:
        """Save where the view is; its rows too, once enough of them changed."""
        reads = write.definition.reads
        write.state.vector = {t: p for t, p in step.target.items() if t in reads}
        save_updatable(self._lake, name, write.state)
        self._held[name] = write.state

    def event(
        self,
        write: StateWrite[UpdatableDefinition, UpdatableState],  # noqa: ARG002
        step: AdvanceStep,  # noqa: ARG002
    ) -> Event | None:
        """Saved states have no commits of their own."""
        return None

    def forget(self, name: str) -> None:
        """Let go of a state in memory, which may be ahead of its vector."""
        self._held.pop(name, None)

    def drop(self, name: str) -> None:
        """Take a saved view away."""
        self.forget(name)
        saves = the_saves(self._lake)
        pieces = saves.head(KIND, name).definition.get("pieces")
        if pieces:
            parts.drop_parts(self._lake, name, pieces)  # type: ignore[arg-type]
        saves.drop(MOVED, name)
        saves.drop(KIND, name)

    def close(self) -> None:
        """Let go of all states in memory."""
        self._held.clear()


def definition_of(lake: ReadableLake, record: Mapping[str, Any]) -> UpdatableDefinition:
    """The definition in a saved record; columns have the types that they had then, if known."""
    sources = _sources(record)
    reads = {}
    for table, columns in record["reads"].items():
        types = {c.lower(): kind for c, kind in sources.get(table) or lake.table(table).columns}
        reads[table] = {c: types.get(c.lower(), "") for c in columns}
    return UpdatableDefinition(record, reads)


def with_reads(lake: ReadableLake, view: UpdatableState) -> dict[str, Any]:
    """The record of a view, with what it reads as it is now."""
    reads = {t: list(columns) for t, columns in view.shape.used.items()}
    sources = {t: [list(c) for c in lake.table(t).columns] for t in reads}
    return {**view.definition, "reads": reads, "sources": sources}


def _sources(record: Mapping[str, Any]) -> dict[str, Columns]:
    """The columns that the tables had, if that was recorded."""
    sources = record.get("sources", {})
    return {t: tuple((n, k) for n, k in columns) for t, columns in sources.items()}


def save_updatable(lake: ReadableLake, name: str, view: UpdatableState) -> None:
    """Save where a view is; its rows too, once enough of them changed since they were saved."""
    saves = the_saves(lake)
    record = {**view.definition, "rooted": view.tree.root, "keys": _as_saved(view.keys)}
    if view.rows is None:
        saves.save(KIND, name, record, view.vector, {})
        return
    base = view.rows.base
    rows = sum(base.tables[t].size for t in view.shape.tables)
    if view.unsaved is not None and view.unsaved <= FEW + rows // PART:
        saves.save(MOVED, name, {}, view.vector, {})
        return
    record["groups"] = domain_groups(base)
    saves.save(KIND, name, record, view.vector, filter_to_arrays(view.rows))
    saves.drop(MOVED, name)
    view.unsaved = 0


def saved_vector(lake: ReadableLake, name: str) -> Vector:
    """Where a saved view is: ahead of its saved rows, if that was noted."""
    saves = the_saves(lake)
    rows = saves.head(KIND, name).vector
    if not saves.has(MOVED, name):
        return rows
    moved = saves.head(MOVED, name).vector
    ahead = all(
        t in moved and moved[t].id == at.id and moved[t].version >= at.version
        for t, at in rows.items()
    )
    return moved if ahead else rows


def load_updatable(lake: ReadableLake, name: str) -> Loaded[UpdatableDefinition, UpdatableState]:
    """A view as it was saved, at its vector; a state that cannot be used has a reason instead."""
    saves, vector = the_saves(lake), saved_vector(lake, name)
    try:
        saved = saves.load(KIND, name)
    except Corrupt as corrupt:
        definition = definition_of(lake, saves.head(KIND, name).definition)
        return Loaded(definition, None, vector, reason=corrupt.reason)
    definition = definition_of(lake, saved.head.definition)
    state = _restored(lake, definition, saved, vector)
    if isinstance(state, str):
        newest = {t: lake.table(t).position for t in definition.reads}
        found = problems(lake, lake, vector, newest, definition.reads, reads_old=False)
        reason = first_problem(found, definition.tables) or state
        return Loaded(definition, None, vector, reason=reason)
    return Loaded(definition, state, vector)


def _restored(
    lake: ReadableLake, definition: UpdatableDefinition, saved: Saved, vector: Vector
) -> UpdatableState | str:
    """The state that was saved, or why it cannot be used."""
    record = saved.head.definition
    if definition.in_tables:
        view = replace(open_in_tables(lake, record), vector=vector)
        if view.tabled is None:
            return view
        if _as_saved(view.keys) != record["keys"]:
            return "REDEFINED"
        return view if _summary_is_complete(view) else "PART_GONE"
    # The state is of the columns that the tables had then.
    bound, shape = compile_updatable(lake, record["query"], record["name"], _sources(record))
    keys = declared_keys(lake, shape)
    if _as_saved(keys) != record["keys"]:
        return "REDEFINED"
    tree = equijoin_tree(shape, int(record["rooted"]), keys)
    filter_ = filter_from_arrays(
        saved.arrays, tree, held_columns(shape, keys), record["groups"], keys
    )
    at = dict(saved.head.vector)
    view = UpdatableState(record, bound, tree, keys, at, filter_, 0)
    return _moved_to(lake, view, vector)


def _summary_is_complete(view: UpdatableState) -> bool:
    """Whether all parts of a view's summary in tables are there, if it has one."""
    name, pieces = view.definition["name"], view.definition.get("pieces", ())
    return view.tabled is None or parts.is_complete(view.tabled.door, name, pieces)


def _moved_to(lake: ReadableLake, view: UpdatableState, vector: Vector) -> UpdatableState | str:
    """A view whose saved rows are behind, with the changes since; or why these cannot be read."""
    changes = {}
    for table, then in vector.items():
        old = view.vector[table]
        if then == old:
            continue
        now = lake.table(table)
        readable = now.id == old.id == then.id and now.version >= then.version >= old.version
        columns = list(view.shape.used[table])
        net = net_changes(now, old.version, then.version, columns) if readable else None
        if net is None:
            return "VERSION_GONE"
        changes[table] = net
    try:
        apply_changes(view, changes)
    except RowNotHeld:
        return "STATE_MISMATCH"
    view.vector = dict(vector)
    return view


def _as_saved(keys: Keys) -> dict[str, list[str]]:
    return {t: list(k) for t, k in keys.items()}
