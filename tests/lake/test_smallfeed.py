"""What Arrow tells about a small change before any of it runs."""

from __future__ import annotations

import datetime

import pyarrow as pa

from belvedere.lake.smallfeed import ranges_arrow


def test_integers_and_dates_have_ranges_where_they_have_values() -> None:
    day = datetime.date(2024, 2, 29)
    rows = pa.table({"n": [3, None, -1], "d": [day, day, None], "s": ["a", "b", "c"]})
    rows = rows.append_column("none", pa.array([None] * 3, pa.int64()))
    assert ranges_arrow(rows) == {"n": (-1, 3), "d": (day, day)}


def test_a_date_after_the_year_9999_has_no_range_and_does_no_harm() -> None:
    far = pa.array([0, 4_000_000], pa.int32()).cast(pa.date32())
    assert ranges_arrow(pa.table({"d": far, "n": [1, 2]})) == {"n": (1, 2)}
