"""How many files a reader passes who follows a refresh."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.derivations.refresh_without_spark import LakeOfVisits
from tests.trace import PURE, traced

MOST_FILES = 50
"""Files outside the pure packages; the target is 30."""


def test_a_refresh_of_a_join_passes_few_files(tmp_path: Path) -> None:
    """The second refresh: the view's definition is compiled."""
    lake = LakeOfVisits(tmp_path)
    for _ in range(2):
        lake.tables.change()
        with traced() as trace:
            done = lake.refresh()
        assert (done.strategy, done.reason) == ("merge", "")
        assert lake.rows() == lake.recomputed()
    some = trace.files_outside_pure
    counted = f"{len(trace.files)} files, {len(some)} of them outside {', '.join(PURE)}"
    sys.stdout.write("\n".join([counted, *some, ""]))
    assert len(some) <= MOST_FILES, str(trace)
