"""The example trains what was put into its data, and follows changes."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_on_a_join.py"


def test_a_model_is_trained_on_a_join_of_billions_of_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    told = capsys.readouterr().out
    sizes = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) pairs", told)]
    years = [float(n) for n in re.findall(r"worth ([\d.]+) stars", told)]
    assert all(size > 4_000_000_000 for size in sizes)
    assert years == [pytest.approx(0.02, abs=0.001), pytest.approx(0.03, abs=0.0015)]
