"""A view's definition: what its stored table remembers, and what is compiled from that.

The record is a property of the stored table. It holds the text, the settings the text means, the
declared columns, the columns its tables had, and the types Spark gave every column of the plan
when the view was created, so that the same plan can be compiled again without Spark: a column
that a table gains later is none of a view's that says SELECT *.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from belvedere.algebra.relations import Output, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar, col
from belvedere.algebra.walks import nodes, tables
from belvedere.errors import Invalid
from belvedere.lake.offline import VIEW_PROPERTY
from belvedere.sql.binder.bind import Bound
from belvedere.sql.statements.views import RefreshPolicy
from belvedere.views.sampling import Sampling
from belvedere.views.state import Bag, State, cast, state_of, stored_scan

FORMAT = 1

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names with types, in order."""


@dataclass(frozen=True)
class ViewDefinition:
    """What a user declared, and what was found out about it then."""

    id: str
    name: str
    query: str
    policy: str
    settings: Mapping[str, str]
    columns: Columns
    types: Mapping[str, str] = field(repr=False)
    comment: str | None = None
    sources: Mapping[str, Columns] = field(default_factory=dict, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[tuple[int, str], ...] = ()
    """Where in the plan its parts are, and what stands there: see `views/parts.py`."""
    part: int = 0
    """Which of them this is; 0 is the view itself."""
    sample: Mapping[str, Any] | None = None
    """Of a sample or outliers, of which view and which rows: see `views/sampling.py`."""

    @property
    def sampling(self) -> Sampling | None:
        """What of a view is kept, if not all of it."""
        return None if self.sample is None else Sampling.from_dict(self.sample)

    def to_json(self) -> str:
        """The record."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str, stored: str) -> ViewDefinition:
        """The definition in a record; Invalid if it is not one."""
        try:
            found: dict[str, Any] = json.loads(text)
            if found.pop("format") != FORMAT:
                raise ValueError("written by another release")
            columns = _columns(found.pop("columns"))
            sources = {t: _columns(c) for t, c in found.pop("sources", {}).items()}
            parts = tuple((int(at), str(what)) for at, what in found.pop("parts", ()))
            RefreshPolicy(found["policy"])
            return ViewDefinition(columns=columns, sources=sources, parts=parts, **found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Invalid(
                f"the definition recorded in {stored!r} cannot be read",
                detail=str(error),
                hint="drop the view and create it again",
                reason="CORRUPT_DEFINITION",
            ) from error


@dataclass(frozen=True)
class View:
    """A definition compiled: its plan, what is stored, how that is read."""

    definition: ViewDefinition
    bound: Bound
    stored: str
    parts: tuple[View, ...] = ()
    """What it keeps of its plan in tables of their own, and reads there."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def id(self) -> str:
        return self.definition.id

    @property
    def policy(self) -> RefreshPolicy:
        """How it may be refreshed."""
        return RefreshPolicy(self.definition.policy)

    @property
    def owner(self) -> str:
        """The name of the view that it is a part of, or its own."""
        return self.definition.name.removesuffix(part_suffix(self.definition.part))

    @property
    def plan(self) -> Rel:
        return self.bound.plan

    @property
    def properties(self) -> dict[str, str]:
        """What its stored table remembers; of a part, its view's does."""
        if self.definition.part:
            return {}
        return {**self.definition.properties, VIEW_PROPERTY: self.definition.to_json()}

    @cached_property
    def state(self) -> State:
        """What is stored."""
        return state_of(self.plan, self.definition.types)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that its plan reads, stored tables of other views and its parts' among them."""
        return tables(self.plan)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tables that it is computed from, itself or through its parts."""
        own = {part.stored for part in self.parts}
        through = (t for part in self.parts for t in part.inputs)
        return tuple(dict.fromkeys([*(t for t in self.tables if t not in own), *through]))

    @cached_property
    def read(self) -> Rel:
        """The view over its stored table: the declared columns, with the declared types."""
        rows = self.state.read(stored_scan(self.state, self.stored, self.definition.types))
        pairs = zip(self.bound.columns, self.definition.columns, strict=True)
        outputs = (Output(plan, self._typed(plan, kind)) for (_, plan), (_, kind) in pairs)
        return Project(rows, tuple(outputs))

    def _typed(self, column: str, kind: str) -> Scalar:
        """A column as it was declared; what is stored just so stays a column that plans know."""
        state = self.state
        stored = state.columns if isinstance(state, Bag) else state.keys
        same = column in stored and self.definition.types[column] == kind
        return col(column) if same else cast(col(column), kind)

    @property
    def every_part(self) -> tuple[View, ...]:
        """Its parts and theirs, each after those it reads."""
        each = {p.stored: p for part in self.parts for p in (*part.every_part, part)}
        return tuple(each.values())

    @cached_property
    def reads(self) -> Mapping[str, Mapping[str, str]]:
        """The tables that it is computed from, with the columns that are read of them."""
        return {table: self.needs(table) for table in self.inputs}

    def columns_of(self, table: str) -> Mapping[str, str]:
        """The columns that are read of a table, or of a part."""
        return self.needs(table)

    def needs(self, table: str) -> dict[str, str]:
        """The columns of a table that it is computed from, itself or through its parts."""
        through = (item for part in self.parts for item in part.needs(table).items())
        return {**self.used(table), **dict(through)}

    def used(self, table: str) -> dict[str, str]:
        """The columns of a table that the plan reads, with their types."""
        scans = (n for n in nodes(self.plan) if isinstance(n, Scan) and n.table == table)
        return {f.source: f.type for scan in scans for f in scan.fields}


def part_suffix(number: int) -> str:
    """What the name and the id of a part end with; nothing for a view itself."""
    return f" part {number}" if number else ""


def _columns(found: Any) -> Columns:
    return tuple((str(name), str(kind)) for name, kind in found)
