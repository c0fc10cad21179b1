"""Reuse: which other queries a sketch answers (IMP §1, §10.4).

A sketch of Q₁ answers Q₂ if the provenance of Q₂ is a subset of that of Q₁, and the partition attribute is
safe for Q₂: fragments that Q₂ does not need do no harm.

    R1  the same rows, HAVING₂ ⇒ HAVING₁, no LIMIT₁                    groups of Q₂ are groups of Q₁
    R2  the same rows, HAVING₂ ⇔ HAVING₁, the same order, k₂ ≤ k₁      so are the first of them
    R3  WHERE₂ ⇒ WHERE₁, HAVING₂ ⇒ HAVING₁, no LIMIT₁, and HAVING₁     a group that passes with
        holds for all rows of a group where it holds for some          fewer rows passes with all
"""

from __future__ import annotations

from collections.abc import Collection

from belvedere.algebra.scalars import Scalar
from belvedere.analyses.stable import Cuts, monotone_conditions
from belvedere.sketches.use.implied_conditions import Types, implies
from belvedere.sketches.use.query_shapes import QueryShape


def refusal(sketch: QueryShape, query: QueryShape, cuts: Cuts) -> str:
    """The reason why a sketch of one shape does not answer a query of another; "" if it does."""
    if sketch.text or query.text:
        return "" if sketch.text == query.text else "it is another query"
    if sketch.tables != query.tables:
        return "it reads other tables, or in another order"
    if sketch.keys != query.keys:
        return "it groups by other columns"
    types = query.types
    if not _all_implied(query.rows, sketch.rows, types):
        return "its WHERE admits rows that the sketch's does not"
    same_rows = _all_implied(sketch.rows, query.rows, types)
    if not _all_implied(query.groups, sketch.groups, types):
        return "its HAVING admits groups that the sketch's does not"
    if not same_rows and not _monotone(sketch, cuts):
        return "its WHERE is stricter, and the sketch's HAVING may hold for fewer rows only"
    if sketch.limit is None:
        return ""
    if not same_rows or not _all_implied(sketch.groups, query.groups, types):
        return "other rows or groups come into question, and the sketch knows only the first"
    if sketch.order != query.order:
        return "its order is another"
    if query.limit is None or query.limit > sketch.limit:
        return f"it asks for more than the first {sketch.limit}"
    return ""


def _all_implied(stronger: Collection[Scalar], weaker: Collection[Scalar], types: Types) -> bool:
    """Whether all weaker conditions hold wherever the stronger ones do."""
    return all(any(implies(s, w, types) for s in stronger) for w in weaker)


def _monotone(sketch: QueryShape, cuts: Cuts) -> bool:
    return sketch.aggregate is None or monotone_conditions(sketch.aggregate, sketch.own, cuts)
