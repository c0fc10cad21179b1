"""Updatable views of a lake: their definitions, and their filters brought to newer versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from belvedere.delta.stamps import Vector
from belvedere.derivations.registry import the_saves
from belvedere.errors import Invalid, Unsupported
from belvedere.joins.equijoin_tree import EquijoinTree, Keys, equijoin_tree
from belvedere.joins.normal_form import JoinBlock
from belvedere.lake.capabilities import spark_lake
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Corrupt
from belvedere.lake.tables.declared_keys import key_of
from belvedere.lake.tables.table import Table
from belvedere.sql.binder.bind import Bound, bind
from belvedere.updating.reading import change_signs, net_changes, read_version, row_count
from belvedere.updating.side_effects.neighbours import hidden_held_columns
from belvedere.updating.summary.base_tables import RowNotHeld, held_columns
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
from belvedere.updating.summary.saved_arrays import (
    domain_groups,
    filter_from_arrays,
    filter_to_arrays,
)
from belvedere.updating.updatable_block import updatable_block
from belvedere.views.catalog import Names, as_not_read

KIND = "updating"
MOVED = "updating-moved"
FEW, PART = 10_000, 20
"""Changed rows that are not worth saving all rows for: so many, and that part of them."""
MOST_HELD = 50_000_000
"""Rows of all tables up to which they are held in memory, unless a user says otherwise."""
MOST_SAMPLED = 5_000_000
"""Rows up to which roots are tried out: each costs about half a build."""


class Where(Enum):
    """Where rows of a view's tables are looked up."""

    MEMORY = "MEMORY"
    TABLES = "TABLES"


@dataclass
class Held:
    """A view: its definition, its join tree, the versions it is of, its filter if that is in memory."""

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


@dataclass(frozen=True)
class Brought:
    """What bringing a view's summary to newer versions took."""

    view: str
    strategy: str
    reason: str = ""
    rows_changed: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.view}: {self.strategy}{why}, {self.rows_changed} changed rows"


def compiled(lake: ReadableLake, query: str, name: str) -> tuple[Bound, JoinBlock]:
    """A view's query in normal form; `Unsupported` if it reads a view."""
    names = Names(lake, (name,))
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
    found = {t: key_of(lake.table(t)) for t in shape.tables}
    return {t: key for t, key in found.items() if key is not None}


def usual_lookups(lake: ReadableLake, shape: JoinBlock) -> Where:
    """Where rows are looked up unless a user says so: large tables stay where they are."""
    counts = [row_count(lake.table(t)) for t in shape.tables]
    few = None not in counts and sum(n for n in counts if n is not None) <= MOST_HELD
    hidden = hidden_held_columns(shape, held_columns(shape, declared_keys(lake, shape)))
    return Where.MEMORY if few or hidden else Where.TABLES


def _in_tables(lake: ReadableLake, definition: Mapping[str, Any]) -> Held:
    """A view whose rows stay in its tables: nothing is read."""
    bound, shape = compiled(lake, definition["query"], definition["name"])
    keys = declared_keys(lake, shape)
    hidden = hidden_held_columns(shape, held_columns(shape, keys))
    if hidden:
        raise Unsupported(
            f"rows are not found in the tables by a view that does not show {hidden[0]}",
            detail=f"it would have to show {', '.join(hidden)}",
            hint="show keys and what is joined on, or say LOOKUPS IN MEMORY",
            reason="HIDDEN_KEYS",
        )
    asked = definition.get("root")
    tree = equijoin_tree(shape, root_by_keys(shape, keys) if asked is None else asked, keys)
    vector = {t: lake.table(t).position for t in shape.tables}
    found = Held(definition, bound, tree, keys, vector)
    return replace(found, tabled=_tabled(lake, found))


def _tabled(lake: ReadableLake, held: Held) -> StoredSummary | None:
    """The summary of a view as its tables have it now, if it is kept there; without Spark, none."""
    definition, spark = held.definition, spark_lake(lake)
    if not definition.get("summary") or spark is None:
        return None
    return StoredSummary(spark, definition["name"], held.tree, definition.get("pieces", ()))


