"""A verdict is true: "yes" does exactly what was asked, "no" is said only where no base change does it.

Against brute force on views with self joins, keys and foreign keys among their own tables, columns
that they join on and do not show, and columns that they do not use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker
from belvedere.updating.translate.constraints import TableRules, check_condition
from belvedere.updating.translate.translator import Translation, search_translation
from tests.updating.brute_force import (
    Scene,
    deletion,
    insertion,
    random_scene,
    replacement,
    rows_to_insert,
)
from tests.updating.cases import Case, Row, Tables
from tests.updating.replacements import asked_of
from tests.updating.summary.kept import filter_of
from tests.updating.translate.test_constraints import asked as constrained
from tests.updating.translate.test_translator import Lists, applied, request, view_row
from tests.updating.typed import Typed

SEEDS = 120


@dataclass(frozen=True)
class Asked:
    """View rows to delete and to insert, and whether brute force makes it."""

    delete: Sequence[Row]
    insert: Sequence[Row]
    goal: set[Row]
    makeable: bool


@dataclass
class Verdicts:
    """How often each verdict was given, by whether brute force makes the request."""

    exact: Counter[tuple[str, bool]] = field(default_factory=Counter)
    fast: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def share(self, verdict: str, makeable: bool) -> float:
        """Of the requests that can be made, or cannot, the share with a verdict."""
        of = sum(n for (_, m), n in self.exact.items() if m == makeable)
        return self.exact[verdict, makeable] / of


def asked_for(scene: Scene, seed: int) -> Iterable[Asked]:
    """Requests of a scene that are small enough for brute force."""
    case = scene.case
    view = scene.view(case.tables)
    insert = rows_to_insert(scene, seed, view)
    if insert:
        goal = view | set(insert)
        found = insertion(scene, case.tables, insert, goal)
        if found is not None:
            yield Asked((), insert, goal, found)
    for row in sorted(view, key=str)[:1]:
        yield Asked((row,), (), view - {row}, deletion(scene, view - {row}))
    gone, new = asked_of(case, seed)
    if gone and new and len(new) == 1 and seed % 4 == 0:
        goal = (view - set(gone)) | set(new)
        found = replacement(scene, gone, new, goal)
        if found is not None:
            yield Asked(gone, new, goal, found)


def rules_of(scene: Scene) -> dict[str, TableRules]:
    case = scene.case
    return {
        t: TableRules(
            dict.fromkeys(columns, "int"),
            case.keys.get(t),
            scene.foreign.get(t, ()),
            {
                f"c{i}": check_condition(limit.text)
                for i, limit in enumerate(scene.limits.get(t, ()))
            },
        )
        for t, columns in case.columns.items()
    }


def checked(scene: Scene, asked: Asked, mode: CheckMode, *, paired: bool = False) -> UpdateCheck:
    case = scene.case
    checker = UpdateChecker(filter_of(case), rules_of(scene), Lists(case))
    delete, insert = ([view_row(case, r) for r in some] for some in (asked.delete, asked.insert))
    return checker.check(delete, insert, mode, {0: 0} if paired else None)


def does_what_was_asked(scene: Scene, asked: Asked, found: Translation) -> bool:
    """Whether base changes make the goal, keep the constraints, and neither add nor take away besides."""
    after: Tables = applied(scene.case, request(scene.case, [], []), found)
    if not asked.delete and any(found.changes.gone.values()):
        return False
    if not asked.insert and any(found.new.values()):
        return False
    new = ((t, tuple(r.values())) for t, rows in found.new.items() for r in rows)
    admitted = all(scene.admits(t, row) for t, row in new)
    return scene.view(after) == asked.goal and scene.holds(after) and admitted


def judge(scene: Scene, seed: int, verdicts: Verdicts) -> None:
    """Check that the verdicts on a scene's requests are true, and count them."""
    for asked in asked_for(scene, seed):
        told = f"seed {seed}: {scene}, -{asked.delete} +{asked.insert}"
        for mode in (CheckMode.EXACT, CheckMode.AUTO) if seed % 5 == 0 else (CheckMode.AUTO,):
            paired = seed % 8 == 0 and bool(asked.delete and asked.insert)
            found = checked(scene, asked, mode, paired=paired)
            verdicts.exact[found.possible, asked.makeable] += 1
            if found.possible == "yes":
                assert found.translation is not None
                assert does_what_was_asked(scene, asked, found.translation), f"{told}\n{found}"
            elif found.possible == "no":
                assert not asked.makeable, f"{told}\n{found}"
            else:
                assert found.reason, f"{told}\n{found}"
        if len(asked.insert) == 1 and not asked.delete:
            quick = checked(scene, asked, CheckMode.FAST)
            if quick.possible == "no" and quick.how == "rules of the tables":
                assert not asked.makeable, f"{told}\n{quick}"
            verdicts.fast[quick.possible, asked.makeable] += 1


