"""η pushed down keeps the rows of η applied last; no duplicates on a claimed key."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.algebra.relations import Field, Hash, JoinKind, Rel, Scan, Union
from belvedere.algebra.walks import tables
from tests.mutants.samples import KEYS, keyed
from tests.reference.interpreter import Bag, Database
from tests.reference.laws import (
    a_key_has_no_duplicates,
    cleaning_is_the_refresh_of_the_sample,
    fewer_columns_tell_as_many_rows_apart,
    sampling_keeps_the_rows,
)
from tests.reference.plans import TABLES, changes, databases, plans, restrictions, rooted, views


@given(
    st.one_of(
        plans(), rooted("pairs", JoinKind.LEFT), rooted("pairs", JoinKind.INNER), rooted("chain")
    ),
    databases(),
    st.data(),
)
def test_a_sample_pushed_down_has_the_rows_of_one_taken_last(
    q: Rel, db: Database, data: st.DataObject
) -> None:
    key, _ = data.draw(restrictions(q))
    by = Hash(data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.2, 0.5, 0.8, 1.0])))
    sampling_keeps_the_rows(q, db, key, by)


@given(
    st.one_of(
        plans(), rooted("pairs", JoinKind.LEFT), rooted("pairs", JoinKind.INNER), rooted("chain")
    ),
    st.data(),
)
def test_no_two_rows_agree_on_a_claimed_key(q: Rel, data: st.DataObject) -> None:
    db = keyed(data.draw(databases(tables(q), least=2)))
    a_key_has_no_duplicates(q, db, KEYS.get)


@given(st.one_of(rooted("pairs", JoinKind.LEFT), rooted("chain"), plans()), st.data())
def test_columns_that_determine_the_others_tell_as_many_rows_apart(
    q: Rel, data: st.DataObject
) -> None:
    db = keyed(data.draw(databases(tables(q), least=2)))
    fewer_columns_tell_as_many_rows_apart(q, db, q.columns, KEYS.get)


@given(changes(st.one_of(views(), plans(most_depth=3))), st.integers(0, 9))
def test_cleaning_a_sample_is_the_sampled_refresh_of_its_view(
    case: tuple[Rel, Database, set[str]], seed: int
) -> None:
    cleaning_is_the_refresh_of_the_sample(*case, Hash(seed, 0.5))


def test_the_law_of_keys_notices_a_key_that_is_none() -> None:
    a, b = (Scan("t", (Field(n, "x", "int"),)) for n in ("c1", "c2"))
    rows: Bag = Counter([(1,)])
    empty: Bag = Counter()
    db = Database(TABLES, {}, {"r": empty, "s": empty, "t": rows})
    both = Union((a, b), ("c3",))
    assert not a_key_has_no_duplicates(both, db, KEYS.get)
    with pytest.raises(AssertionError):
        a_key_has_no_duplicates(a, Database(TABLES, {}, {"t": rows + rows}), KEYS.get)
