"""Compiled loops do what their plain twins say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.kernels.grouping import add, place, touch
from belvedere.kernels.hashes.bloom import add_words, may_have
from belvedere.kernels.least import hold
from belvedere.sketches.engine.bloom_filters import (
    Bloom,
    drop_unmatched,
    filtered_joins,
    update_filters,
)
from belvedere.sketches.engine.occurrences import Occurrences
from belvedere.sql.binder.bind import Relation, bind
from tests.sketches.engine.plain_kernels import (
    PlainBuffer,
    PlainFilter,
    add_plainly,
    occurs_plainly,
    place_plainly,
    touch_plainly,
)

often = settings(max_examples=35)
word = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**40, 2**63 - 1])
small = st.integers(0, 3)


@often
@given(st.lists(st.tuples(word, word), min_size=1, max_size=20))
def test_rows_are_numbered_by_key_in_the_order_they_come(batch: list[tuple[int, int]]) -> None:
    slots, keys = np.full(64, -1, dtype=np.int32), np.zeros((32, 2), dtype=np.int64)
    out = np.empty(len(batch), dtype=np.int64)
    known, done = place(slots, keys, 0, np.array(batch, dtype=np.int64), 0, out)
    wanted: list[tuple[int, ...]] = []
    assert out.tolist() == place_plainly(wanted, batch)
    assert [tuple(k) for k in keys[:known].tolist()] == wanted
    assert done == len(batch)


def test_numbering_stops_where_there_is_no_room() -> None:
    slots, keys = np.full(8, -1, dtype=np.int32), np.zeros((1, 1), dtype=np.int64)
    batch, out = np.array([[5], [5], [6]]), np.zeros(3, dtype=np.int64)
    assert place(slots, keys, 0, batch, 0, out) == (1, 2)


@often
@given(st.lists(small, max_size=9))
def test_each_group_is_touched_once(groups: list[int]) -> None:
    out = np.empty(len(groups), dtype=np.int64)
    found = touch(np.array(groups, dtype=np.int64), np.full(4, -1, dtype=np.int32), 0, out)
    assert out[:found].tolist() == touch_plainly(groups)


@often
@given(st.lists(st.tuples(small, word), max_size=9))
def test_sums_are_exact_or_refused(rows: list[tuple[int, int]]) -> None:
    groups, amounts = ([r[i] for r in rows] for i in (0, 1))
    totals, wanted = np.zeros(4, dtype=np.int64), [0] * 4
    fits = add(np.array(groups, dtype=np.int64), np.array(amounts, dtype=np.int64), totals)
    assert fits == add_plainly(groups, amounts, wanted)
    assert totals.tolist() == wanted


_rows = st.lists(st.tuples(small, st.integers(-1, 4), st.sampled_from([1, 1, 2])), max_size=12)


@often
@given(st.lists(st.tuples(_rows, st.lists(st.booleans(), min_size=4, max_size=4)), max_size=5))
def test_fragments_occur_in_as_many_shown_groups_as_they_do(
    batches: list[tuple[list[tuple[int, int, int]], list[bool]]],
) -> None:
    kept = Occurrences(5)
    history: list[tuple[int, int, int]] = []
    was = np.zeros(4, dtype=np.bool_)
    for rows, flags in batches:
        # Every second batch takes away what came before it.
        rows = rows if len(history) % 2 == 0 else [(g, f, -n) for g, f, n in history]
        columns = (np.array([r[i] for r in rows], dtype=np.int64) for i in (0, 1, 2))
        kept.count(*columns, 4)
        shown = np.array(flags)
        assert kept.show(was, shown, np.flatnonzero(was != shown))
        history += rows
        was = shown
        assert kept.occurs.tolist() == occurs_plainly(history, flags, 5)


@often
@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 1, 2, -1]))))
def test_a_buffer_holds_what_its_twin_holds(room: int, steps: list[tuple[int, int]]) -> None:
    values, counts = (np.zeros((1, room), dtype=np.int64) for _ in range(2))
    sizes, bounds = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64)
    complete, twin = np.ones(1, dtype=np.bool_), PlainBuffer(room)
    for value, amount in steps:
        one = (np.array([v], dtype=np.int64) for v in (0, value, amount))
        sound = hold(*one, values, counts, sizes, complete, bounds)
        assert sound == twin.hold(value, amount)
        if not sound:
            return
        held = dict(zip(values[0, : sizes[0]].tolist(), counts[0].tolist(), strict=False))
        assert held == twin.counts
        assert bool(complete[0]) == twin.complete
        assert twin.complete or bounds[0] == twin.bound
        assert twin.least == (values[0, 0] if sizes[0] else None)


@often
@given(st.lists(word, max_size=20), st.lists(word, max_size=20))
def test_a_filter_lets_pass_whatever_was_added(added: list[int], asked: list[int]) -> None:
    bits, twin = np.zeros(16, dtype=np.uint64), PlainFilter()
    twin.add(added)
    add_words(bits, np.array(added, dtype=np.int64))
    out = np.zeros(len(asked) + len(added), dtype=np.bool_)
    may_have(bits, np.array([*asked, *added], dtype=np.int64), out)
    assert all(found or not twin.has(w) for w, found in zip([*asked, *added], out, strict=True))


def test_a_filter_holds_back_most_of_what_was_not_added() -> None:
    bloom = Bloom.of(pa.array(range(0, 20_000, 2)))
    passing = bloom.passing(pa.array(range(1, 20_000, 2)))
    assert sum(passing.to_pylist()) < 200
    assert all(bloom.passing(pa.array(range(0, 20_000, 2))).to_pylist())
    assert bloom.passing(pa.array([None], pa.int64())).to_pylist() == [False]
    assert not bloom.worn


def test_a_filter_is_worn_by_new_values_and_what_goes_not_by_more_of_the_same() -> None:
    few = Bloom.of(pa.array(range(50)))
    few.apply(pa.array([*range(50)] * 40), pa.array([1, -1] * 1000))
    assert (few.keys, few.worn) == (50, False)
    few.apply(pa.array(range(50, 500)), pa.array([1] * 450))
    assert few.worn
    many = Bloom.of(pa.array(range(300_000)))
    many.apply(pa.array(range(100_001)), pa.array([-1] * 100_001))
    assert not many.worn
    many.apply(pa.array(range(60_000)), pa.array([-1] * 60_000))
    assert many.worn


def test_a_filter_whose_table_changed_unseen_is_worn() -> None:
    class Two:
        def resolve(self, name: str) -> Relation:
            return Relation((("k", "int"), ("v", "int")), table=name)

    plan = bind("SELECT r.v FROM r JOIN s ON r.k = s.k", Two()).plan
    change = {
        "r": pa.table({"k": pa.array([3, 70], pa.int32()), "v": pa.array([1, 2], pa.int32())})
    }
    blooms = {("s", "k"): Bloom.of(pa.array(range(50), pa.int32()))}
    assert drop_unmatched(plan, change, blooms)["r"]["k"].to_pylist() == [3]
    update_filters(blooms, change, ["r", "s"])
    assert blooms["s", "k"].worn
    assert drop_unmatched(plan, change, blooms)["r"]["k"].to_pylist() == [3, 70]


def test_filters_apply_to_every_equality_of_columns_of_one_type_whichever_clause_has_it() -> None:
    class Three:
        def resolve(self, name: str) -> Relation:
            kind = "bigint" if name == "u" else "int"
            return Relation((("k", kind), ("v", "int")), table=name)

    def joins(text: str) -> list[tuple[str, str, str, str]]:
        found = filtered_joins(bind(text, Three()).plan)
        return [(j.table, j.column, j.other, j.key) for j in found]

    both = [("r", "k", "s", "k"), ("s", "k", "r", "k")]
    assert joins("SELECT r.v FROM r JOIN s ON r.k = s.k") == both
    assert joins("SELECT r.v FROM r, s WHERE r.k = s.k AND r.v < s.v") == both
    assert joins("SELECT r.v FROM r JOIN u ON r.k = u.k") == []
    assert joins("SELECT r.v FROM r JOIN r AS t ON r.k = t.v") == []
    twice = "SELECT r.v FROM r JOIN r AS t ON r.v = t.v JOIN s ON s.k = t.k"
    assert joins(twice) == [("s", "k", "r", "k")]
