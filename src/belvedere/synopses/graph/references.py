"""Collapsed foreign keys (SJoin §6): the parent row of each child row, and the rows that wait for a parent.

A reference needs only that its parent's key is unique. A row whose parent is absent waits under the
parent's key. It is released when the parent is inserted, and waits again when the parent is deleted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from belvedere.errors import Invalid
from belvedere.kernels.hashes.interning import Interner, grown
from belvedere.kernels.join_graph.chains import Chains, first_clash
from belvedere.kernels.rows import put


class ReferenceIndex:
    """The rows of one reference, by key."""

    def __init__(self, width: int) -> None:
        self.keys = Interner(width)
        self.own = np.zeros(64, dtype=np.int32)
        """For each child row the number of the key that it refers to."""
        self.key = np.zeros(64, dtype=np.int32)
        """For each parent row the number of its key."""
        self.owner = np.full(64, -1, dtype=np.int32)
        """For each key the parent row that has it."""
        self.waiting = Chains()
        """Rows of the node's root that wait for a key."""
        self.dependents: Chains | None = None
        """The child rows by their key; built when a parent is first deleted."""

    def _key_numbers(self, codes: Any) -> Any:
        numbers = self.keys.ids(codes)
        if self.keys.size > len(self.owner):
            self.owner = grown(self.owner, self.keys.size, -1)
        return numbers

    def add_children(self, rows: Any, codes: Any, bound: int) -> None:
        """Add child rows."""
        self.own = grown(self.own, bound)
        keys = self._key_numbers(codes)
        put(self.own, rows, keys)
        if self.dependents is not None:
            self.dependents.reserve(len(self.owner), bound)
            self.dependents.link(rows, keys)

    def parent_keys(self, codes: Any, freed: Any) -> tuple[Any, tuple[int, int] | None]:
        """The keys of new parent rows, and two places that would share a key, if there are any.

        `freed` are parent rows that are deleted first. A present row is place -1 - row.
        """
        numbers = self._key_numbers(codes)
        keys = self.key[freed]
        self.owner[keys] = -1
        one, other = first_clash(numbers, self.owner)
        self.owner[keys] = freed
        return numbers, None if other < 0 else (one, other)

    def add_parents(self, rows: Any, keys: Any, bound: int) -> Any:
        """Add parent rows with their keys; the root rows that waited for them."""
        self.key = grown(self.key, bound)
        put(self.key, rows, keys)
        put(self.owner, keys, rows)
        self.waiting.reserve(len(self.owner), 0)
        released = self.waiting.under(keys)
        self.waiting.unlink(released)
        return released

    def remove_parents(self, rows: Any) -> Any:
        """Remove parent rows; their keys."""
        keys = self.key[rows]
        self.owner[keys] = -1
        return keys

    def children_by_key(self, rows: Any) -> Chains:
        """The child rows by key: built from all of them at first use, maintained from then on."""
        if self.dependents is None:
            self.dependents = Chains()
            self.dependents.reserve(len(self.owner), len(self.own))
            self.dependents.link(rows, self.own[rows])
        self.dependents.reserve(len(self.owner), len(self.own))
        return self.dependents

    def remove_children(self, rows: Any) -> None:
        """Remove child rows."""
        if self.dependents is not None:
            self.dependents.unlink(rows)

    def wait(self, rows: Any, under: Any, bound: int) -> None:
        """Let root rows wait for keys."""
        self.waiting.reserve(len(self.owner), bound)
        self.waiting.link(rows, under)


def not_unique(table: str, columns: list[str], one: Any, other: Any) -> Invalid:
    """The error of a reference: two parent rows have one key."""
    return Invalid(
        f"two rows of {table!r} have the same {', '.join(columns)}, which was declared unique",
        detail=f"{one} and {other}",
        hint="nothing was changed; without the key the synopsis is kept without collapsing the join",
        reason="NOT_UNIQUE",
    )
