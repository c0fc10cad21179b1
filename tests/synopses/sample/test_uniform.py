"""Every sample is uniform: all results of small joins are equally likely, alone and in pairs.

Chi-square over all results, many runs of one sequence of changes with seeds of their own; the p-values of
all cases are combined (Fisher). A sampler with the bias of a skip drawn before a deletion must be caught.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.special import chdtrc, ndtr

from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from tests.synopses.streams import BAND, CASES, EQUALITY, FILTERED, SELF, Case, Changes, ids, keeper

KINDS = (SampleKind(rows=12), SampleKind(rows=12, replacement=True), SampleKind(rate=0.2))
Runs = list[list[tuple[int, ...]]]


def sequence(case: Case, steps: int) -> Changes:
    """A sequence that ends with a join of some dozens of results, after deletions from a larger one."""
    for seed in range(100):
        changes = Changes(case, seed, most=9 if case.keys else 4)
        batches = [changes.batch(deleting=0.1) for _ in range(steps)]
        batches += [changes.batch(deleting=0.9) for _ in range(4)]
        if 30 <= len(case.join(changes.database)) <= 120:
            changes.batches = batches  # type: ignore[attr-defined]
            return changes
    raise AssertionError(case.name)


def runs(case: Case, changes: Changes, kind: SampleKind, times: int) -> Runs:
    planned = case.plan()
    batches = [
        (t, case.arrow(t, gone) if gone else None, case.arrow(t, new))
        for t, gone, new in changes.batches  # type: ignore[attr-defined]
    ]
    found = []
    for seed in range(times):
        results = keeper(planned, kind, seed + 1000)
        for batch in batches:
            results.change(*batch)
        found.append(ids(results))
    return found


def p_of_singles(found: Runs, join: set[tuple[int, ...]], kind: SampleKind) -> float:
    """How likely counts of single results are to differ so much, if each is as likely as any."""
    counts = Counter(r for run in found for r in run)
    assert counts.keys() <= join
    times, n = len(found), len(join)
    observed = np.array([counts[r] for r in join])
    if kind.rate is not None:
        expected, variance = times * kind.rate, times * kind.rate * (1 - kind.rate)
        return float(chdtrc(n, ((observed - expected) ** 2 / variance).sum()))
    assert kind.rows is not None
    expected = times * kind.rows / n
    # Without replacement the counts of one run hinder each other more than those of a die.
    narrower = 1.0 if kind.replacement else (n - 1) / (n - kind.rows)
    return float(chdtrc(n - 1, narrower * ((observed - expected) ** 2 / expected).sum()))


def p_of_pairs(found: Runs, join: set[tuple[int, ...]], rows: int) -> float:
    """The same of pairs of results in one sample, by the normal limit of their mean square deviation."""
    counts = Counter(frozenset(p) for run in found for p in combinations(sorted(run), 2))
    n, times = len(join), len(found)
    share = rows * (rows - 1) / (n * (n - 1))
    pairs = [frozenset(p) for p in combinations(sorted(join), 2)]
    deviation = sum((counts[p] - times * share) ** 2 for p in pairs)
    mean = len(pairs) * times * share * (1 - share)
    # The spread of that sum, by drawing: sets of the right size, uniformly.
    random = np.random.default_rng(7)
    drawn = []
    index = np.triu_indices(n, 1)
    for _ in range(60):
        chosen = np.zeros((times, n))
        for run in chosen:
            run[random.choice(n, rows, replace=False)] = 1
        both = (chosen.T @ chosen)[index]
        drawn.append(((both - times * share) ** 2).sum())
    assert abs(np.mean(drawn) / mean - 1) < 0.1
    return float(ndtr((np.mean(drawn) - deviation) / np.std(drawn)))


def combined(ps: list[float]) -> float:
    """Fisher's p of several."""
    return float(chdtrc(2 * len(ps), -2 * sum(math.log(max(p, 1e-300)) for p in ps)))


def check(kinds: dict[SampleKind, tuple[Case, ...]], times: int) -> None:
    ps = {}
    for case in CASES:
        changes = sequence(case, 12)
        join = case.join(changes.database)
        for kind in (k for k, cases in kinds.items() if case in cases):
            found = runs(case, changes, kind, times)
            ps[case.name, str(kind)] = p_of_singles(found, join, kind)
            if kind == KINDS[0]:
                ps[case.name, "pairs"] = p_of_pairs(found, join, 12)
    assert min(ps.values()) > 1e-4, ps
    assert combined(list(ps.values())) > 1e-3, ps


def test_samples_are_uniform() -> None:
    check({KINDS[0]: CASES, KINDS[1]: (SELF, FILTERED), KINDS[2]: (SELF, BAND)}, times=20)


@pytest.mark.soak
def test_samples_are_uniform_in_many_runs() -> None:
    check(dict.fromkeys(KINDS, CASES), times=1500)


def late_skip(results: SampleResults) -> None:
    """The bias of §5.3: after a deletion the batch's results enter as if the join were as large as before."""
    sample, graph = results.maintained.sample, results.maintained.graph
    enter, most = sample.enter, [0]

    def biased(g, node, rows, weighed):  # type: ignore[no-untyped-def]
        now, most[0] = graph.size, max(most[0], graph.size)
        graph.size = most[0]
        try:
            return enter(g, node, rows, weighed)
        finally:
            graph.size = now

    sample.enter = biased  # type: ignore[method-assign]


def test_a_skip_from_before_a_deletion_is_caught() -> None:
    changes = sequence(SELF, 12)
    join, planned = SELF.join(changes.database), SELF.plan()
    ps = []
    for bias in (False, True):
        found = []
        for seed in range(60):
            results = keeper(planned, KINDS[1], seed)
            if bias:
                late_skip(results)
            for t, gone, new in changes.batches:  # type: ignore[attr-defined]
                results.change(t, SELF.arrow(t, gone), SELF.arrow(t, new))
            found.append(ids(results))
        ps.append(p_of_singles(found, join, KINDS[1]))
    assert ps[0] > 1e-3
    assert ps[1] < 1e-6


def test_after_a_join_shrinks_a_new_result_is_as_likely_as_the_old() -> None:
    """J from 200 to 3, one more, a sample of one: the new result is in it with probability 1/4, not 0.005."""
    planned = EQUALITY.plan()
    many = [{"id": n, "k": n % 2} for n in range(200)]
    batches = [
        ("b", [], [{"id": 1, "k": 0, "l": "x"}]),
        ("c", [], [{"id": 1, "l": "x"}, {"id": 2, "l": "x"}]),
        ("a", [], many),
        ("a", [r for r in many if r["id"] != 0], []),
        ("c", [], [{"id": 3, "l": "x"}]),
        ("c", [], [{"id": 4, "l": "x"}]),
    ]
    shaped = [(t, EQUALITY.arrow(t, gone), EQUALITY.arrow(t, new)) for t, gone, new in batches]
    hits = 0
    for seed in range(200):
        results = keeper(planned, SampleKind(rows=1), seed)
        for batch in shaped:
            results.change(*batch)
        assert results.maintained.size == 4
        hits += ids(results) == [(0, 1, 4)]
    assert 30 <= hits <= 72
