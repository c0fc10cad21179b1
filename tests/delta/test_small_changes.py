"""What Arrow tells about a small change before any of it runs."""

from __future__ import annotations

import datetime

import pyarrow as pa

from belvedere.delta.small_changes import spans_arrow


def test_integers_and_dates_have_spans_where_they_have_values() -> None:
    day = datetime.date(2024, 2, 29)
    rows = pa.table({"n": [3, None, -1], "d": [day, day, None], "s": ["a", "b", "c"]})
    rows = rows.append_column("none", pa.array([None] * 3, pa.int64()))
    assert spans_arrow(rows) == {"n": ((-1, -1), (3, 3)), "d": ((day, day),)}


def test_a_date_after_the_year_9999_has_no_span_and_does_no_harm() -> None:
    far = pa.array([0, 4_000_000], pa.int32()).cast(pa.date32())
    assert spans_arrow(pa.table({"d": far, "n": [1, 2]})) == {"n": ((1, 2),)}


def test_spans_part_at_the_widest_gaps() -> None:
    least, most = -(2**63), 2**63 - 1
    values = [most, 7, 5, least, 6, 1_000, 1_002]
    expected = ((least, least), (5, 7), (1_000, 1_002), (most, most))
    assert spans_arrow(pa.table({"n": pa.array(values, pa.int64())})) == {"n": expected}
