"""SYNTHETICDB: relations in a row, joined by foreign keys; errors as its four parameters vary."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from belvedere.updating.summary.filter import UpdateFilter
from benchmarks.updating.baselines import FullPropagation, everything
from benchmarks.updating.curves import (
    FURTHER,
    as_defined,
    both,
    by_share,
    figures_of,
    from_best_root,
)
from benchmarks.updating.insertions import Row, labelled, timed
from benchmarks.updating.sampled_tpch import as_arrow, filter_over

NAMES = ("pk", "f1", "f2", "v")
MOST = 20_000
"""Insertions that are drawn at most."""
EACH_VARIED = 100
VARIED: dict[str, tuple[Any, ...]] = {
    "relations": (4, 5, 7),
    "size": (1000, 10_000),
    "forward": ((True,), (False,)),
    "fan_out": (2, 8),
}


@dataclass(frozen=True)
class Synthetic:
    """Four parameters: how many relations, their size, the direction of each join (True: the left
    one has the foreign key; given anew where there are more), and how many rows join with a row at most."""

    relations: int = 6
    size: int = 3000
    forward: tuple[bool, ...] = (True, False)
    fan_out: int = 4
    seed: int = 1

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        return {f"r{i}": NAMES for i in range(self.relations)}

    def rows(self) -> dict[str, list[tuple[int, ...]]]:
        """Rows of every relation. Half of the keys are there, so that rows dangle."""
        dice = random.Random(self.seed)
        return {f"r{i}": self._relation(dice) for i in range(self.relations)}

    def _relation(self, dice: random.Random) -> list[tuple[int, ...]]:
        keys = dice.sample(range(2 * self.size), self.size)
        pairs = zip(keys, self._references(dice), self._references(dice), strict=True)
        return [(key, one, two, dice.randrange(50)) for key, one, two in pairs]

    def _references(self, dice: random.Random) -> list[int]:
        """Foreign keys, each `fan_out` times at most: of so many places for each, some are taken."""
        places = dice.sample(range(2 * self.size), self.size)
        return [place // self.fan_out * self.fan_out for place in places]

    def is_forward(self, join: int) -> bool:
        """Whether the left relation of a join has the foreign key."""
        return self.forward[join % len(self.forward)]

    def query(self, shown: list[str] | None = None) -> str:
        """Each relation joined with the next."""
        joins = [
            f"r{i}.f1 = r{i + 1}.pk" if self.is_forward(i) else f"r{i}.pk = r{i + 1}.f2"
            for i in range(self.relations - 1)
        ]
        listed = shown or [f"{r}.{c}" for r in self.columns for c in NAMES]
        named = ", ".join(f"{c} AS {c.replace('.', '_')}" for c in listed)
        return f"SELECT {named} FROM {', '.join(self.columns)} WHERE {' AND '.join(joins)}"


def on_synthetic(size: int, each: int) -> dict[str, Any]:
    """Errors from each root and by candidates, times of other detectors, and each parameter varied."""
    db = Synthetic(size=size)
    made, sample, drawn = _asked(db, each)
    plain = [row for row, _ in sample][:: max(len(sample) // 20, 1)]
    full, all_rows = FullPropagation(made), everything(made)
    best = _from_best_root(made, sample)
    return {
        "insertions": len(sample),
        "with side effects": sum(real for _, real in sample),
        "drawn": drawn,
        "fp_fn by root": {
            f"r{p}": both(made.with_root(p, 0.0), sample) for p in range(db.relations)
        },
        "by candidates": figures_of(by_share(best, sample, FURTHER)),
        "as defined": as_defined(
            made, lambda: figures_of(by_share(_from_best_root(made, sample), sample, FURTHER))
        ),
        "full_ms": round(timed(lambda r: full.estimate(made.segments(r)), plain), 3),
        "eds_ms": round(timed(lambda r: all_rows.estimate(made.segments(r)), plain), 3),
        "varied": {
            f"{name} {_text(value)}": _of(replace(db, **{name: value}))
            for name, values in VARIED.items()
            for value in values
        },
    }


def _of(db: Synthetic) -> dict[str, Any]:
    """Errors on a database from its best root, with 10 % candidates."""
    made, sample, drawn = _asked(db, EACH_VARIED)
    fp, fn = both(_from_best_root(made, sample), sample)
    positives = sum(real for _, real in sample)
    return {
        "insertions": len(sample),
        "with side effects": positives,
        "drawn": drawn,
        "fp": fp,
        "fn": fn,
    }


def _asked(db: Synthetic, each: int) -> tuple[UpdateFilter, list[tuple[Row, bool]], int]:
    """The filter of a database and insertions into it."""
    rows = db.rows()
    keys = dict.fromkeys(db.columns, ("pk",))
    made = filter_over(db.query(), db.columns, as_arrow(db.columns, rows), keys)
    return made, *labelled(made, islice(chains(db, rows, random.Random(6)), MOST), each)


def _from_best_root(made: UpdateFilter, sample: list[tuple[Row, bool]]) -> UpdateFilter:
    """The filter from the root that is best on a hundred insertions of each kind."""
    return from_best_root(made, [*sample[:100], *sample[-100:]])


def _text(value: Any) -> str:
    """A parameter as it is shown; of directions, where all foreign keys are."""
    return str(value) if isinstance(value, int) else "left" if value[0] else "right"


def chains(
    db: Synthetic, rows: Mapping[str, list[tuple[int, ...]]], dice: random.Random
) -> Iterator[Row]:
    """View rows along the joins, of rows that are there and of new ones, as they come."""
    fresh = 10 * db.size
    by_key = {t: {r[0]: r for r in some} for t, some in rows.items()}
    referring: dict[str, dict[int, list[tuple[int, ...]]]] = {t: {} for t in rows}
    for t, some in rows.items():
        for r in some:
            referring[t].setdefault(r[2], []).append(r)
    while True:
        chain = [dice.choice(rows["r0"])]
        for i in range(1, db.relations):
            before, table = chain[-1], f"r{i}"
            spare = dice.choice(rows[table])[1:]
            fresh += 1
            if db.is_forward(i - 1):
                chain.append(by_key[table].get(before[1], (before[1], *spare)))
            else:
                there = referring[table].get(before[0])
                new = (fresh, spare[0], before[0], spare[2])
                chain.append(dice.choice(there) if there and dice.random() < 0.7 else new)
        if dice.random() < 0.5:
            chain[0] = (fresh + 1, *chain[0][1:])
        yield {f"r{i}_{c}": v for i, r in enumerate(chain) for c, v in zip(NAMES, r, strict=True)}
