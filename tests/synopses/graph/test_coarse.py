"""The experiment with coarse counts: its sample is uniform and its counts are right, or it would compare nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from benchmarks.synopsis.coarse_counts import A, B, C, Chain

from tests.chances import by_chance

pytestmark = pytest.mark.soak

STEPS = [
    (A, 0, 0, 1), (B, 0, 0, 1), (C, 0, 0, 1), (C, 0, 0, 1), (C, 0, 0, 1), (A, 1, 0, 1), (B, 1, 0, 1),
    (C, 0, 1, 1), (B, 0, 1, 1), (A, 0, 0, 1), (A, 0, 0, 1), (C, 0, 1, 1), (A, 1, 0, 1), (C, 0, 0, 1),
    (C, 0, 0, 1), (A, 0, 0, 1), (A, 0, 0, 1),
]  # fmt: skip


def run(coarse: bool, seed: int) -> Chain:
    made = Chain(3, 10, 6, coarse, seed)
    for step in STEPS:
        made.apply(*(np.array([part]) for part in step))
    return made


@pytest.mark.parametrize("coarse", [False, True])
def test_a_sample_by_coarse_counts_is_uniform(coarse: bool) -> None:
    a, c = (
        Counter(x for t, x, _, _ in STEPS if t == A),
        Counter(y for t, _, y, _ in STEPS if t == C),
    )
    edges = [(x, y) for t, x, y, _ in STEPS if t == B]
    join = [(i, n, k) for n, (x, y) in enumerate(edges) for i in range(a[x]) for k in range(c[y])]
    counts = Counter[tuple[int, ...]]()
    rejected = 0
    for seed in range(600):
        made = run(coarse, seed)
        rejected += int(made.told[3])
        counts.update(map(tuple, made.reservoir.tolist()))
    assert counts.keys() == set(join)
    assert by_chance([counts[r] for r in join]) > 1e-3
    assert (rejected > 0) == coarse


def test_coarse_counts_stay_within_a_factor_and_change_rarely() -> None:
    random = np.random.default_rng(1)
    exact, coarse = (Chain(8, 400, 10, way) for way in (False, True))
    for step in range(600):
        table = int(random.integers(3)) if step < 300 else 2 * int(random.integers(2))
        x, y = random.integers(0, 8, 2)
        going = step >= 300 and exact.counts[table // 2, (x, y)[table // 2]] > 0
        for each in (exact, coarse):
            if step < 300 or going:
                each.apply(*(np.array([n]) for n in (table, x, y, -1 if going else 1)))
    assert (exact.counts == coarse.counts).all()
    assert (coarse.held >= coarse.counts).all()
    assert (coarse.held <= np.maximum(4 * coarse.counts, 1)).all()
    for side in (0, 1):
        for chain, width in ((exact, exact.counts), (coarse, coarse.held)):
            wanted = np.zeros(8, dtype=np.int64)
            for row in range(int(chain.used[0])):
                wanted[chain.ends[side, row]] += width[1 - side, chain.ends[1 - side, row]]
            assert (chain.sums[side] == wanted).all()
    assert 3 * coarse.told[1] < exact.told[1]