def built(lake: ReadableLake, definition: Mapping[str, Any]) -> Held:
    """A view's filter from its tables at their newest versions."""
    if definition.get("lookups") == Where.TABLES.value:
        held = _in_tables(lake, definition)
        if held.tabled is None:
            return held
        return _with_summary(_summarized(held, held.tabled), None)[0]
    bound, shape = compiled(lake, definition["query"], definition["name"])
    keys = declared_keys(lake, shape)
    tables = {t: lake.table(t) for t in shape.tables}
    rows = {
        t: read_version(lake, tables[t], tables[t].version, list(shape.used[t]))
        for t in shape.tables
    }
    share = definition["percent"] / 100
    asked = definition.get("root") or definition.get("rooted")
    vector = {t: table.position for t, table in tables.items()}
    first = root_by_keys(shape, keys) if asked is None else asked
    made, choice = build_filter(shape, rows, keys, root=first, share=share), None
    few = sum(made.base.tables[t].size for t in shape.tables) <= MOST_SAMPLED
    if asked is None and few:
        made, choice = choose_root_by_sample(made, share, made.base.tree.root)
    if definition.get("candidates") is not None:
        made.candidates = counted_candidates(made.base, made.graph, definition["candidates"])
        made.summarize()
    told = {**definition, **_told(made, choice)}
    return Held(told, bound, made.base.tree, made.keys, vector, made)


def _summarized(held: Held, known: StoredSummary) -> Held:
    """A view with its summary made in tables, and candidates chosen."""
    asked, columns = held.definition, held_columns(held.shape, held.keys)
    count, share = asked.get("candidates"), asked["percent"] / 100

    def choose(makers: TableMakers) -> ChooseCandidates:
        return choose_share(share, makers) if count is None else choose_count(count, makers)

    made = parts.create_parts(known.door, asked["name"], held.tree, columns, held.keys, choose)
    kept = replace(known, pieces=made)
    return replace(held, definition={**asked, "pieces": made}, tabled=kept)


def _told(made: UpdateFilter, choice: RootChoice | None) -> dict[str, Any]:
    """What is kept of how a root was chosen."""
    if choice is None:
        return {}
    errors = [
        [at.table, choice.errors[p]]
        for p, at in enumerate(made.shape.positions)
        if p in choice.errors
    ]
    return {"chosen": {"sample": choice.sample, "bound": choice.bound, "errors": errors}}


def save(lake: ReadableLake, name: str, held: Held) -> None:
    """Save where a view is; its rows too, once enough of them changed.

    Rows that were saved before are brought to the view's vector when they are loaded. A state that
    is saved whole stands before what was noted since the one before it is taken away: a vector
    that is not ahead of its rows means nothing.
    """
    saves = the_saves(lake)
    definition = {
        **held.definition,
        "rooted": held.tree.root,
        "keys": _as_saved(held.keys),
        "reads": {t: list(c) for t, c in held.shape.used.items()},
    }
    if held.rows is None:
        saves.save(KIND, name, definition, held.vector, {})
        return
    base = held.rows.base
    rows = sum(base.tables[t].size for t in held.shape.tables)
    if held.unsaved is not None and held.unsaved <= FEW + rows // PART:
        saves.save(MOVED, name, {}, held.vector, {})
        return
    definition["groups"] = domain_groups(base)
    saves.save(KIND, name, definition, held.vector, filter_to_arrays(held.rows))
    saves.drop(MOVED, name)
    held.unsaved = 0


def _as_saved(keys: Keys) -> dict[str, list[str]]:
    return {t: list(k) for t, k in keys.items()}


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


