"""The law of maintenance: after any base changes a filter is the one built anew on the tables then."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from belvedere.updating.summary import classes, database_graph
from belvedere.updating.summary.incremental import graph_changes
from tests.updating.cases import Case, random_case
from tests.updating.summary.kept import anew, described, filter_of, owners, random_batch

KINDS: list[dict[str, Any]] = [{}, {"project": True}, {"twice": True}, {"cyclic": True}]


def differs(seed: int, *, rows: int, values: int, batches: int) -> bool:
    """Whether a random filter after random changes differs anywhere from the one built anew."""
    case = random_case(
        3000 + seed, positions=1 + seed // 4 % 5, rows=rows, values=values, **KINDS[seed % 4]
    )
    made, dice = filter_of(case), random.Random(seed)
    own, now = owners(made), {t: list(some) for t, some in case.tables.items()}
    for _ in range(batches):
        made.advance(*random_batch(case, now, dice, values + 2))
        if described(made, own) != described(anew(case, now, own), own):
            return True
    return False


@pytest.mark.parametrize("seed", range(32))
def test_a_filter_kept_current_is_the_one_built_anew(seed: int) -> None:
    assert not differs(seed, rows=6, values=3, batches=3)


@pytest.mark.parametrize("seed", range(100, 108))
def test_cardinalities_that_stop_at_the_greatest_go_down_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (database_graph, graph_changes, classes):
        monkeypatch.setattr(module, "MOST_JOINS", 4.0)
    assert not differs(seed, rows=9, values=2, batches=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_a_filter_kept_current_for_long_is_the_one_built_anew(seed: int) -> None:
    assert not differs(seed, rows=30, values=12, batches=12)


@pytest.mark.parametrize("what", ["_hear", "_extended", "_summed", "_complete"])
def test_the_law_notices_changes_that_are_not_spread(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    monkeypatch.setattr(graph_changes._GraphUpdate, what, lambda *args: nothing)
    assert any(differs(seed, rows=6, values=3, batches=2) for seed in range(40))


def test_classes_that_became_empty_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(3006, positions=3, rows=12)
    made, dice, most = filter_of(case), random.Random(1), 0
    monkeypatch.setattr(classes, "FEW_CLASSES", 2)
    own, now = owners(made), {t: list(some) for t, some in case.tables.items()}
    for _ in range(60):
        made.advance(*random_batch(case, now, dice, 5))
        most = max(most, sum(len(s) for s in made.summary.sizes))
    assert most < 150
    assert described(made, own) == described(anew(case, now, own), own)


def test_a_row_whose_selection_changes_leaves_and_enters_the_view() -> None:
    """The column that is selected by is not held: the key stands for it."""
    case = Case(
        "SELECT r.k, s.k AS other FROM r, s WHERE r.j = s.k AND r.a < 3",
        {"r": ("k", "j", "a"), "s": ("k",)},
        {"r": [(1, 7, 2)], "s": [(7,)]},
        {"r": ("k",), "s": ("k",)},
    )
    made = filter_of(case)
    assert made.base.held["r"] == ("k", "j")
    for old, new, whole in (((1, 7, 2), (1, 7, 5), 0), ((1, 7, 5), (1, 7, 0), 1)):
        made.advance({"r": case.arrow({"r": [new, old]})["r"]}, {"r": [1, -1]})
        assert int(made.graph.whole[0].sum()) == whole
