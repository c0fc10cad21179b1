"""Roots chosen by insertions that are drawn from the tables, and told right by brute force."""

from __future__ import annotations

import pytest

from belvedere.updating.summary.insertion_sample import (
    InsertionSampler,
    SampledInsertion,
    choose_root_by_sample,
    has_side_effects,
)
from belvedere.updating.summary.roots import RootChoice
from tests.updating.cases import Case, random_case
from tests.updating.summary.kept import filter_of


def inserted(case: Case, made_rows: SampledInsertion) -> dict[str, list[tuple[int | None, ...]]]:
    """The tables with the drawn rows, a strange number for each value that no table has."""
    base, found = case.base(), {t: list(rows) for t, rows in case.tables.items()}
    for p, (row, number) in enumerate(zip(made_rows.rows, made_rows.numbers, strict=True)):
        if number is None:
            table = case.shape.positions[p].table
            held = base.held[table]
            values = [
                1000 - code if code < -1 else base.domains[table, c].value(code)
                for c, code in zip(held, row, strict=True)
            ]
            found[table].append(tuple(values))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_drawn_insertions_are_view_rows_and_their_side_effects_those_of_brute_force(
    seed: int,
) -> None:
    kinds = [{}, {"cyclic": True}, {"twice": True}]
    case = random_case(8000 + seed, positions=2 + seed % 3, rows=5, **kinds[seed % 3])  # type: ignore[arg-type]
    made = filter_of(case)
    if any(made.base.held[t] != case.columns[t] for t in case.columns):
        pytest.skip("rows of which not all is held are not told by brute force")
    for drawn in list(InsertionSampler(made, seed)._draws(30))[:5]:
        if len({(case.shape.positions[p].table, r) for p, r in enumerate(drawn.rows)}) < len(
            drawn.rows
        ):
            continue
        after = inserted(case, drawn)
        new = case.view(after) - case.view()
        assert len(new) >= 1
        assert has_side_effects(made.base, drawn) == (len(new) > 1)


def test_the_root_that_errs_least_on_the_sample_is_taken() -> None:
    case = random_case(66, positions=4, rows=40, values=10, keyed=True)
    made = filter_of(case, 0.0)
    chosen, choice = choose_root_by_sample(made, 0.0, 0)
    assert choice is not None
    assert set(choice.errors) == {0, 1, 2, 3}
    assert choice.error == min(choice.errors.values()) == choice.errors[chosen.base.tree.root]
    assert max(choice.errors.values()) > choice.error
    assert choice.sample >= 400
    assert choice.bound == pytest.approx(2 / choice.sample**0.5)
    again = [made.with_root(p, 0.0) for p in range(4)]
    sample = InsertionSampler(made).sample(1600)
    wrong = [sum(m.estimate(s).declares() != real for s, real in sample) for m in again]
    assert wrong[chosen.base.tree.root] == min(wrong) < max(wrong)


@pytest.mark.parametrize(
    ("errors", "settled"),
    [
        ({0: 0.1, 1: 0.1, 2: 0.1}, True),
        ({0: 0.1, 1: 0.1, 2: 0.15}, False),
        ({0: 0.1, 1: 0.2, 2: 0.25}, True),
        ({0: 0.0, 1: 0.0, 2: 0.05}, True),
    ],
)
def test_more_insertions_are_drawn_where_they_may_change_the_choice(
    errors: dict[int, float], settled: bool
) -> None:
    assert RootChoice(0, errors[0], 0.1, errors, 400).is_settled == settled


def test_without_dangling_rows_there_is_nothing_to_try_roots_on() -> None:
    case = Case(
        "SELECT r.a FROM r, s WHERE r.a = s.a",
        {"r": ("a",), "s": ("a",)},
        {"r": [(1,)], "s": [(1,)]},
    )
    made = filter_of(case)
    assert choose_root_by_sample(made, 0.1, 0) == (made, None)
