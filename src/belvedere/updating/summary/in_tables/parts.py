"""The parts of a summary in tables: created by Spark, refreshed, dropped.

Each query of `build.py` becomes a materialized view, so that Spark builds the summary and the change
feeds keep it current: a row that changes its class is a change of these views. Candidates are tables
that never change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from belvedere.delta.stamps import Position, Vector
from belvedere.errors import Invalid
from belvedere.joins.equijoin_tree import EquijoinTree, Keys
from belvedere.joins.normal_form import JoinBlock
from belvedere.lake.tables import catalog as lake_catalog
from belvedere.sql.names import parts
from belvedere.sql.statements.cursor import dotted
from belvedere.sql.statements.views import CreateView
from belvedere.updating.summary.in_tables.build import ChooseCandidates, SummaryQueries
from belvedere.updating.summary.in_tables.candidate_queries import TableMakers
from belvedere.views.catalog import all_views, canonical_name, is_view, sound_and_broken
from belvedere.views.definition import View

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace
    from belvedere.lake.spark_lake import SparkLake

SUMMARY_PROPERTY = "belvedere.summary"
"""On a table of candidates, the name of its updatable view."""


def create_parts(
    door: SparkLake,
    name: str,
    tree: EquijoinTree,
    held: Mapping[str, tuple[str, ...]],
    keys: Keys,
    choose: Callable[[TableMakers], ChooseCandidates],
) -> list[str]:
    """Create the views of a summary and its candidates, all or none; return their names."""
    candidates = candidate_tables(name, tree.block)
    drop_parts(door, name, candidates)  # Drop what an interrupted creation left.
    try:
        maker = _PartMaker(door, name)
        passes = SummaryQueries(tree, held, keys, _table_by_name, maker.view)
        passes.run_all(lambda queries: maker.chosen(choose, queries))
    except BaseException:
        drop_parts(door, name, candidates)
        raise
    return maker.made


def _table_by_name(table: str) -> exp.Table:
    return exp.to_table(table, dialect="spark")


class _PartMaker:
    """Creates the parts of a summary and records their names."""

    def __init__(self, door: SparkLake, name: str) -> None:
        self.door, self.name = door, name
        self.made: list[str] = []

    def view(self, piece: str, query: exp.Query) -> str:
        """Create a materialized view."""
        from belvedere.views.create import fill_view, plan_view

        own = self._free(piece)
        statement = CreateView(own, query.sql(dialect="spark"), comment=_comment(self.name))
        fill_view(self.door, plan_view(self.door, statement))
        self.made.append(own)
        return own

    def chosen(
        self, choose: Callable[[TableMakers], ChooseCandidates], passes: SummaryQueries
    ) -> Mapping[int, str]:
        """Create the tables of candidates; temporary frames are released afterwards."""
        with self.door.work() as w:

            def once(_: str, query: exp.Query) -> str:
                return w.register("choosing", w.keep(w.query(query.sql(dialect="spark"))))

            def rows(query: exp.Query) -> pa.Table:
                return w.query(query.sql(dialect="spark")).toArrow()

            return choose(TableMakers(once, lambda *what: self._candidates(w, *what), rows))(passes)

    def _candidates(self, work: Workspace, piece: str, query: exp.Query) -> str:
        """Create a plain table."""
        own = self._free(piece)
        of = {SUMMARY_PROPERTY: self.name}
        lake_catalog.create_table(work, own, query.sql(dialect="spark"), of)
        self.made.append(own)
        return own

    def _free(self, piece: str) -> str:
        """The name of a part; refused if it is taken."""
        own = part_name(self.name, piece)
        canonical = canonical_name(self.door, own)
        if self.door.exists(canonical) or is_view(self.door, canonical):
            raise Invalid(
                f"{own!r} exists already: a part of the summary would have this name",
                hint="rename the table",
                reason="NAME_TAKEN",
            )
        return own


def is_complete(door: SparkLake, name: str, pieces: Collection[str]) -> bool:
    """Whether all parts of a summary exist."""
    existing = {view.name for view in summary_views(door, name)}
    return {*existing, *_candidate_tables(door, name, pieces)} == set(pieces)


def is_part_of(view: str, name: str) -> bool:
    """Whether a view's name makes it a part of a summary."""
    *space, last = parts(view)
    *own_space, own_name = parts(name)
    return space == own_space and last.startswith(f"{own_name}_summary_")


def drop_parts(door: SparkLake, name: str, pieces: Collection[str] = ()) -> None:
    """Drop the views of a summary, and those among `pieces` that are broken or hold candidates."""
    from belvedere.views.drop import drop_view

    broken = [view.name for view in sound_and_broken(door)[1] if view.name in pieces]
    for view in [*(v.name for v in reversed(summary_views(door, name))), *reversed(broken)]:
        drop_view(door, view)
    for table in list(_candidate_tables(door, name, pieces)):
        lake_catalog.drop_table(door, canonical_name(door, table))


def candidate_tables(name: str, shape: JoinBlock) -> list[str]:
    """The names that tables of candidates may have."""
    return [part_name(name, f"k_{p}") for p in range(len(shape.positions))]


def _candidate_tables(door: SparkLake, name: str, pieces: Collection[str]) -> Iterator[str]:
    """The existing tables of candidates among some parts."""
    for piece in pieces:
        canonical = canonical_name(door, piece)
        plain = not is_view(door, canonical) and door.exists(canonical)
        if plain and door.table(canonical).properties.get(SUMMARY_PROPERTY) == name:
            yield piece


def summary_views(door: SparkLake, name: str) -> list[View]:
    """The views of a summary, in order of dependency."""
    return [v for v in all_views(door) if v.definition.comment == _comment(name)]


def vector_of_parts(door: SparkLake, name: str, tables: Collection[str]) -> Vector:
    """The versions of some tables that all views of a summary are at."""
    vector: dict[str, Position] = {}
    for view in summary_views(door, name):
        stamp = door.stamp(door.table(view.stored)).stamp
        for table, position in (stamp.vector if stamp else {}).items():
            if table in tables and vector.setdefault(table, position) != position:
                raise Invalid(
                    f"another process refreshes {view.name!r}",
                    hint="try again",
                    reason="CONCURRENT_REFRESH",
                )
    return vector


def part_name(name: str, piece: str) -> str:
    """The name of a part of a summary."""
    *space, last = parts(name)
    return dotted([*space, f"{last}_summary_{piece}"])


def _comment(name: str) -> str:
    return f"a part of the summary of {name}"
