"""The baseline of the benchmark counts what the graph counts, one result after the other."""

from __future__ import annotations

from benchmarks.synopsis.symmetric_join import SymmetricJoin

from belvedere.synopses.sample.reservoir import SampleKind
from tests.synopses.streams import EQUALITY, Changes, applied, keeper


def test_enumerating_finds_as_many_results_as_the_weights_say() -> None:
    changes = Changes(EQUALITY, seed=5, most=8)
    one = SymmetricJoin(EQUALITY.plan(), 10)
    other = keeper(EQUALITY.plan(), SampleKind(rows=10), seed=1)
    for _ in range(30):
        table, gone, new = changes.batch(deleting=0)
        applied(other, EQUALITY, (table, gone, new))
        before = one.results
        for row in new:
            for number, place in one.load(table, EQUALITY.arrow(table, [row])).items():
                one.join(number, place)
        assert one.results == other.maintained.size >= before
    assert one.results > 100
