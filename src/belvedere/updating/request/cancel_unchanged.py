"""What is left of a request once view rows that it deletes and inserts again stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.in_memory import TableState


@dataclass(frozen=True)
class RequestedRows:
    """View rows to delete and to insert."""

    delete: Sequence[ViewRow]
    insert: Sequence[ViewRow]
    replaces: Mapping[int, int] = field(default_factory=dict)
    """For rows to insert that replace one: which of those to delete."""


def cancel_unchanged(coder: Coder, old: TableState, requested: RequestedRows) -> RequestedRows:
    """A request without the view rows that stay, and that deletes no row twice."""
    deleted = [coder.signature(r) for r in requested.delete]
    inserted = {coder.signature(r): i for i, r in enumerate(requested.insert)}
    unchanged = {s for s in deleted if s in inserted and old.embedding_of(s) is not None}
    remaining = {s: j for j, s in reversed(list(enumerate(deleted))) if s not in unchanged}
    new_places = {s: n for n, s in enumerate(sorted(remaining, key=remaining.__getitem__))}
    remaining_insertions: list[ViewRow] = []
    instead: dict[int, int] = {}
    for i, row in enumerate(requested.insert):
        if coder.signature(row) in unchanged:
            continue
        j, seen = requested.replaces.get(i), {i}
        # A row that stays is where the row went that it replaces: that one's place is taken.
        while j is not None and deleted[j] in unchanged and inserted[deleted[j]] not in seen:
            seen.add(inserted[deleted[j]])
            j = requested.replaces.get(inserted[deleted[j]])
        if j is not None and deleted[j] in new_places:
            instead[len(remaining_insertions)] = new_places[deleted[j]]
        remaining_insertions.append(row)
    return RequestedRows(
        [requested.delete[j] for j in sorted(remaining.values())], remaining_insertions, instead
    )
