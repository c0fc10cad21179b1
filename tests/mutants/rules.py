"""Broken rules of change and of pushing down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.algebra.relations import (
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Keys,
    Negate,
    Output,
    Project,
    Rel,
    Restrict,
    Support,
    TopK,
    Window,
)
from belvedere.algebra.scalars import TRUE, Scalar, col, every
from belvedere.algebra.walks import tables
from belvedere.execution import foreign_keys
from belvedere.rules import backward, delta, empties, lookups, narrow, outward, restrict
from belvedere.rules.delta import Delta, union
from tests.mutants import hunts
from tests.mutants.hunt import Mutants, Patch

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by


def _instead(
    patch: Patch, kind: type | tuple[type, ...], rule: Callable[[Delta, Any], Rel]
) -> None:
    """Another rule for the operators of a kind."""
    right = Delta._of
    patch.setattr(Delta, "_of", lambda d, q: rule(d, q) if isinstance(q, kind) else right(d, q))


@caught_by(hunts.inner)
def old_for_new_in_the_right_term(patch: Patch) -> None:
    patch.setattr(Delta, "_right", lambda d, q: replace(q, left=d.old(q.left), right=d.of(q.right)))


@caught_by(hunts.inner)
def new_for_old_in_the_left_term(patch: Patch) -> None:
    patch.setattr(Delta, "_left", lambda d, q: replace(q, left=d.of(q.left), right=d.new(q.right)))


@caught_by(hunts.inner)
def the_right_term_is_missing(patch: Patch) -> None:
    patch.setattr(Delta, "_right", lambda d, q: Empty(q.columns))


@caught_by(hunts.inner)
def a_self_join_has_only_one_term(patch: Patch) -> None:
    right = Delta._right

    def once(d: Delta, q: Join) -> Rel:
        itself = set(tables(q.left)) & set(tables(q.right))
        return Empty(q.columns) if itself else right(d, q)

    patch.setattr(Delta, "_right", once)


@caught_by(hunts.semi)
def semi_joins_forget_rows_that_find_or_lose_a_partner(patch: Patch) -> None:
    patch.setattr(Delta, "_flips", lambda d, q: Empty(q.columns))


@caught_by(hunts.anti)
def anti_joins_look_for_flips_among_old_rows(patch: Patch) -> None:
    def flips(d: Delta, q: Join) -> Rel:
        m = Join(d.old(q.left), Support(d.of(q.right)), JoinKind.SEMI, q.on)
        sides = (replace(q, left=m, right=state(q.right)) for state in (d.new, d.old))
        after, before = sides
        return union([after, Negate(before)], q.columns)

    patch.setattr(Delta, "_flips", flips)


@caught_by(hunts.anti)
def flips_have_the_wrong_sign(patch: Patch) -> None:
    right = Delta._flips
    patch.setattr(Delta, "_flips", lambda d, q: Negate(right(d, q)))


@caught_by(hunts.left)
def padding_is_never_retracted(patch: Patch) -> None:
    patch.setattr(Delta, "_pad", lambda d, q, columns: Empty(columns))


@caught_by(hunts.left)
def padding_is_retracted_and_never_added(patch: Patch) -> None:
    right = Delta._flips

    def retracted(d: Delta, q: Join) -> Rel:
        both = right(d, q)
        return both if isinstance(both, Empty) else both.children[1]

    patch.setattr(Delta, "_flips", retracted)


@caught_by(hunts.full)
def a_full_join_has_only_its_left_half(patch: Patch) -> None:
    right = Delta._of

    def half(d: Delta, q: Rel) -> Rel:
        is_full = isinstance(q, Join) and q.kind is JoinKind.FULL
        return right(d, replace(q, kind=JoinKind.LEFT) if is_full else q)

    patch.setattr(Delta, "_of", half)


@caught_by(hunts.distinct)
def distinct_is_linear(patch: Patch) -> None:
    _instead(patch, Distinct, lambda d, q: d.of(q.child))


@caught_by(hunts.tops)
def the_top_rows_are_linear(patch: Patch) -> None:
    _instead(patch, TopK, lambda d, q: d.of(q.child))


@caught_by(hunts.sets)
def all_is_forgotten_in_set_operations(patch: Patch) -> None:
    right = Delta._on_rows
    patch.setattr(Delta, "_on_rows", lambda d, q: right(d, replace(q, all=False)))


@caught_by(hunts.sets)
def set_operations_look_only_at_the_left_change(patch: Patch) -> None:
    def on_rows(d: Delta, q: Except | Intersect) -> Rel:
        by = Keys(Support(d.of(q.left)))
        sides = (
            replace(
                q,
                left=Restrict(state(q.left), q.left.columns, by),
                right=Restrict(state(q.right), q.right.columns, by),
            )
            for state in (d.new, d.old)
        )
        after, before = sides
        return union([after, Negate(before)], q.columns)

    patch.setattr(Delta, "_on_rows", on_rows)


@caught_by(hunts.windows, start=13)
def windows_recompute_only_the_changed_rows(patch: Patch) -> None:
    _instead(patch, Window, lambda d, q: d._on_keys(q, q.child.columns))


@caught_by(hunts.groups)
def keyed_changes_add_the_old_rows(patch: Patch) -> None:
    patch.setattr(delta, "Negate", lambda q: q)


@caught_by(hunts.groups)
def touched_keys_come_from_inserts_only(patch: Patch) -> None:
    right = Delta._on_keys

    def on_keys(d: Delta, q: Any, key: tuple[str, ...]) -> Rel:
        def present(change: Rel, key: tuple[str, ...]) -> Rel:
            held = Restrict(d.new(q.child), q.child.columns, Keys(Support(change)))
            return Distinct(Project(held, tuple(Output(k, col(k)) for k in key)))

        with Patch.context() as inner:
            inner.setattr(delta, "touched", present)
            return right(d, q, key)

    patch.setattr(Delta, "_on_keys", on_keys)


@caught_by(hunts.groups)
def null_keys_are_not_touched(patch: Patch) -> None:
    right = delta.touched

    def touched(change: Rel, key: tuple[str, ...]) -> Rel:
        present = every(
            Scalar(exp.Not(this=exp.Is(this=col(k).expr, expression=exp.null()))) for k in key
        )
        return Filter(right(change, key), present)

    patch.setattr(delta, "touched", touched)


@caught_by(hunts.through_joins)
def a_key_goes_into_the_padded_side_of_a_left_join(patch: Patch) -> None:
    right = restrict._join

    def join(q: Restrict, joined: Join) -> Rel:
        if joined.kind is not JoinKind.LEFT:
            return right(q, joined)
        as_inner = replace(joined, kind=JoinKind.INNER)
        pushed = right(replace(q, child=as_inner), as_inner)
        if isinstance(pushed, Restrict):
            return replace(pushed, child=replace(pushed.child, kind=JoinKind.LEFT))
        return replace(pushed, kind=JoinKind.LEFT)

    patch.setattr(restrict, "_join", join)


@caught_by(hunts.through_joins, start=1)
def a_key_goes_into_full_joins(patch: Patch) -> None:
    right = restrict._join

    def join(q: Restrict, joined: Join) -> Rel:
        if joined.kind is not JoinKind.FULL:
            return right(q, joined)
        as_left = replace(joined, kind=JoinKind.LEFT)
        pushed = right(replace(q, child=as_left), as_left)
        if isinstance(pushed, Restrict):
            return replace(pushed, child=replace(pushed.child, kind=JoinKind.FULL))
        return replace(pushed, kind=JoinKind.FULL)

    patch.setattr(restrict, "_join", join)


@caught_by(hunts.through_tops)
def a_key_goes_below_the_top_rows(patch: Patch) -> None:
    right = restrict.push

    def push(q: Restrict) -> Rel:
        if isinstance(q.child, TopK):
            return replace(q.child, child=push(replace(q, child=q.child.child)))
        return right(q)

    patch.setattr(restrict, "push", push)
    patch.setattr("tests.reference.laws.push", push)


@caught_by(hunts.through_windows)
def a_key_goes_below_a_window_whatever_its_partition(patch: Patch) -> None:
    right = restrict.push

    def push(q: Restrict) -> Rel:
        if isinstance(q.child, Window) and set(q.key) <= set(q.child.child.columns):
            return replace(q.child, child=push(replace(q, child=q.child.child)))
        return right(q)

    patch.setattr(restrict, "push", push)
    patch.setattr("tests.reference.laws.push", push)


@caught_by(hunts.through_groups)
def a_key_that_passes_in_part_is_not_checked_again(patch: Patch) -> None:
    right = restrict._through

    def through(q: Restrict, names: Any) -> Rel:
        pushed = right(q, names)
        return pushed.child if isinstance(pushed, Restrict) else pushed

    patch.setattr(restrict, "_through", through)


@caught_by(hunts.joins_in_order, start=14)
def a_condition_of_one_side_is_lost(patch: Patch) -> None:
    def lossy(leaf: Rel, waiting: list[Scalar]) -> tuple[Rel, list[Scalar]]:
        return leaf, [c for c in waiting if not c.columns <= set(leaf.columns)]

    patch.setattr(outward, "_filtered", lossy)


@caught_by(hunts.joins_in_order)
def the_order_of_columns_is_that_of_the_joins(patch: Patch) -> None:
    right = outward._Outward._joined
    patch.setattr(
        outward._Outward,
        "_joined",
        lambda self, leaves, conjuncts, _: right(
            self, leaves, conjuncts, tuple(c for q in leaves for c in q.columns)[::-1]
        ),
    )


@caught_by(hunts.joins_in_order, start=3)
def filters_between_joins_are_lost(patch: Patch) -> None:
    right = outward._flat
    patch.setattr(outward, "_flat", lambda q: right(q.child) if isinstance(q, Filter) else right(q))


@caught_by(hunts.joins_in_order, start=12)
def what_ties_small_relations_to_terms_is_lost(patch: Patch) -> None:
    right = outward._inner
    patch.setattr(outward, "_inner", lambda leaves, _: right(leaves, TRUE))


@caught_by(hunts.asked_rows)
def rows_that_cancel_in_a_key_ask_for_nothing(patch: Patch) -> None:
    patch.setattr(
        outward,
        "touched",
        lambda change, key: Support(Project(change, tuple(Output(k, col(k)) for k in key))),
    )


@caught_by(hunts.empties)
def an_empty_side_empties_every_join(patch: Patch) -> None:
    right = empties._node

    def node(q: Rel) -> Rel:
        if isinstance(q, Join) and isinstance(q.right, Empty):
            return Empty(q.columns)
        return right(q)

    patch.setattr(empties, "_node", node)


@caught_by(hunts.going_back)
def the_old_state_is_taken_for_the_new_one(patch: Patch) -> None:
    patch.setattr(backward, "_back", lambda old, new: new)


@caught_by(hunts.going_back)
def equal_rows_of_the_old_state_count_once(patch: Patch) -> None:
    right = backward._back
    patch.setattr(backward, "_back", lambda old, new: Support(right(old, new).child))


@caught_by(hunts.ranges)
def a_range_begins_too_late(patch: Patch) -> None:
    right = narrow._in
    patch.setattr(narrow, "_in", lambda value, at: right(value, (at[0] + 1, at[1])))


@caught_by(hunts.ranges_of_groups)
def groups_without_a_key_are_outside_every_range(patch: Patch) -> None:
    right = narrow._Narrow._restricted

    def restricted(rule: narrow._Narrow, q: Restrict) -> Rel:
        turned = right(rule, q)
        if turned is q:
            return q
        within = every(Scalar(p.expr.unnest().this) for p in turned.child.predicate.conjuncts)
        return replace(turned, child=Filter(q.child, within))

    patch.setattr(narrow._Narrow, "_restricted", restricted)


@caught_by(hunts.looked_up, start=9)
def the_values_of_one_source_are_looked_up(patch: Patch) -> None:
    right = lookups.sources

    def fewer(*asked: Any) -> Any:
        found = right(*asked)
        return found and frozenset(sorted(found)[:1])

    patch.setattr(lookups, "sources", fewer)


@caught_by(hunts.looked_up_groups)
def groups_without_a_key_are_not_looked_up(patch: Patch) -> None:
    right = lookups._Places._leaf

    def leaf(places: lookups._Places, *asked: Any, **how: Any) -> lookups.LookUp | None:
        return right(places, *asked, **{**how, "nulls": False})

    patch.setattr(lookups._Places, "_leaf", leaf)


@caught_by(hunts.picked)
def rows_are_picked_from_the_padded_side(patch: Patch) -> None:
    patch.setattr(
        lookups, "_owner", lambda q, column: q.left if column in q.left.columns else q.right
    )


@caught_by(hunts.referring, start=4)
def a_key_that_stays_is_taken_for_new(patch: Patch) -> None:
    right = foreign_keys._Check.run

    def run(check: foreign_keys._Check) -> foreign_keys._CheckResult | None:
        found = right(check)
        return found and replace(found, no_key_stays=True)

    patch.setattr(foreign_keys._Check, "run", run)


@caught_by(hunts.referring)
def children_that_came_are_taken_for_those_that_went(patch: Patch) -> None:
    right = foreign_keys.copies_in_change
    patch.setattr(foreign_keys, "copies_in_change", lambda change, _, *by: right(change, 1, *by))


@caught_by(hunts.referring, start=4)
def keys_that_went_may_leave_children(patch: Patch) -> None:
    right = foreign_keys._Check._after

    def after(check: foreign_keys._Check, table: str, *asked: Any) -> Any:
        found = right(check, table, *asked)
        return found[:0] if table == check.reference.child else found

    patch.setattr(foreign_keys._Check, "_after", after)
