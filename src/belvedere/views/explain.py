"""Explain a view, without Spark.

An explanation shows the plan with the rule for the change of each operator, the change itself, the
SQL of each strategy (`t@old` and `t@new` are versions of t, `Δt` its net change), and what is not
incremental, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from belvedere.algebra.printing import line, tree
from belvedere.algebra.relations import At, Change, Rel, Scan
from belvedere.algebra.walks import children
from belvedere.analyses.families import Family, passage
from belvedere.execution.strategies import Strategy, StrategyChoice
from belvedere.reasons import REASONS
from belvedere.rules.delta import delta
from belvedere.rules.sample import placed
from belvedere.views.definition import View
from belvedere.views.incremental.choice import choose_strategy, rebuild_reason
from belvedere.views.maintenance import plan_change
from belvedere.views.state import Bag, Combine, Grouped

WIDTH = 100


@dataclass(frozen=True)
class Explanation:
    """Titled parts of text."""

    view: str
    parts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n\n".join(f"{title}\n{_indented(text)}" for title, text in self.parts)

    def part(self, title: str) -> str:
        """The text under a title."""
        return dict(self.parts)[title]

    def _repr_html_(self) -> str:
        escaped = str(self).replace("&", "&amp;").replace("<", "&lt;")
        return f"<pre>{escaped}</pre>"


def explain(view: View, more: Iterable[tuple[str, str]] = ()) -> Explanation:
    """What a view is, how it is stored, and how changes of its tables are applied."""
    parts = [
        (f"Materialized view {view.name}, refresh policy {view.definition.policy}", _query(view)),
        ("Stored", _stored(view)),
        ("Plan, and how a change passes each operator", _plan_with_rules(view)),
        ("Incremental", _incremental(view)),
        ("Change, when every table changes", tree(delta(_core(view), None, _types(view)))),
    ]
    sampling = view.definition.sampling
    if sampling is not None:
        parts.insert(1, (f"Of {sampling.of}", describe_sample(view)))
    for part in view.every_part:
        kept = f"{_stored(part)}\n\n{_plan_with_rules(part)}"
        parts.append((f"Part {part.definition.part}, kept and refreshed before the view", kept))
    parts += [(f"SQL of {c.strategy.value}", _sql(view, c)) for c in _strategies(view)]
    if view.bound.notes:
        parts.append(("Notes", "\n".join(view.bound.notes)))
    return Explanation(view.name, (*parts, *more))


def describe_sample(view: View) -> str:
    """For a sample: which rows it has, how far η is pushed down, and why not further."""
    sampling = view.definition.sampling
    assert sampling is not None
    if sampling.table:
        return f"every row of outlier keys: OUTLIERS {sampling.index}"
    unique = "" if sampling.unique else ", which is not unique: rows are sampled together"
    lines = [f"{sampling.ratio:.4g} of ({', '.join(sampling.key)}){unique}, seed {sampling.seed}"]
    stops, whole = placed(view.plan, *(part.plan for part in view.every_part))
    lines += [str(stop) for stop in stops]
    own = {part.stored for part in view.every_part}
    others = [t for t in whole if t not in own]
    return "\n".join([*lines, f"read whole: {', '.join(others)}"] if others else lines)


def _query(view: View) -> str:
    return "\n".join(s.strip() for s in view.definition.query.strip().splitlines())


def _stored(view: View) -> str:
    state = view.state
    if isinstance(state, Bag):
        return f"{view.stored}: every row, equal rows numbered by __rid"
    by = ", ".join(state.keys)
    rows = f"one row per {by}" if by else "one row"
    parts = "\n".join(
        f"{p.agg.name} = {str(p.agg.call).replace('`', '').lower()}, {_COMBINED[p.combine]}"
        for p in state.parts
    )
    return f"{view.stored}: {rows}\n{parts}"


_COMBINED = {
    Combine.ADD: "changes are added",
    Combine.LEAST: "inserts take the least; a delete recomputes the group",
    Combine.GREATEST: "inserts take the greatest; a delete recomputes the group",
    Combine.NEVER: "recomputed for touched groups",
}


def _plan_with_rules(view: View) -> str:
    """The plan, each line with its rule; operators above the core are applied at read."""
    rows: list[tuple[str, str]] = []

    def visit(q: Rel, depth: int, *, above: bool) -> None:
        core = _is_core(q, view)
        rows.append(("  " * depth + line(q), "at read" if above and not core else _rule(q, view)))
        for child in children(q):
            visit(child, depth + 1, above=above and not core)

    visit(view.plan, 0, above=True)
    width = min(max(len(left) for left, _ in rows), WIDTH) + 2
    return "\n".join(f"{left:<{width}}{right}" for left, right in rows)


def _is_core(q: Rel, view: View) -> bool:
    state = view.state
    if isinstance(state, Bag):
        return q is state.plan
    return any(child is state.child for child in children(q))


def _rule(q: Rel, view: View) -> str:
    state = view.state
    if isinstance(state, Grouped) and _is_core(q, view):
        adds = state.adds(inserts_only=False)
        how = "additive" if adds else "keyed"
        return f"{how} on {', '.join(state.keys)}" if state.keys else f"{how}, one row"
    return str(passage(q))


def _incremental(view: View) -> str:
    """For each table, what a change of it leads to."""
    lines = []
    for table in view.tables:
        reason = rebuild_reason(view.state, _types(view), [table])
        if reason:
            lines.append(f"{table}: no, rebuild ({REASONS[reason]})")
            continue
        choices = {
            i: choose_strategy(view.state, _types(view), [table], inserts_only=i)
            for i in (True, False)
        }
        inserts, others = choices[True], choices[False]
        text = f"{table}: yes, {inserts.strategy.value}"
        if inserts.strategy is not others.strategy:
            text += f" for inserts, {others.strategy.value} otherwise ({REASONS[others.reason]})"
        elif others.reason:
            text += f" ({REASONS[others.reason]})"
        lines.append(text)
    wide = _touching_everything(_core(view))
    lines += [f"any change below can touch everything: {line(q)}" for q in wide]
    return "\n".join(lines)


def _touching_everything(q: Rel) -> list[Rel]:
    """The operators whose change can touch every row of their result."""
    here = [q] if passage(q).family is Family.EVERYTHING else []
    return here + [node for child in children(q) for node in _touching_everything(child)]


def _core(view: View) -> Rel:
    state = view.state
    return state.plan if isinstance(state, Bag) else state.child


def _types(view: View) -> dict[str, str]:
    return dict(view.definition.types)


def _strategies(view: View) -> list[StrategyChoice]:
    """The incremental strategies a refresh may take when every table changes."""
    choices = {}
    for inserts_only in (True, False):
        choice = choose_strategy(view.state, _types(view), view.tables, inserts_only=inserts_only)
        if choice.strategy is not Strategy.REBUILD:
            choices[choice.strategy] = choice
    return list(choices.values())


def _sql(view: View, choice: StrategyChoice) -> str:
    planned = plan_change(view.state, choice.strategy, view.tables, _types(view))
    query = planned.query(planned.change.query(_symbolic), exp.to_table(view.stored))
    return query.sql(dialect="spark", pretty=True)


def _symbolic(leaf: Scan | Change) -> exp.Table:
    if isinstance(leaf, Change):
        return exp.table_(f"Δ{leaf.table}", quoted=True)
    return exp.table_(f"{leaf.table}@{'old' if leaf.at is At.OLD else 'new'}", quoted=True)


def _indented(text: str) -> str:
    return "\n".join(f"  {row}" if row else row for row in text.splitlines())
