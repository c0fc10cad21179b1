"""Random views with what makes a verdict hard, and every base change that could make a request.

Self joins, keys and foreign keys among the view's own tables and to a table outside, CHECKs, hidden
join columns, columns that the view does not use, one or two rows at once. The definition of a
verdict is spelled out here:

    insertion    some base rows come: existing and new rows stand at the positions of each asked
                 row, and further new rows may be the parents of new ones
    deletion     some base rows go, whichever
    replacement  rows behind the deleted view rows go, and rows come as for an insertion

An insertion needs no more rows than these: of rows that make exactly what is asked, those that
stand in one embedding of each asked row, with their parents, make it too, as fewer rows show less.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product

from belvedere.lake.tables.declared_keys import ForeignKey
from tests.updating.cases import COLUMNS, Case, Row, Tables
from tests.updating.replacements import Foreign, keys_hold, may_go, parents_stay

FRESH = (90, 91)
"""Values that no row has and no request names."""
MOST = 2_000
"""Ways to make the asked rows that are gone through; a request with more is left out."""

New = frozenset[tuple[str, Row]]


OUTSIDE = "o"
"""A table that the view does not read."""

Holds = Callable[[Mapping[str, int | None]], bool]


@dataclass(frozen=True)
class Limit:
    """A CHECK, and what it says of a row."""

    text: str
    holds: Holds = field(repr=False)


@dataclass(frozen=True)
class Scene:
    """A view with its tables, and the foreign keys and CHECKs of them."""

    case: Case
    foreign: Foreign = field(default_factory=dict)
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)

    def holds(self, tables: Tables) -> bool:
        """Whether keys, foreign keys and CHECKs hold once the tables are as given."""
        return keys_hold(self.case, tables) and parents_stay(self.case, tables, self.foreign)

    def admits(self, table: str, row: Row) -> bool:
        """Whether a new row meets the CHECKs of its table."""
        at = dict(zip(self.case.columns[table], row, strict=True))
        return all(limit.holds(at) for limit in self.limits.get(table, ()))

    @property
    def own(self) -> dict[str, list[Row]]:
        """The rows of the tables that the view reads."""
        return {t: rows for t, rows in self.case.tables.items() if t in self.case.shape.tables}

    def view(self, tables: Tables) -> set[Row]:
        """The view's rows: every choice of a row for each position, cut off as soon as one does not fit."""
        shape = self.case.shape
        at = [self.case.columns[p.table].index for p in shape.positions]
        equal: list[list[tuple[int, int, int]]] = [[] for _ in at]
        for members in shape.classes:
            (p, c), *others = members
            for q, d in others:
                equal[q].append((at[q](d), p, at[p](c)))
        usable = [self._usable(tables, p) for p in range(len(at))]
        shown = [(p, at[p](c)) for _, (p, c) in shape.column_outputs]
        found: set[Row] = set()

        def extend(chosen: tuple[Row, ...]) -> None:
            p = len(chosen)
            if p == len(at):
                found.add(tuple(chosen[q][c] for q, c in shown))
                return
            for row in usable[p]:
                full = (*chosen, row)
                if all(row[c] == full[q][d] for c, q, d in equal[p]):
                    extend(full)

        extend(())
        return found

    def _usable(self, tables: Tables, p: int) -> list[Row]:
        """Rows that can stand at a position: selected, and not NULL in what is joined."""
        table, shape = self.case.shape.positions[p].table, self.case.shape
        joined = [i for i, c in enumerate(self.case.columns[table]) if (p, c) in shape.class_of]
        return [
            r
            for r in dict.fromkeys(tables[table])
            if all(r[i] is not None for i in joined) and self.selected(p, r)
        ]

    def selected(self, p: int, row: Row) -> bool:
        """Whether a row meets a position's selection."""
        names = self.case.columns[self.case.shape.positions[p].table]
        return self.case.selected(p, dict(zip(names, row, strict=True)))


