"""The benchmark's data is what it says: fan-outs are a maximum, insertions of both kinds are found."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest
from benchmarks.updating.bibliography import COLUMNS, KEYS, QUERY, bibliography, view_rows
from benchmarks.updating.curves import as_defined, both
from benchmarks.updating.insertions import has_side_effects, labelled
from benchmarks.updating.projections import Projected
from benchmarks.updating.sampled_tpch import as_arrow, filter_over
from benchmarks.updating.synthetic_chains import Synthetic, chains


@pytest.mark.parametrize("fan_out", [1, 2, 4, 8])
def test_no_key_is_referred_to_more_often_than_the_fan_out(fan_out: int) -> None:
    rows = Synthetic(relations=3, size=3000, fan_out=fan_out).rows()
    for column in (1, 2):
        most = max(max(Counter(r[column] for r in some).values()) for some in rows.values())
        assert most == fan_out


def test_insertions_are_drawn_until_there_are_enough_of_both_kinds() -> None:
    db = Synthetic(relations=3, size=100)
    rows = db.rows()
    keys = dict.fromkeys(db.columns, ("pk",))
    made = filter_over(db.query(), db.columns, as_arrow(db.columns, rows), keys)
    sample, drawn = labelled(made, islice(chains(db, rows, Random(1)), 2_000), 10)
    assert Counter(real for _, real in sample) == {True: 10, False: 10}
    assert len(sample) <= drawn < 2_000
    assert all(has_side_effects(made, row) == real for row, real in sample)


def test_rows_of_a_projection_are_in_the_view_or_not() -> None:
    view = Projected(Synthetic(relations=4, size=100))
    there, new = (
        {tuple(r.values.items()) for r in rows} for rows in (view.there(30), view.new(30))
    )
    assert len(there) == len(new) == 30
    assert not there & new


def test_the_papers_classes_err_where_those_that_know_what_is_complete_do_not() -> None:
    whole, some = bibliography(1500, 0.5, 11)
    made = filter_over(QUERY, COLUMNS, as_arrow(COLUMNS, some), KEYS)
    made.choose_candidates(0.0)
    sample, _ = labelled(made, view_rows(whole), 60)
    assert both(made, sample) == [0.0, 0.0]
    assert as_defined(made, lambda: both(made, sample))[0] > 0.05
    assert both(made, sample) == [0.0, 0.0]
