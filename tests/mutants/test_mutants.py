"""Every rule broken on purpose is noticed by a law that holds for the rule itself."""

from __future__ import annotations

import pytest

from tests.mutants import (
    chars,
    estimates,
    memory,
    recorded,
    rules,
    samples,
    sketches,
    updates,
    writes,
)
from tests.mutants.hunt import Hunt, Mutant

MUTANTS = [
    *rules.MUTANTS,
    *memory.MUTANTS,
    *chars.MUTANTS,
    *writes.MUTANTS,
    *samples.MUTANTS,
    *estimates.MUTANTS,
    *sketches.MUTANTS,
    *recorded.MUTANTS,
    *updates.MUTANTS,
]
# A search that stops at its first find may be given longer than one that must go to its end.
PATIENCE = 50
HUNTS = list(dict.fromkeys(m.hunt for m in MUTANTS))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_broken_rule_has_a_counterexample(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.breaks(monkeypatch)
    assert mutant.hunt.finds(most=PATIENCE * mutant.hunt.enough, start=mutant.start)


@pytest.mark.parametrize("hunt", HUNTS, ids=lambda h: h.name)
def test_the_same_search_finds_nothing_against_the_rules_as_they_are(hunt: Hunt) -> None:
    assert not hunt.finds()
