"""The sizes of joins, and the samples of small ones, against brute force after every step."""

from __future__ import annotations

import numpy as np
import pytest

from belvedere.synopses.graph.plain_graph import PlainGraph
from belvedere.synopses.graph.weighted_graph import WeightedGraph
from belvedere.synopses.plan.query_tree import Band, QueryEdge, QueryTree, query_tree
from belvedere.synopses.sample.reservoir import SampleKind
from tests.synopses.streams import CASES, Case, Changes, applied, ids, keeper

SHAPES = (
    query_tree(1, ()),
    query_tree(2, (QueryEdge(0, 1),)),
    query_tree(4, (QueryEdge(0, 1), QueryEdge(1, 2), QueryEdge(1, 3))),
    query_tree(3, (QueryEdge(0, 1, Band(-2, 2)), QueryEdge(1, 2, Band(-1, 3)))),
    query_tree(
        4, (QueryEdge(0, 1, Band(-(2**62), -1)), QueryEdge(1, 2), QueryEdge(2, 3, Band(-1, 2)))
    ),
)


@pytest.mark.parametrize("tree", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_weights_are_those_of_the_definition(tree: QueryTree, seed: int) -> None:
    random = np.random.default_rng(seed)
    flat, plain = WeightedGraph(tree), PlainGraph(tree)
    living: list[set[int]] = [set() for _ in range(tree.nodes)]
    drawn = 0
    for step in range(40):
        node = int(random.integers(tree.nodes))
        if random.random() < 0.35 and living[node]:
            count = int(random.integers(1, len(living[node]) + 1))
            gone = random.permutation(sorted(living[node]))[:count].astype(np.int32)
            assert flat.remove(node, gone) == plain.remove(node, gone)
            living[node] -= set(gone.tolist())
        else:
            rows = np.arange(10 * step, 10 * step + random.integers(1, 8), dtype=np.int32)
            parts = []
            for edge in tree.around[node]:
                band = tree.edges[edge].band
                key = random.integers(0, 2 if band else 5, len(rows)).astype(np.int32)
                parts.append((key, random.integers(0, 9, len(rows)) if band else None))
            one = flat.weigh(node, rows, parts, 400)
            other = plain.weigh(node, rows, parts, 400)
            assert one.each[one.index].tolist() == other.weights
            flat.add(node, rows, one)
            plain.add(node, rows, other)
            living[node] |= set(rows.tolist())
        assert flat.size == plain.size
        if 0 < flat.size < 3000 and step % 4 == 0:
            every = [tuple(r) for r in flat.draw(np.arange(flat.size)).tolist()]
            assert len(set(every)) == flat.size
            assert sorted(every) == sorted(map(tuple, plain.draw(list(range(flat.size))).tolist()))
            drawn += 1
    assert drawn


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("collapse", [True, False])
def test_a_sample_larger_than_the_join_is_the_join(case: Case, collapse: bool) -> None:
    changes = Changes(case, seed=11, most=9 if case.keys else 4)
    results = keeper(case.plan(collapse=collapse), SampleKind(rows=30_000), seed=5)
    largest = 0
    for _ in range(40):
        applied(results, case, changes.batch())
        join = case.join(changes.database)
        assert sorted(ids(results)) == sorted(join)
        assert results.maintained.plan.sample_filters or results.maintained.size == len(join)
        largest = max(largest, len(join))
    assert largest > 20


def test_one_batch_weighs_what_its_rows_do_one_by_one() -> None:
    for case in CASES:
        changes = Changes(case, seed=3, most=6)
        whole = keeper(case.plan(), SampleKind(rows=10), seed=1)
        single = keeper(case.plan(), SampleKind(rows=10), seed=2)
        for _ in range(15):
            table, deletes, inserts = changes.batch()
            applied(whole, case, (table, deletes, inserts))
            for row in deletes:
                applied(single, case, (table, [row], []))
            for row in inserts:
                applied(single, case, (table, [], [row]))
            assert whole.maintained.size == single.maintained.size
