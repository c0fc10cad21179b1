"""An insertion checked by a summary in tables, after the rules of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.summary_check import check_by_summary
from belvedere.updating.summary.estimate import InsertionEstimate
from tests.updating import offline_lake


@pytest.mark.parametrize(
    ("changed", "possible"),
    [
        ({}, "there"),
        ({"item": "other"}, "no"),
        ({"line": 300, "customer": None}, "no"),
        ({"line": 300, "orders": 30}, "yes"),
    ],
)
def test_a_summary_in_tables_is_asked_only_of_what_the_tables_allow(
    lake: Path, changed: dict[str, Any], possible: str
) -> None:
    class Summary:
        def estimate(self, keys: Any, rows: Any) -> InsertionEstimate:
            return InsertionEstimate(1.0)

    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    shelf = OfflineLake(lake)
    held = offline_lake.fresh(shelf)
    if possible == "there":
        with pytest.raises(Invalid, match="already"):
            check_by_summary(shelf, held, Summary(), ViewRow(row))  # type: ignore[arg-type]
        return
    found = check_by_summary(shelf, held, Summary(), ViewRow({**row, **changed}))  # type: ignore[arg-type]
    assert found.possible == possible
    assert found.how == ("estimate" if possible == "yes" else "rules of the tables")
