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
    instead: Mapping[int, int] = field(default_factory=dict)
    """For rows to insert that replace one: which of those to delete."""


def cancel_unchanged(coder: Coder, old: TableState, asked: RequestedRows) -> RequestedRows:
    """A request without the view rows that stay, and that deletes no row twice."""
    going = [coder.signature(r) for r in asked.delete]
    coming = {coder.signature(r): i for i, r in enumerate(asked.insert)}
    staying = {s for s in going if s in coming and old.shows(s) is not None}
    kept = {s: j for j, s in reversed(list(enumerate(going))) if s not in staying}
    places = {s: n for n, s in enumerate(sorted(kept, key=kept.__getitem__))}
    insert: list[ViewRow] = []
    instead: dict[int, int] = {}
    for i, row in enumerate(asked.insert):
        if coder.signature(row) in staying:
            continue
        j, seen = asked.instead.get(i), {i}
        # A row that stays is where the row went that it replaces: that one's place is taken.
        while j is not None and going[j] in staying and coming[going[j]] not in seen:
            seen.add(coming[going[j]])
            j = asked.instead.get(coming[going[j]])
        if j is not None and going[j] in places:
            instead[len(insert)] = places[going[j]]
        insert.append(row)
    return RequestedRows([asked.delete[j] for j in sorted(kept.values())], insert, instead)
