"""Parts: groups inside a view that are kept in tables of their own.

An aggregate below another operator is computed again, old and new, for every group that a change
touches, and one without a key over all of its input. Kept as a part, its rows are read: a part is
maintained like a view, and its change is that of its stored table.

    Q(γ(R))    becomes    Q(P), P = γ(R)    the view refreshes P first, to the same versions

What is kept is chosen when the view is created: aggregates of many rows into few. A part may
stand on others; all stand in the order of their plan, those inside before those around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from belvedere.algebra.relations import Aggregate, Output, Project, Rel
from belvedere.algebra.scalars import col
from belvedere.algebra.walks import children, each_once, nodes, tables, with_children
from belvedere.analyses.sizes import Sizes
from belvedere.errors import Invalid
from belvedere.sql.binder.bind import Bound
from belvedere.sql.binder.freshen import rename
from belvedere.sql.names import part_name, parts, quote, whole_name
from belvedere.views.definition import View, ViewDefinition, part_suffix
from belvedere.views.incremental.choice import rebuild_reason
from belvedere.views.sampling import sampled_plan
from belvedere.views.state import Bag, state_of

LARGE = 50_000
"""Rows from which on groups are worth keeping."""
REDUCES = 8
"""Times that groups are fewer than the rows they are of; else keeping them costs as much."""


def chosen(view: View, sizes: Sizes) -> tuple[tuple[int, str], ...]:
    """The aggregates that are worth keeping and their places, those inside others first."""
    state, types = view.state, view.definition.types
    order = each_once(view.plan)
    place = {id(node): i for i, node in enumerate(order)}
    below = state.plan if isinstance(state, Bag) else state.child
    found = [
        place[id(node)]
        for node in each_once(below)
        if isinstance(node, Aggregate)
        and LARGE <= sizes.rows(node.child) < inf
        and REDUCES * sizes.groups(node) <= sizes.rows(node.child)
        and not rebuild_reason(state_of(node, types), types, tables(node))
    ]
    return tuple((at, called(order[at])) for at in sorted(found, reverse=True))


def assembled(definition: ViewDefinition, bound: Bound, stored: str) -> View:
    """A view over its parts, or the part that the definition says."""
    owner = whole(definition)
    sampling = definition.sampling
    if sampling is not None:
        bound = replace(bound, plan=sampled_plan(bound.plan, sampling, definition.types))
    order = each_once(bound.plan)
    kept: dict[int, Rel] = {}
    made: list[View] = []

    def over(
        own: ViewDefinition, plan: Rel, columns: tuple[tuple[str, str], ...], where: str
    ) -> View:
        read = set(tables(plan))
        below = tuple(part for part in made if part.stored in read)
        return View(own, replace(bound, plan=plan, columns=columns), where, below)

    for place, name in definition.parts:
        node = order[place] if place < len(order) else bound.plan
        if called(node) != name:
            raise Invalid(
                f"the definition of {owner.name!r} is not understood as it was",
                detail=f"a part of it was {name}",
                hint=f"CREATE OR REPLACE MATERIALIZED VIEW {owner.name}",
                reason="SCHEMA_CHANGED",
            )
        plan = _above(node, kept)
        part = next((p for p in made if _shape(p.plan) == _shape(plan)), None)
        if part is None:
            number = len(made) + 1
            same = tuple((c, c) for c in node.columns)
            part = over(_part(owner, number, node), plan, same, part_of(stored, number))
            made.append(part)
        kept[id(node)] = _under(part, node.columns)
    if definition.part:
        return made[definition.part - 1]
    return over(definition, _above(bound.plan, kept), bound.columns, stored)


def _shape(plan: Rel) -> Rel:
    """The plan under names that say nothing: a query that stands twice is one part."""
    names: dict[str, str] = {}
    for node in nodes(plan):
        for column in node.columns:
            names.setdefault(column, f"c{len(names)}")
    return rename(plan, names)


def _under(part: View, columns: tuple[str, ...]) -> Rel:
    """The rows of a part, under the names that a place has for them."""
    pairs = zip(columns, part.read.columns, strict=True)
    outputs = tuple(Output(name, col(own)) for name, own in pairs)
    return part.read if columns == part.read.columns else Project(part.read, outputs)


def called(node: Rel) -> str:
    """What tells an aggregate from others of its plan."""
    return f"{', '.join(node.columns)} of {', '.join(tables(node))}"


def part_of(stored: str, number: int) -> str:
    """The table of a part of the view that is stored there."""
    *space, last = parts(stored)
    return ".".join([*(quote(name) for name in space), part_name(last, number)])


def stored_whole(part: str) -> str:
    """The table of the view whose part is stored there."""
    *space, last = parts(part)
    return ".".join([*(quote(other) for other in space), whole_name(last)])


def _part(owner: ViewDefinition, number: int, node: Rel) -> ViewDefinition:
    return replace(
        owner,
        id=owner.id + part_suffix(number),
        name=owner.name + part_suffix(number),
        columns=tuple((c, owner.types[c]) for c in node.columns),
        part=number,
    )


def whole(definition: ViewDefinition) -> ViewDefinition:
    """The definition of the view that a part is of."""
    if not definition.part:
        return definition
    own = part_suffix(definition.part)
    name, number = definition.name.removesuffix(own), definition.id.removesuffix(own)
    return replace(definition, id=number, name=name, part=0)


def _above(q: Rel, kept: Mapping[int, Rel]) -> Rel:
    """The plan over what is kept of the nodes below it; shared subplans stay shared."""
    done: dict[int, Rel] = dict(kept)

    def go(node: Rel) -> Rel:
        if id(node) not in done:
            done[id(node)] = rebuilt(node)
        return done[id(node)]

    def rebuilt(node: Rel) -> Rel:
        old = children(node)
        new = [go(child) for child in old]
        same = all(a is b for a, b in zip(old, new, strict=True))
        return node if same else with_children(node, new)

    return rebuilt(q)
