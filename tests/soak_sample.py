"""Which cases of a test run every time, and which only with --soak."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet


def sampled(cases: Iterable[str], every_run: Collection[str]) -> list[ParameterSet]:
    """All cases as parameters, those that need not run every time only with --soak."""
    return [pytest.param(c, marks=[] if c in every_run else pytest.mark.soak) for c in cases]
