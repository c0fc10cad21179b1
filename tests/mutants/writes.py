"""Broken SQL of changes, broken stored state, broken writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.algebra.relations import Filter, Rel
from belvedere.algebra.scalars import Scalar, equal, every, lit
from belvedere.rules.delta import Delta
from belvedere.sql import render
from belvedere.sql.merges import Merge
from belvedere.views import maintenance, state
from belvedere.views.incremental import choice
from belvedere.views.state import COUNT, Combine, Grouped
from tests.mutants import hunts
from tests.mutants.hunt import Mutants, Patch

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by


def _written(patch: Patch, how: str, change: Callable[[Merge], Merge]) -> None:
    """A maintenance plan whose rows are written in another way."""
    right = getattr(maintenance, how)

    def otherwise(*args: Any) -> maintenance.ViewChange:
        way = right(*args)
        return replace(way, merge=change(way.merge))

    patch.setattr(maintenance, how, otherwise)


def _match_by_equality(patch: Patch) -> None:
    """Source and stored rows that meet only where no key is NULL."""
    null_safe = Merge.on

    def by_equality(merge: Merge) -> Scalar:
        pairs = null_safe.__get__(merge).expr.find_all(exp.NullSafeEQ)
        return every(equal(Scalar(p.this), Scalar(p.expression)) for p in pairs)

    patch.setattr(Merge, "on", property(by_equality))


@caught_by(hunts.replaced, start=2)
def replaced_groups_of_null_lose_their_rows(patch: Patch) -> None:
    patch.setattr(maintenance, "same", equal)


@caught_by(hunts.sql_of_groups)
def null_keys_never_meet(patch: Patch) -> None:
    patch.setattr(render, "same", equal)


@caught_by(hunts.sql_of_distinct)
def net_changes_lose_their_deletes(patch: Patch) -> None:
    right = render._Renderer._counted

    def counted(renderer: Any, q: Any) -> exp.Query:
        query = right(renderer, q)
        some = query.args["where"].this
        assert isinstance(some, exp.NEQ)
        some.replace(exp.GT(this=some.this, expression=some.expression))
        return query

    patch.setattr(render._Renderer, "_counted", counted)


@caught_by(hunts.sums)
def sums_of_changes_ignore_the_sign(patch: Patch) -> None:
    right = render._signed_call

    def call(a: Any, block: Any, sign: exp.Expr) -> exp.Expr:
        return block.put(a.call) if a.function == "sum" else right(a, block, sign)

    patch.setattr(render, "_signed_call", call)


@caught_by(hunts.sums, start=1)
def counts_of_changes_include_nulls(patch: Patch) -> None:
    right = render._signed_call

    def call(a: Any, block: Any, sign: exp.Expr) -> exp.Expr:
        return right(replace(a, args=()) if a.function == "count" else a, block, sign)

    patch.setattr(render, "_signed_call", call)


@caught_by(hunts.sums, start=4)
def sums_and_means_count_rows_for_values(patch: Patch) -> None:
    right = state._sum

    def parts(*args: Any) -> Any:
        (total, count), value = right(*args)
        return [total, replace(count, agg=replace(count.agg, args=()))], value

    patch.setattr(state, "_sum", parts)


@caught_by(hunts.extrema)
def extrema_are_not_recomputed_on_deletes(patch: Patch) -> None:
    right = Grouped.adds
    patch.setattr(Grouped, "adds", lambda s, *, inserts_only: right(s, inserts_only=True))


@caught_by(hunts.flips, start=3)
def inserts_are_taken_to_only_insert(patch: Patch) -> None:
    patch.setattr(choice, "monotone", lambda q: True)


@caught_by(hunts.extrema, start=3)
def minima_grow(patch: Patch) -> None:
    right = maintenance._combined

    def joined(part: Any, name: str) -> Scalar:
        if part.combine is Combine.LEAST:
            part = replace(part, combine=Combine.GREATEST)
        return right(part, name)

    patch.setattr(maintenance, "_combined", joined)


@caught_by(hunts.sums)
def dead_groups_stay(patch: Patch) -> None:
    _written(patch, "merge_groups", lambda w: replace(w, delete_when=None))


@caught_by(hunts.sums, start=5)
def new_groups_are_not_inserted(patch: Patch) -> None:
    _written(patch, "merge_groups", lambda w: replace(w, insert_when=lit(False)))


@caught_by(hunts.sums, start=2)
def groups_of_null_are_another_group_each_time(patch: Patch) -> None:
    _match_by_equality(patch)


@caught_by(hunts.sums)
def groups_gain_from_the_new_rows_instead_of_the_change(patch: Patch) -> None:
    patch.setattr(Delta, "of", lambda d, q: d.new(q))


@caught_by(hunts.replaced)
def replaced_groups_without_rows_stay(patch: Patch) -> None:
    _written(patch, "replace_groups", lambda w: replace(w, delete_when=lit(False)))


@caught_by(hunts.replaced)
def groups_are_replaced_by_their_old_rows(patch: Patch) -> None:
    patch.setattr(Delta, "new", Delta.old)


@caught_by(hunts.replaced, start=1)
def groups_of_as_many_rows_are_left_alone(patch: Patch) -> None:
    unequal = Scalar(
        exp.NEQ(this=exp.column(COUNT, table="t"), expression=exp.column(COUNT, table="s"))
    )
    _written(patch, "replace_groups", lambda w: replace(w, update_when=unequal))


@caught_by(hunts.having)
def having_is_not_applied_at_read(patch: Patch) -> None:
    right = state.split

    def split(plan: Rel) -> Any:
        core, above = right(plan)
        return core, above if not isinstance(plan, Filter) else lambda stored: stored

    patch.setattr(state, "split", split)


@caught_by(hunts.bags, start=5)
def equal_rows_arrive_once(patch: Patch) -> None:
    right = maintenance._stored_copies
    patch.setattr(
        maintenance,
        "_stored_copies",
        lambda change, *rest: right(exp.select("*").from_(change.subquery("x")).distinct(), *rest),
    )


@caught_by(hunts.bags)
def arriving_rows_are_numbered_from_one(patch: Patch) -> None:
    right = maintenance._stored_copies

    def held(change: exp.Query, stored: exp.Table, columns: list[str]) -> exp.Select:
        nothing = exp.select("*").from_(stored).where(exp.false()).subquery()
        return right(change, nothing, columns)

    patch.setattr(maintenance, "_stored_copies", held)


@caught_by(hunts.bags)
def copies_are_taken_away_from_the_first(patch: Patch) -> None:
    right = maintenance._numbers

    def numbers(held: exp.Select, columns: list[str]) -> exp.Select:
        query = right(held, columns)
        rid = query.expressions[-1]
        branch = rid.find(exp.Case)
        moved = exp.Neg(this=exp.column(render.SIGN))
        branch.set(
            "default", exp.Anonymous(this="sequence", expressions=[exp.Literal.number(1), moved])
        )
        return query

    patch.setattr(maintenance, "_numbers", numbers)


@caught_by(hunts.bags, start=1)
def rows_with_nulls_are_never_found_again(patch: Patch) -> None:
    _match_by_equality(patch)
