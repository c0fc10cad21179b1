"""Replacements by brute force: every set of rows that may go, every value of what is hidden."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product

from belvedere.lake.tables.declared_keys import ForeignKey
from tests.updating.cases import Case, Row, Tables

Foreign = Mapping[str, tuple[ForeignKey, ...]]

MOST = 2_000
"""Choices that are gone through; a request with more of them is left out."""

Partial = tuple[str, tuple[tuple[str, int | None], ...]]
"""A table, and what a position of it needs of a row."""


def asked_of(case: Case, seed: int) -> tuple[list[Row], list[Row]]:
    """Rows of the view to delete, and rows that are like them, or not, to insert."""
    dice, view = random.Random(seed), sorted(case.view(), key=str)
    names = [place for _, place in case.shape.column_outputs]
    delete = dice.sample(view, min(len(view), dice.choice([1, 1, 2])))
    insert: list[Row] = []
    for _ in range(dice.choice([1, 1, 2])):
        like = dice.choice(view) if view and dice.random() < 0.7 else None
        at = dict(zip(names, like or (dice.randrange(4) for _ in names), strict=True))
        at = {place: v if dice.random() < 0.7 else dice.randrange(5) for place, v in at.items()}
        for members in case.shape.classes:
            told = [place for place in members if place in at]
            at.update((place, at[told[0]]) for place in told)
        insert.append(tuple(at[place] for place in names))
    there = set(view) - set(delete)
    return delete, [r for r in dict.fromkeys(insert) if r not in there and r not in delete]


def smallest_replacement(
    case: Case, delete: list[Row], insert: list[Row], domain: range, foreign: Foreign
) -> int | None:
    """The fewest base rows that change where exactly the asked rows do; None if nothing does it."""
    goal = (case.view() - set(delete)) | set(insert)
    found = [
        touched
        for gone in _subsets(may_go(case, delete))
        for after, touched in _put_in(case, set(gone), insert, domain)
        if keys_hold(case, after)
        and parents_stay(case, after, foreign)
        and case.view(after) == goal
    ]
    return min(found, default=None)


def choices(case: Case, delete: list[Row], insert: list[Row], domain: range) -> int:
    """How many choices there are."""
    hidden = sum(len(_hidden(case)) for _ in insert)
    return 2 ** len(may_go(case, delete)) * len(domain) ** hidden


def may_go(case: Case, delete: list[Row]) -> list[tuple[str, Row]]:
    """The rows behind some view rows."""
    tables = [p.table for p in case.shape.positions]
    rows = [
        pair
        for e in case.embeddings()
        if case.shown(e) in delete
        for pair in zip(tables, e, strict=True)
    ]
    return list(dict.fromkeys(rows))


def _subsets(each: list[tuple[str, Row]]) -> Iterator[tuple[tuple[str, Row], ...]]:
    return chain.from_iterable(combinations(each, n) for n in range(len(each) + 1))


def _hidden(case: Case) -> list[tuple[tuple[int, str], ...]]:
    """The places of each value that a view row does not tell."""
    shape = case.shape
    places = [(p, c) for p, at in enumerate(shape.positions) for c, _ in at.columns]
    loose = [x for x in places if x not in shape.output_of]
    groups = {shape.classes[shape.class_of[x]] if x in shape.class_of else (x,) for x in loose}
    return sorted(groups)


def _put_in(
    case: Case, gone: set[tuple[str, Row]], insert: list[Row], domain: range
) -> Iterator[tuple[Tables, int]]:
    """The tables without some rows and with what view rows need, and how many rows that changes."""
    kept = {t: [r for r in rows if (t, r) not in gone] for t, rows in case.tables.items()}
    left = sum(map(len, case.tables.values())) - sum(map(len, kept.values()))
    each = [list(_needed(case, row, domain)) for row in insert]
    for some in product(*each):
        needed = dict.fromkeys(chain.from_iterable(some))
        after, new = {t: list(rows) for t, rows in kept.items()}, 0
        for i, (table, told) in enumerate(needed):
            names = case.columns[table]
            if not any(
                dict(told).items() <= dict(zip(names, r, strict=True)).items() for r in kept[table]
            ):
                after[table].append(_row(case, table, dict(told), gone, 90 + i))
                new += 1
        yield after, left + new


def _row(
    case: Case, table: str, told: dict[str, int | None], gone: set[tuple[str, Row]], fresh: int
) -> Row:
    """A new row: what is not told is kept from the row with its key, if that goes."""
    names, key = case.columns[table], case.keys.get(table, ())
    rows = [dict(zip(names, r, strict=True)) for t, r in gone if t == table]
    same = [r for r in rows if key and all(r[c] == told.get(c, "none") for c in key)]
    kept = same[0] if same else dict.fromkeys(key, fresh)
    return tuple({**kept, **told}.get(c) for c in names)


def _needed(case: Case, row: Row, domain: range) -> Iterator[tuple[Partial, ...]]:
    """What a view row needs of each position, with every value of what it hides."""
    shape, hidden = case.shape, _hidden(case)
    by_name = dict(zip((n for n, _ in shape.column_outputs), row, strict=True))
    told = {place: by_name[name] for place, name in shape.output_of.items()}
    for values in product(domain, repeat=len(hidden)):
        at = told | {x: v for group, v in zip(hidden, values, strict=True) for x in group}
        yield tuple(
            (position.table, tuple((c, at[p, c]) for c, _ in position.columns))
            for p, position in enumerate(shape.positions)
        )


def keys_hold(case: Case, tables: Tables) -> bool:
    """Whether the declared keys hold of rows that came."""
    for table, key in case.keys.items():
        at = [case.columns[table].index(c) for c in key]
        values = [tuple(r[i] for i in at) for r in tables[table]]
        before = case.tables[table]
        new = [r for r in tables[table] if r not in before]
        if len(set(values)) < len(values) or any(r[i] is None for r in new for i in at):
            return False
    return True


def parents_stay(case: Case, tables: Tables, foreign: Foreign) -> bool:
    """New rows have their parents, and no parent goes whose children stay."""
    for child, keys in foreign.items():
        for key in keys:
            at = [case.columns[child].index(c) for c in key.columns]
            to = [case.columns[key.parent].index(c) for c in key.parent_columns]
            before, after = (
                {tuple(r[i] for i in to) for r in some[key.parent]}
                for some in (case.tables, tables)
            )
            for row in tables[child]:
                value = tuple(row[i] for i in at)
                needed = row not in case.tables[child] or value in before
                if None not in value and needed and value not in after:
                    return False
    return True
