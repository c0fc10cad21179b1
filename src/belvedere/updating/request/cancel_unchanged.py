"""Reduce a request: view rows that it both deletes and inserts stay as they are."""

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
    """For inserted rows that replace one: the index of the deleted row."""


def cancel_unchanged(coder: Coder, old: TableState, requested: RequestedRows) -> RequestedRows:
    """The request without unchanged view rows; it deletes no row twice."""
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
        # An unchanged row takes the place of the row that it replaces: follow the chain to a deleted row.
        while j is not None and deleted[j] in unchanged and inserted[deleted[j]] not in seen:
            seen.add(inserted[deleted[j]])
            j = requested.replaces.get(inserted[deleted[j]])
        if j is not None and deleted[j] in new_places:
            instead[len(remaining_insertions)] = new_places[deleted[j]]
        remaining_insertions.append(row)
    return RequestedRows(
        [requested.delete[j] for j in sorted(remaining.values())], remaining_insertions, instead
    )
