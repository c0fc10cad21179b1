"""The summary in arrays is the one the paper defines."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from belvedere.updating.summary.classes import Summary, summarize
from belvedere.updating.summary.database_graph import build_graph
from tests.updating.cases import Case, random_case
from tests.updating.summary.defined import defined, weights

SEEDS = range(60)


def cases() -> list[Case]:
    kinds = [{}, {"keyed": True}, {"cyclic": True}, {"twice": True}]
    return [random_case(s, positions=1 + s % 4, **kinds[s % 4]) for s in SEEDS]  # type: ignore[arg-type]


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.query[:40])
def test_arrays_hold_what_the_definitions_say(case: Case) -> None:
    base = case.base()
    graph, found = build_graph(base), defined(base)
    for p in range(len(base.shape.positions)):
        n = base.rows_at(p).size
        assert {(p, i) for i in range(n) if graph.whole[p][i]} == {
            x for x in found.whole if x[0] == p
        }
        extended = {(p, i) for i in range(n) if graph.extended[p][i]}
        assert extended == {x for x in found.extended if x[0] == p}
        assert {x: graph.jcard[p][x[1]] for x in extended} == {x: found.jcard[x] for x in extended}
    own = [np.flatnonzero(e)[:1] for e in graph.extended]
    candidates = frozenset((p, int(i)) for p, some in enumerate(own) for i in some)
    summary = summarize(base, graph, own)
    classes = found.classes(candidates)
    names = {(p, int(summary.of_row[p][i])): classes[p, i] for p, i in classes}
    assert len(set(names.values())) == len(names)
    sizes = Counter(classes.values())
    assert {names[p, c]: n for p, c, n in _sizes(summary)} == dict(sizes)
    tree = base.tree
    edges = {
        (names[tree.parent(e), a], names[tree.child(e), b]): w
        for e, links in summary.links.items()
        for b, a, w in zip(*(some.tolist() for some in links.entries()), strict=True)
    }
    assert edges == dict(weights(base, found, classes))


def _sizes(summary: Summary) -> list[tuple[int, int, int]]:
    return [
        (p, c, int(n)) for p, some in enumerate(summary.sizes) for c, n in enumerate(some) if n > 0
    ]
