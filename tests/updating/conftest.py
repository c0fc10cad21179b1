"""The lake of three tables under an updatable view, for every test of updates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.updating.offline_lake import make


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of its own for each test."""
    return make(tmp_path)
