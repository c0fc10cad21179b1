"""Verdicts on updates through views, and the settling of killed ones, broken."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.lake.writes import row_replacement
from belvedere.updating.apply.base_changes import UpdateApplier
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.side_effects.checks import CheckMode
from belvedere.updating.summary.domains import NormalValue
from belvedere.updating.translate import (
    base_rows,
    choice_model,
    fresh_values,
    options,
    translator,
)
from belvedere.updating.translate.new_rows import NewBaseRow
from tests.mutants.hunt import Hunt, Mutants, Patch
from tests.updating import offline_lake
from tests.updating.apply.kill_script import OLD, ROW
from tests.updating.brute_force import Scene, with_other_rows
from tests.updating.cases import Case
from tests.updating.side_effects.test_verdicts import Verdicts, asked_for, checked, judge

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by

MENTORS = Scene(
    Case(
        "SELECT s.mentor FROM boss b, staff s WHERE s.boss = b.id",
        {"boss": ("id", "level"), "staff": ("boss", "mentor")},
        {},
        {"boss": ("id",)},
    ),
    {"staff": (ForeignKey(("mentor",), "boss", ("id",)),)},
)
BOSSES = Scene(
    Case(
        "SELECT b.id, s.mentor FROM boss b, staff s WHERE s.boss = b.id",
        MENTORS.case.columns,
        {},
        MENTORS.case.keys,
    ),
    MENTORS.foreign,
)
PAIRS = Scene(
    Case("SELECT x.k, x.m, y.w FROM t x, t y WHERE y.m = x.k", {"t": ("k", "m", "w")}, {"t": []})
)
NEXT = Scene(Case("SELECT x.b, y.a FROM t x, t y WHERE y.b = x.a", {"t": ("a", "b")}, {}))
SHARED = Scene(
    Case(
        "SELECT a.k, b.w FROM a, b WHERE a.x = b.x",
        {"a": ("k", "x"), "b": ("x", "w")},
        {},
        {"a": ("k",), "b": ("w",)},
    )
)
STEPS = Scene(Case("SELECT x.a, y.b FROM t x, t y WHERE y.a = x.c", {"t": ("a", "b", "c")}, {}))


def _verdicts(name: str, scene: Scene) -> Hunt:
    def law(seed: int) -> None:
        judge(with_other_rows(scene, seed), seed, Verdicts())

    return Hunt(f"verdicts on {name}", law, st.tuples(st.integers(0, 10_000)))


def _found(name: str, scene: Scene, rows: Callable[[Scene, int], Scene]) -> Hunt:
    """Of these views it is always known: what brute force makes is made."""

    def law(seed: int) -> None:
        at = rows(scene, seed)
        for asked in asked_for(at, seed):
            if asked.makeable and len(asked.insert) == 1 and not asked.delete:
                assert checked(at, asked, CheckMode.AUTO).possible == "yes"

    return Hunt(f"insertions through {name}", law, st.tuples(st.integers(0, 10_000)))


def _is_read_once_settled() -> None:
    """Killed between commits, an update is finished, and the view reads it at once."""
    commit, calls = row_replacement.by_delta_rs, [0]

    def killed(*args: object) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        commit(*args)  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as name:
        lake = offline_lake.make(Path(name))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_replacement, "by_delta_rs", killed)
            with pytest.raises(KeyboardInterrupt):
                offline_lake.update(lake, update=(OLD, ROW))
        UpdatableViews(OfflineLake(lake)).explain("contacts")
        assert offline_lake.view_at_its_vector(lake) == offline_lake.view(lake)


settled = Hunt("settled updates", _is_read_once_settled, st.just(()), enough=1)
mentors = _found("hidden keys that own foreign keys refer to", MENTORS, with_other_rows)
bosses = _verdicts("foreign keys among a view's tables", BOSSES)
pairs = _found("self joins of which neither place tells all", PAIRS, lambda scene, _: scene)
nexts = _found("self joins by a hidden column", NEXT, with_other_rows)
shared = _verdicts("view rows with a hidden value in common", SHARED)
steps = _verdicts("self joins that show what another place leaves out", STEPS)


@caught_by(mentors, start=4)
def a_hidden_value_never_has_to_equal_a_told_one(patch: Patch) -> None:
    patch.setattr(options.ValueLinks, "shown_values_linked_to", lambda *_: [])


@caught_by(bosses)
def no_parent_could_be_put_in_besides(patch: Patch) -> None:
    def told(_: object, put: NewBaseRow, key: ForeignKey) -> bool:
        return put.values.keys() >= set(key.columns)

    patch.setattr(base_rows, "_has_no_other_parent", told)


@caught_by(pairs)
def each_place_of_a_self_join_has_a_row_of_its_own(patch: Patch) -> None:
    patch.setattr(choice_model.ChoiceModel, "_add_pairs", lambda model: model._allow_one_target())


@caught_by(nexts)
def a_new_value_may_be_one_that_is_asked_for(patch: Patch) -> None:
    def free(self: fresh_values.FreshValues, value: NormalValue) -> bool:
        return fresh_values.is_free(self.domain, value)

    patch.setattr(fresh_values.FreshValues, "is_free", free)


@caught_by(shared)
def each_view_row_has_hidden_values_of_its_own(patch: Patch) -> None:
    patch.setattr(options, "_share_candidates", lambda *_: None)


@caught_by(steps)
def what_another_place_shows_of_a_row_is_of_no_matter(patch: Patch) -> None:
    patch.setattr(translator._TranslationSearch, "_note_unseen", lambda *_: None)


@caught_by(settled)
def a_settled_update_leaves_the_vector_where_it_is(patch: Patch) -> None:
    right = UpdateApplier.settle

    def settle(self: UpdateApplier, view: str, move: Callable[[], object]) -> bool:
        return right(self, view, lambda: None)

    patch.setattr(UpdateApplier, "settle", settle)
