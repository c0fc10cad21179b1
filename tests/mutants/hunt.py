"""A bounded, repeatable search for a counterexample to a law, aimed at the operators that matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

Patch = pytest.MonkeyPatch
Case = tuple[Any, ...]

# What a broken rule shows as: other rows, negative rows where none may be, a refusal to write.
# Anything else, an AttributeError say, would be a broken mutant.
CAUGHT = (AssertionError, ValueError, duckdb.InvalidInputException)


@dataclass(frozen=True)
class Hunt:
    """A law, the cases it is tried on, and how many show that it holds."""

    name: str
    law: Callable[..., None]
    cases: st.SearchStrategy[Case]
    enough: int = 8

    def finds(self, most: int | None = None, start: int = 0) -> str:
        """What the first counterexample raised; empty if there is none among so many cases."""

        @seed(start)
        @settings(
            max_examples=most or self.enough,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(self.cases)
        def search(case: Case) -> None:
            self.law(*case)

        try:
            search()
        except CAUGHT as found:
            return type(found).__name__
        return ""


@dataclass(frozen=True)
class Mutant:
    """A rule broken on purpose, and the hunt that must notice."""

    name: str
    breaks: Callable[[Patch], None]
    hunt: Hunt
    start: int
    """Where the search begins; some find in a second what others find in ten."""


class Mutants(list[Mutant]):
    """A list that mutants enter by decoration."""

    def caught_by(self, hunt: Hunt, start: int = 0) -> Callable[[Callable[[Patch], None]], None]:
        def enter(breaks: Callable[[Patch], None]) -> None:
            self.append(Mutant(breaks.__name__, breaks, hunt, start))

        return enter
