"""The summary after base changes: rows move between classes, and counts change only for these rows.

A row that leaves its class splits it; a row that enters a class merges with it. A class without rows
stays, empty. A row that is no longer extended has no class. For every key of a moved row, the counts of
both classes change, and so do their links with the classes at the other end of the edge:

    Δ|E(a, b)| = Σ over keys  Δa·b + (a + Δa)·Δb
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.classes import NO_CLASS, Summary, propagate
from belvedere.updating.summary.database_graph import DatabaseGraph, extended_to
from belvedere.updating.summary.domains import Codes

Entries = tuple[Codes, Codes, Codes]
"""Keys, members and changes of counts, sorted, each pair once."""


def move_rows(
    base: BaseTables, graph: DatabaseGraph, summary: Summary, rows: Sequence[Codes]
) -> None:
    """Move some rows of each position to their present classes."""
    changes: dict[tuple[int, int], Entries] = {}
    for p, row_numbers in enumerate(rows):
        old, new = _reclassify(graph, summary, p, row_numbers)
        moved = old != new
        for e in base.tree.around[p]:
            keys = base.keys(p, e)[row_numbers[moved]]
            changes[p, e] = _entries_of_moved_rows(keys, old[moved], new[moved])
    for e in range(len(base.tree.edges)):
        _relink(base, summary, e, changes)
    if any(map(len, rows)):
        propagate(base.tree, summary)


def _reclassify(graph: DatabaseGraph, summary: Summary, p: int, rows: Codes) -> tuple[Codes, Codes]:
    """The classes of some rows before and now; updates the sizes of both."""
    first, size = len(summary.of_row[p]), len(graph.extended[p])
    of_row = summary.of_row[p] = extended_to(summary.of_row[p], size)
    of_row[first:] = NO_CLASS
    names = summary.names[p]
    old, new = of_row[rows], names.of(graph, rows)
    of_row[rows] = new
    sizes = summary.sizes[p]
    sizes = np.concatenate([sizes, np.zeros(len(names) - len(sizes), dtype=np.int64)])
    np.subtract.at(sizes, old[old >= 0], 1)
    np.add.at(sizes, new[new >= 0], 1)
    summary.sizes[p] = sizes
    return old, new


def _entries_of_moved_rows(keys: Codes, old: Codes, new: Codes) -> Entries:
    both = np.concatenate([keys, keys])
    classes = np.concatenate([old, new])
    deltas = np.repeat(np.array([-1, 1]), len(keys))
    valid = (both >= 0) & (classes >= 0)
    return net_entries(both[valid], classes[valid], deltas[valid])


def net_entries(keys: Codes, members: Codes, deltas: Codes) -> Entries:
    """Changes of counts summed by key and member, without those that cancel out."""
    span = int(members.max(initial=0)) + 1
    both, inverse = np.unique(keys * span + members, return_inverse=True)
    net = np.zeros(len(both), dtype=np.int64)
    np.add.at(net, inverse, deltas)
    both, net = both[net != 0], net[net != 0]
    return both // span, both % span, net


def _relink(
    base: BaseTables, summary: Summary, e: int, changes: dict[tuple[int, int], Entries]
) -> None:
    """Update the classes by key at both ends of an edge, and the links between them."""
    above, below = (base.tree.parent(e), e), (base.tree.child(e), e)
    for end in (above, below):
        summary.by_key[end].reserve(base.width(e))
    keys, upper, more = changes[above]
    entry, lower, counts = summary.by_key[below].under(keys)
    parts = [(lower, upper[entry], more[entry] * counts)]
    summary.by_key[above].add(keys, upper, more)
    keys, lower, more = changes[below]
    entry, upper, counts = summary.by_key[above].under(keys)
    parts.append((lower[entry], upper, more[entry] * counts))
    summary.by_key[below].add(keys, lower, more)
    links = summary.links[e]
    links.reserve(len(summary.sizes[below[0]]))
    links.add(*net_entries(*(np.concatenate(some) for some in zip(*parts, strict=True))))