BOSSES = Case(
    "SELECT s.mentor FROM boss b, staff s WHERE s.boss = b.id",
    {"boss": ("id", "level"), "staff": ("boss", "mentor")},
    {"boss": [], "staff": []},
    {"boss": ("id",)},
)
MENTOR = {"staff": {"foreign": (ForeignKey(("mentor",), "boss", ("id",)),)}}


@pytest.mark.parametrize("mode", [CheckMode.AUTO, CheckMode.EXACT])
def test_a_hidden_key_takes_the_value_that_another_column_refers_to(mode: CheckMode) -> None:
    """The boss that the row needs has a hidden key; only as 5 is it the mentor's parent as well."""
    found = constrained(BOSSES, (5,), mode, **MENTOR)
    assert found.possible == "yes"
    assert found.translation is not None
    assert found.translation.new == {
        "boss": [{"id": 5, "level": None}],
        "staff": [{"boss": 5, "mentor": 5}],
    }


def test_a_parent_that_only_a_row_outside_the_view_row_could_be_is_not_ruled_out() -> None:
    """Boss 5, whom no view row shows, would have to come besides."""
    shown = replace(BOSSES, query=f"SELECT b.id, {BOSSES.query.removeprefix('SELECT ')}")
    found = constrained(shown, (6, 5), **MENTOR)
    assert found.possible == "unknown"
    assert "would refer to no row of 'boss'" in found.reason


PAIR = Case("SELECT x.k, x.m, y.w FROM t x, t y WHERE y.m = x.k", {"t": ("k", "m", "w")}, {"t": []})


def test_a_foreign_key_between_columns_of_two_types_links_no_values() -> None:
    view = Typed(
        "SELECT s.mentor FROM boss b, staff s WHERE s.boss = b.id",
        {"boss": {"id": "int"}, "staff": {"boss": "int", "mentor": "string"}},
        {"boss": [(1,)], "staff": []},
        {"boss": ("id",)},
        MENTOR,
    )
    assert view.check(insert=[("5",)]).possible == "unknown"


@pytest.mark.parametrize("mode", [CheckMode.AUTO, CheckMode.EXACT])
def test_one_new_row_stands_at_both_places_of_a_self_join(mode: CheckMode) -> None:
    """Neither place uses all of it: k and m here, m and w there. Two rows would make a second view row."""
    found = constrained(PAIR, (1, 1, 8), mode)
    assert found.possible == "yes"
    assert found.translation is not None
    assert found.translation.new == {"t": [{"k": 1, "m": 1, "w": 8}]}
    apart = constrained(PAIR, (1, 2, 8), mode)
    assert apart.translation is not None
    assert [tuple(r.values()) for r in apart.translation.new["t"]] == [(1, 2, None), (None, 1, 8)]


def test_one_new_row_stands_at_places_of_several_view_rows() -> None:
    """The key of the one place is told by the first row, what else there is to tell by the second."""
    case = replace(PAIR, keys={"t": ("k",)})
    checker = UpdateChecker(filter_of(case), rules_of(Scene(case)), Lists(case))
    found = checker.check([], [view_row(case, r) for r in ((1, 2, 8), (2, 1, 9))])
    assert found.possible == "yes"
    assert found.translation is not None
    assert sorted(r["k"] for r in found.translation.new["t"]) == [1, 2]


def test_a_hidden_value_is_that_of_another_view_row_s_existing_one() -> None:
    """Both rows are of one row of a, and the first has to join the b that is there."""
    case = Case(
        "SELECT a.k, b.w FROM a, b WHERE a.x = b.x",
        {"a": ("k", "x"), "b": ("x", "w")},
        {"a": [], "b": [(7, 1)]},
        {"a": ("k",), "b": ("w",)},
    )
    checker = UpdateChecker(filter_of(case), rules_of(Scene(case)), Lists(case))
    found = checker.check([], [view_row(case, r) for r in ((5, 1), (5, 2))])
    assert found.possible == "yes"
    assert found.translation is not None
    assert found.translation.new == {"a": [{"k": 5, "x": 7}], "b": [{"x": 7, "w": 2}]}


