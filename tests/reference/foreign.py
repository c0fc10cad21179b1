"""The law of foreign keys, on two small tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from belvedere.algebra.relations import At, Field, Scan
from belvedere.execution.foreign_keys import (
    CheckedForeignKeys,
    KeyReference,
    check_foreign_keys,
)
from belvedere.rules.lookups import LookUp
from belvedere.sql.render import SIGN

Row: TypeAlias = tuple[int | None, int]
"""A key or reference, and something else."""
Rows: TypeAlias = Counter[Row]

REFERENCE = KeyReference("child", "c", "parent", "p", "bigint")
COLUMNS = {"child": ("c", "x"), "parent": ("p", "x")}

bags = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 1)), max_size=5)


def children_of_changed_keys_are_those_of_the_change(
    parents: list[Row],
    children: list[Row],
    new_parents: list[Row],
    new_children: list[Row],
) -> None:
    """F1, F2 where a key is relied on; it holds after the changes just if that is found"""
    parent = Counter(parents)
    old = {"parent": parent, "child": Counter(c for c in children if _refers({c}, parent))}
    new = {"parent": Counter(new_parents), "child": Counter(new_children)}
    relied, keys = relied_on(old, new)
    holds = str(REFERENCE) in relied.holding
    assert holds == _refers(new["child"], new["parent"])
    assert holds != bool(relied.notes)
    fields = (Field("c", "c", "bigint"), Field("x", "x", "bigint"))
    for at, state in ((At.OLD, old), (At.NEW, new)):
        leaf = Scan("child", fields, at)
        if relied.answers(LookUp(leaf, "c", frozenset({("parent", "p")}), nulls=False)):
            rows = relied.rows(leaf, "c", pa.array(sorted(keys), pa.int64()))
            found = Counter((r["c"], r["x"]) for r in rows.to_pylist())
            assert found == Counter({r: n for r, n in state["child"].items() if r[0] in keys})


def relied_on(
    old: Mapping[str, Rows], new: Mapping[str, Rows]
) -> tuple[CheckedForeignKeys, set[int]]:
    """What a refresh between two states relies on, and the keys of the parent's change."""
    moving = [t for t in old if old[t] != new[t]]
    changes = {t: _change(t, old[t], new[t]) for t in moving}

    def values(table: str, _: str, asked: pa.Array) -> pa.Array:
        wanted = set(asked.to_pylist())
        return pa.array([a for a, _ in new[table].elements() if a in wanted], pa.int64())

    relied = check_foreign_keys({str(REFERENCE)}, [REFERENCE], moving, changes, values)
    keys = changes["parent"]["p"].to_pylist() if "parent" in changes else []
    return relied, {key for key in keys if key is not None}


def _change(name: str, old: Rows, new: Rows) -> pa.Table:
    """The net change as a refresh holds it."""
    net = {row: new[row] - old[row] for row in old | new if new[row] != old[row]}
    first, second = COLUMNS[name]
    return pa.table(
        {
            first: pa.array([a for a, _ in net], pa.int64()),
            second: pa.array([b for _, b in net], pa.int64()),
            SIGN: pa.array(list(net.values()), pa.int64()),
        }
    )


def _refers(child: Rows | set[Row], parent: Rows) -> bool:
    """The foreign key, as it is declared."""
    return all(c is None or any(c == p for p, _ in parent) for c, _ in child)
