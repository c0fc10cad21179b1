"""Foreign keys: which row of a position each row of another refers to, and who waits for whom.

A reference needs only that its parent's key is unique. A row whose parent has not come waits under the
parent's key; when the parent comes it is released, when the parent goes it waits again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from belvedere.errors import Invalid
from belvedere.kernels.hashes.interning import Interner, grown
from belvedere.kernels.join_graph.chains import Chains, first_clash
from belvedere.kernels.rows import put


class ReferenceIndex:
    """One reference at work."""

    def __init__(self, width: int) -> None:
        self.keys = Interner(width)
        self.own = np.zeros(64, dtype=np.int32)
        """For each row of the child the number of the key it refers to."""
        self.key = np.zeros(64, dtype=np.int32)
        """For each row of the parent the number of its key."""
        self.owner = np.full(64, -1, dtype=np.int32)
        """For each key the parent's row that has it."""
        self.waiting = Chains()
        """Rows of the node's root that wait for a key."""
        self.dependents: Chains | None = None
        """Rows of the child by their key; kept from the first time that a parent goes."""

    def _number(self, codes: Any) -> Any:
        found = self.keys.ids(codes)
        if self.keys.size > len(self.owner):
            self.owner = grown(self.owner, self.keys.size, -1)
        return found

    def refer(self, rows: Any, codes: Any, bound: int) -> None:
        """New rows of the child."""
        self.own = grown(self.own, bound)
        found = self._number(codes)
        put(self.own, rows, found)
        if self.dependents is not None:
            self.dependents.reserve(len(self.owner), bound)
            self.dependents.link(rows, found)

    def numbered(self, codes: Any, freed: Any) -> tuple[Any, tuple[int, int] | None]:
        """The keys of new rows of the parent, and two places that would share one, if there are any.

        `freed` are rows of the parent that will have gone. A row that is there is place -1 - row.
        """
        found = self._number(codes)
        keys = self.key[freed]
        self.owner[keys] = -1
        one, other = first_clash(found, self.owner)
        self.owner[keys] = freed
        return found, None if other < 0 else (one, other)

    def come(self, rows: Any, found: Any, bound: int) -> Any:
        """New rows of the parent with their keys; the root's rows that waited for them."""
        self.key = grown(self.key, bound)
        put(self.key, rows, found)
        put(self.owner, found, rows)
        self.waiting.reserve(len(self.owner), 0)
        released = self.waiting.under(found)
        self.waiting.unlink(released)
        return released

    def go(self, rows: Any) -> Any:
        """Rows of the parent leave; their keys."""
        found = self.key[rows]
        self.owner[found] = -1
        return found

    def arm(self, rows: Any) -> Chains:
        """The child's rows by key: made when first needed of all there are, kept from then on."""
        if self.dependents is None:
            self.dependents = Chains()
            self.dependents.reserve(len(self.owner), len(self.own))
            self.dependents.link(rows, self.own[rows])
        self.dependents.reserve(len(self.owner), len(self.own))
        return self.dependents

    def leave(self, rows: Any) -> None:
        """Rows of the child leave."""
        if self.dependents is not None:
            self.dependents.unlink(rows)

    def wait(self, rows: Any, under: Any, bound: int) -> None:
        """Rows of the root wait for keys."""
        self.waiting.reserve(len(self.owner), bound)
        self.waiting.link(rows, under)


def not_unique(table: str, columns: list[str], one: Any, other: Any) -> Invalid:
    """The one error of a reference: two rows have one key."""
    return Invalid(
        f"two rows of {table!r} have the same {', '.join(columns)}, which was declared unique",
        detail=f"{one} and {other}",
        hint="nothing was changed; without the key the synopsis is kept without collapsing the join",
        reason="NOT_UNIQUE",
    )