def test_a_new_value_is_none_that_the_row_itself_tells() -> None:
    """As 3 the hidden value of the one place would be joined by the other."""
    case = Case("SELECT x.b, y.a FROM t x, t y WHERE y.b = x.a", {"t": ("a", "b")}, {"t": [(2, 2)]})
    assert constrained(case, (3, 1)).possible == "yes"


def test_a_new_hidden_join_value_has_an_estimate() -> None:
    """No row of the third table has the value, and no index of a join has the column alone."""
    case = Case(
        "SELECT c.m FROM a, b, c WHERE b.k = a.k AND c.k = b.k AND a.m = c.m",
        {"a": ("k", "m"), "b": ("k",), "c": ("k", "m")},
        {"a": [], "b": [], "c": [(1, None), (2, None)]},
    )
    for root in range(3):
        found = constrained(replace(case, root=root), (3,), CheckMode.FAST)
        assert (found.possible, found.how) == ("yes", "estimate")


def test_a_parent_may_go_where_another_row_has_its_values() -> None:
    case = Case(
        "SELECT o.k, o.v FROM o, i WHERE i.a = o.k",
        {"o": ("k", "v"), "i": ("a",)},
        {"o": [(1, 5), (1, 6)], "i": [(1,)]},
    )
    foreign = {"i": (ForeignKey(("a",), "o", ("k",)),)}
    found = search_translation(request(case, [(1, 5)], [], foreign))
    assert found.translation is not None
    assert list(found.translation.changes.gone) == ["o"]


def test_a_child_that_no_view_row_shows_is_left_alone_and_that_is_said() -> None:
    """Were the dangling line deleted as well, the order could go."""
    case = Case(
        "SELECT o.k, i.k AS line FROM o, i WHERE i.a = o.k AND i.b < 2",
        {"o": ("k",), "i": ("k", "a", "b"), "claim": ("line",)},
        {"o": [(1,)], "i": [(1, 1, 0), (2, 1, 5)], "claim": [(1,)]},
        {"o": ("k",), "i": ("k",)},
    )
    foreign = {
        "i": (ForeignKey(("a",), "o", ("k",)),),
        "claim": (ForeignKey(("line",), "i", ("k",)),),
    }
    found = search_translation(request(case, [(1, 1)], [], foreign))
    assert found.translation is None
    assert not found.exhausted
    assert "'i'" in found.left_out


def test_a_made_up_key_does_not_rule_out_others() -> None:
    """Of a key of two columns that nobody tells, a value of the first may be taken; of one with a
    CHECK, the first that is free may break it."""
    flags = Typed(
        "SELECT t.v FROM t",
        {"t": {"flag": "boolean", "n": "int", "v": "int"}},
        {"t": [(True, 1, 7), (False, 1, 7)]},
        {"t": ("flag", "n")},
    )
    assert flags.check(insert=[(8,)]).possible != "no"
    low = {"t": {"checks": {"low": check_condition("k < 5")}}}
    checked_keys = Typed(
        "SELECT t.v FROM t", {"t": {"k": "int", "v": "int"}}, {"t": [(4, 7)]}, {"t": ("k",)}, low
    )
    assert checked_keys.check(insert=[(8,)]).possible != "no"


def test_a_kept_value_that_breaks_a_check_does_not_rule_out_others() -> None:
    """What an update keeps of the row that it replaces could be something else."""
    case = Case("SELECT a.k, a.v FROM a", {"a": ("k", "v", "w")}, {"a": [(1, 2, 5)]}, {"a": ("k",)})
    rules = {
        "a": TableRules(
            dict.fromkeys("kvw", "int"), ("k",), (), {"c": check_condition("v < 3 OR w IN (7, 8)")}
        )
    }
    checker = UpdateChecker(filter_of(case), rules, Lists(case))
    old, new = view_row(case, (1, 2)), view_row(case, (1, 4))
    found = checker.check([old], [new], CheckMode.AUTO, {0: 0})
    assert (found.possible, "CHECK" in found.reason) == ("unknown", True)
    listed = {"a": replace(rules["a"], checks={"c": check_condition("w IN (7, 8)")})}
    found = UpdateChecker(filter_of(case), listed, Lists(case)).check(
        [old], [new], CheckMode.AUTO, {0: 0}
    )
    assert found.possible == "unknown"


def test_no_is_said_only_where_no_base_change_does_what_was_asked() -> None:
    verdicts = Verdicts()
    for seed in range(SEEDS):
        judge(random_scene(seed), seed, verdicts)
    assert verdicts.share("yes", True) > 0.9
    assert verdicts.share("no", False) > 0.5
