"""Context: the state of one binding, and the unfinished query that its parts pass to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from belvedere.algebra.relations import Output, Project, Rel
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Unsupported
from belvedere.sql.binder.naming import Namer
from belvedere.sql.binder.scopes import Scope
from belvedere.sql.places import place


@dataclass(frozen=True)
class Relation:
    """What a name in FROM stands for: a base table, or a view expanded to its read plan."""

    columns: tuple[tuple[str, str], ...]
    table: str | None = None
    plan: Rel | None = None
    declared: Mapping[str, str] = field(default_factory=dict)
    """The types of columns of a table that were declared with CHAR or VARCHAR."""


class Catalog(Protocol):
    """Knows the relations by name."""

    def resolve(self, name: str) -> Relation:
        """The relation of that name; `Invalid` with the nearest name if there is none."""
        ...


@dataclass(frozen=True)
class Common:
    """A common table expression and the names it was written under."""

    query: exp.Expr
    columns: tuple[str, ...]
    env: Env


@dataclass(frozen=True)
class Env:
    """The names around a query: common table expressions, and the enclosing query's columns.

    `aggregate` gives the column of an aggregate over the enclosing query's columns, if that
    query is grouped.
    """

    common: Mapping[str, Common] = field(default_factory=dict)
    outer: Scope | None = None
    aggregate: Callable[[exp.Expr], exp.Expr] | None = None


@dataclass(frozen=True)
class Item:
    """An output: the name the user sees and its value."""

    name: str
    value: Scalar
    aliased: bool = False


@dataclass(frozen=True)
class Query:
    """A bound query before its final projection.

    `correlated` are the conjuncts that read columns of the enclosing query; whoever joins the
    subquery puts them into the join. `one_row` says that there is always exactly one row per
    binding of the enclosing columns (an aggregate without GROUP BY).
    """

    plan: Rel
    items: tuple[Item, ...]
    correlated: tuple[Scalar, ...] = ()
    one_row: bool = False


@dataclass
class Context:
    """What one call of `bind` shares."""

    text: str
    catalog: Catalog
    bind_query: Callable[[Context, exp.Expr, Env], Query]
    names: Namer = field(default_factory=Namer)
    types: dict[str, str] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    """Of plan columns that have values of CHAR, the types that these were declared with."""
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note for the user, once."""
        if text not in self.notes:
            self.notes.append(text)

    def at(self, node: exp.Expr, word: str = "") -> str:
        """Where in the text a node stands."""
        return place(self.text, node, word)

    def unsupported(
        self, what: str, node: exp.Expr, hint: str, reason: str, detail: str = ""
    ) -> Unsupported:
        """The error for something meaningful that is not handled."""
        word = what.split()[0].strip("`'()")
        return Unsupported(
            f"{what} is not supported ({self.at(node, word)})",
            detail=detail,
            hint=hint,
            reason=reason,
        )

    def close(self, query: Query, keep: tuple[str, ...] = ()) -> Query:
        """The query with its items projected, and `keep` columns carried behind them."""
        if not keep and self._is_closed(query):
            return query
        outputs, items, used = [], [], set[str]()
        for item in query.items:
            bare = item.value.column
            kept = not item.aliased or self.names.stands_for(bare or "", item.name)
            name = bare if bare and kept and bare not in used else None
            name = name or self.names.fresh(item.name)
            used.add(name)
            self._keep_type(name, bare)
            outputs.append(Output(name, item.value))
            items.append(replace(item, value=col(name), aliased=False))
        outputs += [Output(name, col(name)) for name in keep if name not in used]
        return replace(query, plan=Project(query.plan, tuple(outputs)), items=tuple(items))

    @staticmethod
    def _is_closed(query: Query) -> bool:
        return tuple(i.value.column for i in query.items) == query.plan.columns

    def _keep_type(self, name: str, source: str | None) -> None:
        if source in self.types:
            self.types[name] = self.types[source]
        self.keep_declared(name, source)

    def keep_declared(self, name: str, source: str | None) -> None:
        """Remember that a column has the values of another one, which may be of CHAR."""
        if source in self.declared:
            self.declared[name] = self.declared[source]