def load(lake: ReadableLake, name: str) -> Held:
    """A view's saved state, or its filter built again if that cannot be used."""
    saves = the_saves(lake)
    try:
        saved = saves.load(KIND, name)
    except Corrupt:
        return built(lake, saves.head(KIND, name).definition)
    definition = saved.head.definition
    if definition.get("lookups") == Where.TABLES.value:
        held = replace(_in_tables(lake, definition), vector=dict(saved.head.vector))
        same = held.tabled is None or _as_saved(held.keys) == definition["keys"]
        return held if same else built(lake, definition)
    bound, shape = compiled(lake, definition["query"], definition["name"])
    keys = declared_keys(lake, shape)
    if _as_saved(keys) != definition["keys"]:
        return built(lake, definition)
    tree = equijoin_tree(shape, int(definition["rooted"]), keys)
    made = filter_from_arrays(
        saved.arrays, tree, held_columns(shape, keys), definition["groups"], keys
    )
    held = Held(definition, bound, tree, keys, dict(saved.head.vector), made, 0)
    tables = {t: lake.table(t) for t in shape.tables}
    try:
        found = _advanced(tables, held, saved_vector(lake, name))
    except RowNotHeld:
        return built(lake, definition)
    return built(lake, definition) if isinstance(found, str) else found[0]


def forget(lake: ReadableLake, name: str) -> None:
    """Take a saved view away."""
    made = the_saves(lake).head(KIND, name).definition.get("pieces")
    if made:
        parts.drop_parts(lake, name, made)  # type: ignore[arg-type]
    the_saves(lake).drop(MOVED, name)
    the_saves(lake).drop(KIND, name)


def bring(
    lake: ReadableLake, held: Held, only: Collection[str] | None = None
) -> tuple[Held, Brought]:
    """A view's filter at its tables' newest versions, or some tables' only."""
    name = held.definition["name"]
    some = held.shape.tables if only is None else only
    if held.tabled is not None:
        if not parts.is_complete(held.tabled.door, name, held.definition["pieces"]):
            reason = "a part of its summary was gone"
            return built(lake, held.definition), Brought(name, "rebuild", reason)
        moved, rows = _with_summary(held, only)
        return moved, Brought(name, "advance", "", rows)
    if held.rows is None:
        now = _in_tables(lake, held.definition)
        vector = {t: now.vector[t] if t in some else held.vector[t] for t in now.vector}
        return replace(now, vector=vector), Brought(name, "advance", "rows stay in the tables")
    tables = {t: lake.table(t) for t in some}
    try:
        found = _advanced(tables, held, {t: table.position for t, table in tables.items()})
    except RowNotHeld as mismatch:
        return built(lake, held.definition), Brought(name, "rebuild", mismatch.reason)
    if isinstance(found, str):
        return _rebuilt(lake, held, found, only)
    moved, rows = found
    return moved, Brought(name, "advance", "", rows)


def _with_summary(held: Held, only: Collection[str] | None) -> tuple[Held, int]:
    """A view with its summary at newer versions, and how many rows of that changed."""
    assert held.tabled is not None
    known, name = held.tabled, held.definition["name"]
    vector, rows = parts.refresh_parts(known.door, name, held.shape.tables, only)
    if vector == held.vector:
        return held, rows
    return replace(held, vector=vector, tabled=replace(known)), rows


def _advanced(tables: Mapping[str, Table], held: Held, to: Vector) -> tuple[Held, int] | str:
    """A view at other versions of some tables, and how many rows changed, or whose cannot be read."""
    found: dict[str, Any] = {}
    for table, then in to.items():
        now, known = tables[table], held.vector[table]
        if then == known:
            continue
        moved = now.id == known.id == then.id and now.version >= then.version >= known.version
        used = list(held.shape.used[table])
        net = net_changes(now, known.version, then.version, used) if moved else None
        if net is None:
            return table
        found[table] = net
    rows = sum(net.num_rows for net in found.values())
    if rows:
        held.filter.advance(found, {t: change_signs(net) for t, net in found.items()})
    unsaved = None if held.unsaved is None else held.unsaved + rows
    vector = {**held.vector, **to}
    return replace(held, vector=vector, unsaved=unsaved), rows


def _rebuilt(
    lake: ReadableLake, held: Held, table: str, only: Collection[str] | None
) -> tuple[Held, Brought]:
    if only is not None:
        raise Invalid(
            f"the changes of {table!r} cannot be read alone",
            hint=f"refresh {held.definition['name']} as a whole",
            reason="NO_CHANGES",
        )
    reason = f"the changes of {table} cannot be read from its log, or are large"
    return built(lake, held.definition), Brought(held.definition["name"], "rebuild", reason)
