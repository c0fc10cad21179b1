"""A verdict is true: "yes" does exactly what was asked, "no" is said only where no base change does it.

Against brute force on views with self joins, keys and foreign keys among their own tables, columns
that they join on and do not show, and columns that they do not use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from belvedere.updating.checks import Check, Checker, Mode
from belvedere.updating.constraints import TableRules
from belvedere.updating.search import Translation
from updating.brute_force import (
    Scene,
    deletion,
    insertion,
    random_scene,
    replacement,
    rows_to_insert,
)
from updating.cases import Row, Tables
from updating.kept import filter_of
from updating.replacements import asked_of
from updating.test_search import Lists, applied, request, view_row

SEEDS = 150


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


def checked(scene: Scene, asked: Asked, mode: Mode, *, paired: bool = False) -> Check:
    case = scene.case
    rules = {
        t: TableRules(dict.fromkeys(c, "int"), case.keys.get(t), scene.foreign.get(t, ()))
        for t, c in case.columns.items()
    }
    checker = Checker(filter_of(case), rules, Lists(case))
    delete, insert = ([view_row(case, r) for r in some] for some in (asked.delete, asked.insert))
    return checker.check(delete, insert, mode, {0: 0} if paired else None)


def does_what_was_asked(scene: Scene, asked: Asked, found: Translation) -> bool:
    """Whether base changes make the goal, keep the constraints, and neither add nor take away besides."""
    after: Tables = applied(scene.case, request(scene.case, [], []), found)
    if not asked.delete and any(found.changes.gone.values()):
        return False
    if not asked.insert and any(found.new.values()):
        return False
    return scene.view(after) == asked.goal and scene.holds(after)


def judge(seeds: Iterable[int]) -> Verdicts:
    """Check that every verdict is true, and count them."""
    verdicts = Verdicts()
    for seed in seeds:
        scene = random_scene(seed)
        for asked in asked_for(scene, seed):
            told = f"seed {seed}: {scene}, -{asked.delete} +{asked.insert}"
            for mode in (Mode.EXACT, Mode.AUTO) if seed % 5 == 0 else (Mode.AUTO,):
                paired = seed % 8 == 0 and bool(asked.delete and asked.insert)
                found = checked(scene, asked, mode, paired=paired)
                verdicts.exact[found.possible, asked.makeable] += 1
                if found.possible == "yes":
                    assert found.translation is not None
                    assert does_what_was_asked(scene, asked, found.translation), f"{told}\n{found}"
                elif found.possible == "no":
                    assert not asked.makeable, f"{told}\n{found}"
                else:
                    assert found.rows or found.reason, f"{told}\n{found}"
            if len(asked.insert) == 1 and not asked.delete:
                quick = checked(scene, asked, Mode.FAST)
                if quick.possible == "no" and quick.how == "rules of the tables":
                    assert not asked.makeable, f"{told}\n{quick}"
                verdicts.fast[quick.possible, asked.makeable] += 1
    return verdicts


def test_no_is_said_only_where_no_base_change_does_what_was_asked() -> None:
    verdicts = judge(range(SEEDS))
    assert verdicts.share("yes", True) > 0.9
    assert verdicts.share("no", False) > 0.5