def random_scene(seed: int) -> Scene:
    """Two or three positions; tables listed twice, keys, foreign keys and hidden columns by chance."""
    dice = random.Random(seed)
    positions = dice.choice([2, 2, 2, 3])
    names = [f"t{i}" for i in range(positions)]
    if dice.random() < 0.55:
        names[-1] = names[0]
    columns = {n: COLUMNS[: dice.choice([1, 2, 2, 3])] for n in names}
    if names[-1] == names[0]:
        columns[names[0]] = COLUMNS[: dice.choice([2, 3, 3])]
    keys = {n: (COLUMNS[0],) for n in columns if dice.random() < 0.5}
    joins = []
    for i in range(1, positions):
        j = dice.randrange(i)
        for _ in range(dice.choice([1, 1, 1, 2])):
            joins.append(
                f"x{i}.{dice.choice(columns[names[i]])} = x{j}.{dice.choice(columns[names[j]])}"
            )
    if dice.random() < 0.15:
        joins.append(f"x0.{dice.choice(columns[names[0]])} < 2")
    every = [(i, c) for i, n in enumerate(names) for c in columns[n]]
    share = dice.choice([0.3, 0.5, 0.7])
    shown = [pair for pair in every if dice.random() < share] or every[:1]
    query = (
        f"SELECT {', '.join(f'x{i}.{c} AS x{i}_{c}' for i, c in shown)}"
        f" FROM {', '.join(f'{n} AS x{i}' for i, n in enumerate(names))}"
        f" WHERE {' AND '.join(joins)}"
    )
    tables = {n: _rows(dice, c, n in keys) for n, c in columns.items()}
    foreign = _foreign(dice, columns)
    if dice.random() < 0.2:
        columns[OUTSIDE], tables[OUTSIDE] = ("a", "b"), _rows(dice, ("a", "b"), keyed=False)
        child, parent = dice.choice([(names[0], OUTSIDE), (OUTSIDE, names[0])])
        size = dice.choice([1, 2]) if len(columns[names[0]]) > 1 else 1
        key = ForeignKey(columns[child][:size], parent, columns[parent][-size:])
        foreign[child] = (*foreign.get(child, ()), key)
    limits = {n: _limits(dice, columns[n]) for n in dict.fromkeys(names) if dice.random() < 0.2}
    case = Case(query, columns, tables, keys, dice.randrange(positions))
    return Scene(case, foreign, limits)


def _limits(dice: random.Random, columns: Sequence[str]) -> tuple[Limit, ...]:
    c, d = dice.choice(columns), dice.choice(columns)
    three = dice.choice([2, 3])
    return (
        dice.choice(
            [
                Limit(f"{c} < {three}", lambda r: r[c] is None or r[c] < three),  # type: ignore[operator]
                Limit(f"{c} > {three}", lambda r: r[c] is None or r[c] > three),  # type: ignore[operator]
                Limit(f"{c} IN (1, 4)", lambda r: r[c] in (1, 4, None)),
                Limit(f"{c} IS NOT NULL", lambda r: r[c] is not None),
                Limit(f"{c} <> {d}", lambda r: None in (r[c], r[d]) or r[c] != r[d]),
                Limit(f"{c} = {d}", lambda r: None in (r[c], r[d]) or r[c] == r[d]),
                Limit(
                    f"{c} > 2 OR {d} IS NULL",
                    lambda r: r[d] is None or r[c] is None or r[c] > 2,  # type: ignore[operator]
                ),
            ]
        ),
    )


def with_other_rows(scene: Scene, seed: int) -> Scene:
    """The same view over random rows."""
    dice, case = random.Random(seed), scene.case
    tables = {t: _rows(dice, columns, t in case.keys) for t, columns in case.columns.items()}
    return replace(scene, case=replace(case, tables=tables))


def _rows(dice: random.Random, columns: Sequence[str], keyed: bool) -> list[Row]:
    drawn = [
        tuple(None if dice.random() < 0.1 else dice.randrange(3) for _ in columns)
        for _ in range(dice.choice([0, 1, 1, 2, 3]))
    ]
    if keyed:
        return list({r[0]: r for r in drawn if r[0] is not None}.values())
    return list(dict.fromkeys(drawn))


def _foreign(
    dice: random.Random, columns: Mapping[str, Sequence[str]]
) -> dict[str, tuple[ForeignKey, ...]]:
    found: dict[str, tuple[ForeignKey, ...]] = {}
    while dice.random() < 0.4:
        child, parent = (dice.choice(list(columns)) for _ in range(2))
        key = ForeignKey((dice.choice(columns[child]),), parent, (dice.choice(columns[parent]),))
        if (child, key.columns) != (parent, key.parent_columns):
            found[child] = (*found.get(child, ()), key)
    return found


def rows_to_insert(scene: Scene, seed: int, view: set[Row]) -> list[Row]:
    """One or two rows that the view does not have."""
    dice, case = random.Random(seed), scene.case
    places = [place for _, place in case.shape.column_outputs]
    found: list[Row] = []
    for _ in range(dice.choice([1, 1, 1, 2])):
        like = dict(zip(places, found[0], strict=True)) if found and dice.random() < 0.6 else {}
        at = {
            x: like[x] if x in like and dice.random() < 0.6 else dice.randrange(5) for x in places
        }
        for members in case.shape.classes:
            told = [x for x in members if x in at]
            at.update((x, at[told[0]]) for x in told)
        found.append(tuple(at[x] for x in places))
    return [r for r in dict.fromkeys(found) if r not in view]


def insertion(scene: Scene, tables: Tables, insert: Sequence[Row], goal: set[Row]) -> bool | None:
    """Whether some rows that come make the view exactly the goal; None if there is too much to try."""
    ways = [_ways(scene, tables, row, goal) for row in insert]
    if any(w is None for w in ways):
        return None
    if math.prod(len(some or ()) for some in ways) > MOST:
        return None
    return any(
        _makes(scene, tables, frozenset(chain.from_iterable(some)), goal)
        for some in product(*(w or () for w in ways))
    )


