"""Keys and hash samples, broken."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st

from belvedere.algebra.relations import Hash, Join, JoinKind, Rel, Restrict, Union
from belvedere.algebra.walks import tables
from belvedere.analyses import keys
from belvedere.rules import restrict
from tests.mutants.hunt import Case, Hunt, Mutants, Patch
from tests.reference.interpreter import Bag, Database
from tests.reference.laws import a_key_has_no_duplicates, sampling_keeps_the_rows
from tests.reference.plans import TABLES, databases, restrictions, rooted

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by

KEYS = {"r": ("a",), "s": ("a", "b"), "t": ("x",)}


def keyed(db: Database) -> Database:
    """The same tables with at most one row per key, and no NULL in one."""

    def unique(table: str, rows: Bag) -> Bag:
        place = [TABLES[table].index(c) for c in KEYS[table]]
        found = {tuple(r[i] for i in place): r for r in sorted(rows, key=str)}
        return Counter([r for k, r in found.items() if None not in k])

    return Database(TABLES, db.old, {t: unique(t, rows) for t, rows in db.new.items()})


@st.composite
def _sampled(draw: st.DrawFn, operator: str, *args: Any) -> Case:
    q = draw(rooted(operator, *args))
    key, _ = draw(restrictions(q))
    return q, draw(databases(tables(q), least=2)), key, Hash(draw(st.integers(0, 9)), 0.5)


@st.composite
def _keyed(draw: st.DrawFn, operator: str, *args: Any) -> Case:
    q = draw(rooted(operator, *args))
    return q, keyed(draw(databases(tables(q), least=3))), KEYS.get


def _no_duplicates(q: Rel, db: Database, declared: keys.Declared) -> None:
    a_key_has_no_duplicates(q, db, declared)


hashes_of_joins = Hunt("η of joins", sampling_keeps_the_rows, _sampled("pairs", JoinKind.LEFT))
hashes_of_groups = Hunt("η of groups", sampling_keeps_the_rows, _sampled("aggregate", 0))
keys_of_joins = Hunt("keys of joins", _no_duplicates, _keyed("pairs", JoinKind.INNER))
keys_of_sets = Hunt("keys of set operations", _no_duplicates, _keyed("set_operation", 0))


@caught_by(hashes_of_groups)
def a_hash_passes_by_a_part_of_its_key(patch: Patch) -> None:
    right = restrict._through

    def through(q: Restrict, names: Any) -> Rel:
        passing = tuple(k for k in q.key if k in names)
        return right(Restrict(q.child, passing, q.by), names) if passing else q

    patch.setattr(restrict, "_through", through)


@caught_by(hashes_of_joins)
def a_hash_of_the_padded_side_passes(patch: Patch) -> None:
    right = restrict._join

    def join(q: Restrict, of: Join) -> Rel:
        inner = Join(of.left, of.right, JoinKind.INNER, of.on)
        pushed = right(Restrict(inner, q.key, q.by), inner)
        return Join(pushed.left, pushed.right, of.kind, of.on) if isinstance(pushed, Join) else q

    patch.setattr(restrict, "_join", join)


@caught_by(keys_of_joins)
def one_side_s_key_tells_pairs_apart(patch: Patch) -> None:
    patch.setattr(keys, "_joined", lambda q, left, right: left)


@caught_by(keys_of_sets)
def branches_share_a_key(patch: Patch) -> None:
    def first(q: Union, inner: list[keys.Key | None]) -> keys.Key | None:
        return keys._placed(q, q.children[0], inner[0])

    patch.setattr(keys, "_tagged", first)
