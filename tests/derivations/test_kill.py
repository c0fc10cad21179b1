"""A refresh killed together with its Spark; kills of clients alone are among the Connect cases."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import belvedere as bv
from tests.derivations.kill_cases import fill, random_kills, run_kills

pytestmark = pytest.mark.spark

KILLS = max(1, int(os.environ.get("BELVEDERE_KILLS", "0")) // 20)


def test_a_killed_refresh_leaves_rows_and_vector_together(tmp_path: Path) -> None:
    directory = tmp_path / "lake"
    with bv.connect(directory) as lake:
        fill(lake)
        run_kills(lake, str(directory), random_kills(KILLS, longest=8.0))