def _ways(scene: Scene, tables: Tables, row: Row, goal: set[Row]) -> list[New] | None:
    """The sets of new rows with which one view row is shown, that show nothing beyond the goal."""
    shape, case = scene.case.shape, scene.case
    by_name = dict(zip((n for n, _ in shape.column_outputs), row, strict=True))
    told = {place: by_name[name] for place, name in shape.output_of.items()}
    domain = _domain(case, tables, row)
    places = [x for members in shape.classes for x in members if x not in told]
    hidden = [m for m in shape.classes if m[0] in places]
    found: dict[New, None] = {}
    tried = 0
    for values in product([v for v in domain if v is not None], repeat=len(hidden)):
        at = told | {x: v for m, v in zip(hidden, values, strict=True) for x in m}
        each = [_standing(scene, tables, p, at, domain) for p in range(len(shape.positions))]
        tried += math.prod(map(len, each))
        if tried > MOST:
            return None
        for chosen in product(*each):
            found[frozenset(x for x in chosen if x is not None)] = None
    return [new for new in found if scene.view(_with(tables, new)) <= goal]


def _standing(
    scene: Scene,
    tables: Tables,
    p: int,
    at: Mapping[tuple[int, str], int | None],
    domain: Sequence[int | None],
) -> list[tuple[str, Row] | None]:
    """What can stand at a position: an existing row (None, as nothing comes), or any new one."""
    table = scene.case.shape.positions[p].table
    names = scene.case.columns[table]
    rows = product(*([at[p, c]] if (p, c) in at else domain for c in names))
    fit = [r for r in rows if scene.selected(p, r)]
    new = [r for r in fit if r not in tables[table] and scene.admits(table, r)]
    return [
        *([None] if len(fit) > len({*fit} - {*tables[table]}) else []),
        *((table, r) for r in new),
    ]


def _domain(case: Case, tables: Tables, row: Row) -> list[int | None]:
    there = {v for rows in tables.values() for r in rows for v in r}
    return [*sorted({*there, *row, *FRESH} - {None}), None]  # type: ignore[type-var]


def _with(tables: Tables, new: New) -> dict[str, list[Row]]:
    return {t: rows + [r for u, r in sorted(new, key=str) if u == t] for t, rows in tables.items()}


def _makes(scene: Scene, tables: Tables, new: New, goal: set[Row]) -> bool:
    """Whether new rows make the goal, alone or with one or two parents that no view row shows."""
    after = _with(tables, new)
    if scene.view(after) != goal or not keys_hold(scene.case, after):
        return False
    if scene.holds(after):
        return True
    parents = list(_parents(scene, after))
    return any(
        scene.holds(more) and scene.view(more) == goal
        for some in chain(combinations(parents, 1), combinations(parents, 2))
        for more in (_with(after, frozenset(some)),)
    )


def _parents(scene: Scene, after: Tables) -> Iterator[tuple[str, Row]]:
    """Rows that are the parents of rows that have none, NULL or new values beside that."""
    columns = scene.case.columns
    for child, keys in scene.foreign.items():
        for key in keys:
            if len(key.columns) > 1:
                continue
            at, to = columns[child].index(key.columns[0]), key.parent_columns[0]
            there = {r[columns[key.parent].index(to)] for r in after[key.parent]}
            for value in {r[at] for r in after[child]} - there - {None}:
                names = columns[key.parent]
                each = ([value] if c == to else [None, 90, value] for c in names)
                for row in product(*each):
                    if key.parent != OUTSIDE and scene.admits(key.parent, row):
                        yield key.parent, row


def deletion(scene: Scene, goal: set[Row]) -> bool:
    """Whether some rows that go make the view exactly the goal."""
    tables = scene.case.tables
    each = [(t, r) for t, rows in scene.own.items() for r in sorted(set(rows), key=str)]
    return any(
        scene.view(after) == goal and scene.holds(after)
        for gone in _subsets(each)
        for after in (_without(tables, gone),)
    )


def replacement(
    scene: Scene, delete: Sequence[Row], insert: Sequence[Row], goal: set[Row]
) -> bool | None:
    """Whether some rows behind those to delete that go, and some that come, make the goal."""
    answers = [
        insertion(scene, _without(scene.case.tables, gone), insert, goal)
        for gone in _subsets(may_go(scene.case, list(delete)))
    ]
    return True if True in answers else None if None in answers else False


def _subsets(each: Sequence[tuple[str, Row]]) -> Iterator[tuple[tuple[str, Row], ...]]:
    return chain.from_iterable(combinations(each, n) for n in range(len(each) + 1))


def _without(tables: Tables, gone: Sequence[tuple[str, Row]]) -> dict[str, list[Row]]:
    return {t: [r for r in rows if (t, r) not in gone] for t, rows in tables.items()}
