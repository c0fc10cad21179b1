"""A Spark Connect session does what a classic one does, near its storage and far from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_the_core_cases_run_through_spark_connect(tmp_path: Path) -> None:
    script = Path(__file__).with_name("connect_script.py")
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "warehouse")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.stdout.endswith("done\n"), run.stdout + run.stderr[-4000:]
