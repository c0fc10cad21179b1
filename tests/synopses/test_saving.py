"""A synopsis goes on from its arrays exactly where it was."""

from __future__ import annotations

import pytest

from belvedere.synopses import state as keeping
from belvedere.synopses.graph.plain_graph import PlainGraph
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.saving import from_arrays, to_arrays
from belvedere.synopses.state import SynopsisState
from tests.synopses.streams import CASES, EQUALITY, Case, Changes, applied, ids, keeper


def frozen(results: SampleResults) -> dict[str, object]:
    """Arrays as a file gives them: not to be written to."""
    arrays = {name: array.copy() for name, array in to_arrays(results.maintained).items()}
    for array in arrays.values():
        array.setflags(write=False)
    return arrays


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "kind",
    [SampleKind(rows=9), SampleKind(rows=9, replacement=True), SampleKind(rate=0.3)],
    ids=str,
)
def test_it_goes_on_as_if_never_saved(case: Case, kind: SampleKind) -> None:
    changes = Changes(case, seed=4, most=6)
    one = keeper(case.plan(), kind, seed=7)
    for _ in range(15):
        applied(one, case, changes.batch())
    other = SampleResults(
        from_arrays(SynopsisState(case.plan(), kind, seed=0), frozen(one)), seed=7
    )
    assert ids(one) == ids(other) or one.maintained.plan.sample_filters
    for _ in range(10):
        batch = changes.batch()
        applied(one, case, batch)
        applied(other, case, batch)
        assert one.maintained.size == other.maintained.size
        assert one.maintained.plan.sample_filters or ids(one) == ids(other)


def test_weights_beyond_64_bits_are_counted_again() -> None:
    changes = Changes(EQUALITY, seed=2)
    one = keeper(EQUALITY.plan(), SampleKind(rows=9), seed=7)
    for _ in range(10):
        applied(one, EQUALITY, changes.batch())
    one.maintained.recount()
    other = from_arrays(SynopsisState(EQUALITY.plan(), SampleKind(rows=9), seed=0), frozen(one))
    assert isinstance(other.graph, PlainGraph)
    assert other.size == one.maintained.size > 0


def test_vertices_without_rows_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "TIDY", 2)
    for case in CASES:
        changes = Changes(case, seed=6)
        results = keeper(case.plan(), SampleKind(rows=5000), seed=7)
        for _ in range(25):
            applied(results, case, changes.batch(deleting=0.6))
            assert sorted(ids(results)) == sorted(case.join(changes.database))


def test_room_to_grow_is_not_saved_and_is_there_again() -> None:
    one = keeper(EQUALITY.plan(), SampleKind(rows=9), seed=7)
    applied(one, EQUALITY, Changes(EQUALITY, seed=2).batch(deleting=0))
    held = one.maintained.graph.nodes[0].rows
    held.reserve(0, 1 << 20)
    arrays = frozen(one)
    assert len(arrays["graph/nodes/0/rows/vertex"]) <= 1 << 16
    other = from_arrays(SynopsisState(EQUALITY.plan(), SampleKind(rows=9), seed=0), arrays)
    again = other.graph.nodes[0].rows.vertex
    assert len(again) == len(held.vertex)
    assert (again == held.vertex).all()
