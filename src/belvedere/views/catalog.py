"""Names: which table or view a name means, and the views a lake has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakKeyDictionary

from belvedere.delta.schema_types import CHAR_AS_BY_DEFAULT
from belvedere.errors import BelvedereError, Invalid, Unsupported
from belvedere.lake.capabilities import spark_lake
from belvedere.lake.offline import VIEW_PROPERTY, ReadableLake
from belvedere.lake.records.journal import SCHEMA_NAME
from belvedere.lake.tables.table import Table
from belvedere.sql.binder.bind import bind
from belvedere.sql.binder.context import Relation
from belvedere.sql.names import (
    is_database,
    parts,
    quote,
    refuse_long,
    stored_name,
    view_name,
)
from belvedere.sql.statements.cursor import dotted
from belvedere.views.definition import Columns, View, ViewDefinition
from belvedere.views.parts import assembled

_Shape: TypeAlias = tuple[Columns, Mapping[str, str]]
"""The columns of a table, and what those of CHAR and VARCHAR were declared with."""


_MISTAKES = frozenset(
    "SYNTAX NO_SUCH_COLUMN AMBIGUOUS_COLUMN UNKNOWN_WINDOW COLUMN_COUNT NO_SUCH_POSITION "
    "NOT_GROUPED NOT_SHOWN AGGREGATE_PLACE GROUPING_FUNCTION".split()
)


@contextmanager
def as_not_read(lake: ReadableLake, query: str) -> Iterator[None]:
    """What is wrong with a query that Spark understands leaves this block as Unsupported."""
    try:
        yield
    except Invalid as error:
        if error.reason not in _MISTAKES or not _is_understood(lake, query):
            raise
        raise Unsupported(
            f"Spark understands this query, Belvedere does not: {error.message}",
            detail=error.detail,
            hint="write it another way",
            reason="NOT_READ",
        ) from error


def _is_understood(lake: ReadableLake, query: str) -> bool:
    """Whether Spark, where it is there, understands a query; as a subquery, so that nothing is run."""
    spark = spark_lake(lake)
    if spark is None:
        return False
    try:
        spark.output_schema(f"SELECT * FROM (\n{query}\n)")
    except Invalid:
        return False
    return True


@dataclass(frozen=True)
class Names:
    """The relations of a lake by name, for one statement: a view stands for its read plan.

    `within` are the views being compiled, `recorded` the columns tables had when a view was
    created; `seen` gathers the columns of every table that is resolved, `tables` those it has
    now, `views` the views.
    """

    lake: ReadableLake
    within: tuple[str, ...] = ()
    recorded: Mapping[str, Columns] = field(default_factory=dict)
    seen: dict[str, Columns] = field(default_factory=dict)
    tables: dict[str, _Shape] = field(default_factory=dict)
    views: dict[str, _Compiled] = field(default_factory=dict)

    def resolve(self, name: str) -> Relation:
        """The relation of that name; `Invalid` with the nearest name if there is none."""
        canonical = canonical_name(self.lake, name)
        if not self.recorded and not is_here(self.lake, name):
            raise _elsewhere(name)
        if canonical in self.within:
            raise self._reads_itself(name)
        stored = stored_of(canonical)
        if self.lake.exists(stored):
            below = _compile(self.lake, self.lake.table(stored), self.within, {})
            self.views[stored] = below
            return Relation(columns=below.view.definition.columns, plan=below.view.read)
        table = self.lake.table(canonical)
        if table.padded and not self.recorded and not self.lake.pads_char():
            raise Unsupported(
                f"table {name!r} has columns of CHAR, and this session does not read them as such",
                detail="the values of a derivation do not depend on who refreshes it",
                hint=f"RESET {', '.join(CHAR_AS_BY_DEFAULT)}",
                reason="CHAR_SETTINGS",
            )
        self.tables[canonical] = _shape(table)
        self.seen[canonical] = self.recorded.get(canonical, table.columns)
        return Relation(self.seen[canonical], table=canonical, declared=table.declared)

    def _reads_itself(self, name: str) -> Invalid:
        through = self.within[1:]
        return Invalid(
            f"view {name!r} reads itself",
            detail=f"through {', '.join(through)}" if through else "",
            hint="a view cannot depend on itself",
            reason="CYCLE",
        )


@dataclass(frozen=True)
class Broken:
    """A view that cannot be compiled any more, and why."""

    name: str
    stored: str
    error: BelvedereError


def canonical_name(lake: ReadableLake, name: str) -> str:
    """The one spelling under which a table is recorded: lower case, and qualified in a session."""
    refuse_long(name)
    given = tuple(part.lower() for part in parts(name))
    space = lake.namespace()
    if space:
        return ".".join(quote(part) for part in (*space, *given)[-3:])
    if given[:-1] == (SCHEMA_NAME,):
        raise Invalid(
            f"{name!r} is Belvedere's own",
            hint="a query may read it; to build on it, copy it: CREATE TABLE … AS SELECT …",
            reason="IS_OURS",
        )
    # A lake that was moved or copied has another database than its definitions may name.
    if not is_here(lake, name) and not is_database(given[-2]):
        raise _elsewhere(name)
    return given[-1]


def _elsewhere(name: str) -> Invalid:
    hint = f"write {dotted(parts(name)[-1:])}, or connect(spark) with a catalog of your own"
    return Invalid(
        f"{name!r} is not in this lake: a lake in a directory has one schema",
        hint="put the table into the lake's directory and name it there" if is_path(name) else hint,
        reason="OTHER_SCHEMA",
    )


def refuse_dotted(lake: ReadableLake, name: str) -> None:
    """Invalid for a new name that could not be told from a schema and a name in a directory."""
    if lake.capabilities.in_directory and {".", "`"} & set(parts(name)[-1]):
        raise Invalid(
            f"{name} has a dot or a backquote in it",
            detail="a lake in a directory could not tell it from a schema and a name",
            hint="choose a name without these",
            reason="NAME_WITH_DOT",
        )


def is_here(lake: ReadableLake, name: str) -> bool:
    """Whether a name can be one of the lake's: in a directory not one of another schema.

    The lake's record of refreshes is, so that statements which change it are refused.
    """
    if not lake.capabilities.in_directory:
        return True
    *schema, _ = (part.lower() for part in parts(name))
    own = lake.database
    return schema in ([], [SCHEMA_NAME], [own], ["spark_catalog", own])


def is_path(name: str) -> bool:
    """Whether a name is that of a table by its place, as in delta.`/data/t`."""
    return len(parts(name)) == 2 and "/" in parts(name)[1]


def stored_of(name: str) -> str:
    """The table that holds the state of a view."""
    *space, last = parts(name)
    return ".".join([*(quote(part) for part in space), stored_name(last)])


def is_view(lake: ReadableLake, name: str) -> bool:
    """Whether a canonical name is that of a view, sound or broken."""
    return lake.exists(stored_of(name))


def find_view(lake: ReadableLake, name: str) -> View | None:
    """The view of a canonical name, compiled; None if there is none."""
    stored = stored_of(name)
    return compile_view(lake, lake.table(stored)) if lake.exists(stored) else None


def the_view(lake: ReadableLake, name: str) -> View:
    """The view of a name; `Invalid` if it is something else or nothing."""
    canonical = canonical_name(lake, name)
    view = find_view(lake, canonical)
    if view is not None:
        return view
    if lake.exists(canonical):
        raise Invalid(
            f"{name!r} is not a materialized view",
            hint="SHOW MATERIALIZED VIEWS lists them",
            reason="NOT_A_VIEW",
        )
    raise lake.unknown(name)


def compile_view(lake: ReadableLake, stored: Table) -> View:
    """The view whose state a stored table holds."""
    return _compile(lake, stored, (), {}).view


@dataclass(frozen=True, eq=False)
class _Compiled:
    """A view, the record it was compiled from, and what that found: it stands while they do."""

    view: View
    record: str
    tables: Mapping[str, _Shape]
    views: Mapping[str, _Compiled]


_Looked: TypeAlias = dict[_Compiled, bool]
"""Whether those that were looked at stand: several views may read one."""

_compiled_of: WeakKeyDictionary[ReadableLake, dict[str, _Compiled]] = WeakKeyDictionary()


def _compile(
    lake: ReadableLake, stored: Table, within: tuple[str, ...], looked: _Looked
) -> _Compiled:
    """A view compiled, or remembered; `within` are the views that are being compiled."""
    memory = _compiled_of.setdefault(lake, {})
    known = memory.get(stored.name)
    if known is not None and _stands(lake, known, stored, within, looked):
        return known
    definition = definition_in(stored)
    own = canonical_name(lake, definition.name)
    names = Names(lake, (*within, own), definition.sources)
    view = assembled(definition, bind(definition.query, names), stored.name)
    for table in names.seen:
        _refuse_lost_columns(view, lake.table(table))
    try:
        _ = view.read
    except (KeyError, ValueError) as error:
        raise Invalid(
            f"the definition of {definition.name!r} does not fit what it reads any more",
            hint=f"CREATE OR REPLACE MATERIALIZED VIEW {definition.name}",
            reason="SCHEMA_CHANGED",
        ) from error
    record = stored.properties[VIEW_PROPERTY]
    memory[stored.name] = _Compiled(view, record, dict(names.tables), dict(names.views))
    return memory[stored.name]


def _stands(
    lake: ReadableLake, known: _Compiled, stored: Table, within: tuple[str, ...], looked: _Looked
) -> bool:
    """Whether compiling again would find the same."""
    if known not in looked:
        try:
            looked[known] = _found_again(lake, known, stored, within, looked)
        except BelvedereError:
            looked[known] = False
    return looked[known]


def _found_again(
    lake: ReadableLake, known: _Compiled, stored: Table, within: tuple[str, ...], looked: _Looked
) -> bool:
    if stored.properties.get(VIEW_PROPERTY) != known.record:
        return False
    if canonical_name(lake, known.view.name) in within:
        return False
    return all(
        not lake.exists(stored_of(t)) and _shape(lake.table(t)) == shape
        for t, shape in known.tables.items()
    ) and all(
        _stands(lake, below, lake.table(s), within, looked) for s, below in known.views.items()
    )


def _shape(table: Table) -> _Shape:
    return table.columns, table.declared


def _refuse_lost_columns(view: View, table: Table) -> None:
    now = {name.lower() for name, _ in table.columns}
    lost = [column for column in view.needs(table.name) if column.lower() not in now]
    if lost:
        raise Invalid(
            f"table {table.name!r} has no column {lost[0]!r} any more, which {view.name!r} reads",
            hint=f"CREATE OR REPLACE MATERIALIZED VIEW {view.name}, or add the column again",
            reason="SCHEMA_CHANGED",
        )


def definition_in(stored: Table) -> ViewDefinition:
    """The definition that a stored table remembers."""
    text = stored.properties.get(VIEW_PROPERTY)
    if text is None:
        raise Invalid(
            f"{stored.name!r} holds no definition of a view",
            hint="drop the view and create it again",
            reason="CORRUPT_DEFINITION",
        )
    return ViewDefinition.from_json(text, stored.name)


def all_views(lake: ReadableLake) -> list[View]:
    """Every sound view of the lake, those that others read first."""
    return sound_and_broken(lake)[0]


def sound_and_broken(lake: ReadableLake) -> tuple[list[View], list[Broken]]:
    """Every sound view, and those that cannot be compiled: a table or a definition is gone."""
    sound: dict[str, View] = {}
    broken: list[Broken] = []
    looked: _Looked = {}
    for stored in lake.stored():
        try:
            sound[stored] = _compile(lake, lake.table(stored), (), looked).view
        except BelvedereError as error:
            broken.append(Broken(shown_name(lake, stored), stored, error))
    return _ordered(sound), broken


def shown_name(lake: ReadableLake, table: str) -> str:
    """A table of a plan as its user knows it: a view for its stored table."""
    if table not in lake.stored():
        return table
    try:
        return definition_in(lake.table(table)).name
    except BelvedereError:
        return view_name(parts(table)[-1])


def _ordered(views: dict[str, View]) -> list[View]:
    ordered: dict[str, View] = {}

    def visit(stored: str) -> None:
        if stored in views and stored not in ordered:
            for below in views[stored].inputs:
                visit(below)
            ordered[stored] = views[stored]

    for stored in sorted(views):
        visit(stored)
    return list(ordered.values())
