"""Updates through views that hide what they join on (Exp. F, E.3), on SYNTHETICDB.

Hidden are keys, and what the first two joins join on; CHECKs leave that the values that rows refer
to already, so that some insertions are impossible and fillings differ. Updates are labelled by the
exact search, whose time stands beside the estimate's as that of the translation.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import duckdb

from belvedere.updating.request.fillings import FillingOrder
from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.checks import CheckMode, UpdateChecker
from belvedere.updating.side_effects.fast_check import FastCheck
from belvedere.updating.summary.estimate import THETA, InsertionEstimate
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.translate.constraints import TableRules, check_condition
from belvedere.updating.translate.translation_request import TranslationRequest
from benchmarks.updating.evaluation import deletable, lineage
from benchmarks.updating.sampled_tpch import Listed, as_arrow, filter_over
from benchmarks.updating.synthetic_chains import NAMES, Synthetic, chains

RELATIONS = (4, 5, 6)
FILLED = 4
"""Relations where orders of fillings are compared: all fillings of more are too many."""
SIZE = 200
SMALL = {"size": 60, "fan_out": 2}
"""Where relations vary, so that with many of them something is possible, and the search soon over."""
BOUNDS = (1, 5, 10, 20)
SHARES = (0.0, 0.1)
LARGE = 10_000
"""Rows drawn at most, of which some are taken."""


@dataclass
class Projected:
    """SYNTHETICDB under a view that shows values, and on what all but the first two joins join."""

    db: Synthetic
    made: UpdateFilter = field(init=False)
    checker: UpdateChecker = field(init=False)
    shown: list[str] = field(init=False)

    def __post_init__(self) -> None:
        db, rows = self.db, self.db.rows()
        further = range(2, db.relations - 1)
        self.shown = [f"r{i}.v" for i in range(db.relations)] + [
            f"r{i}.f1" if db.is_forward(i) else f"r{i + 1}.f2" for i in further
        ]
        keys = dict.fromkeys(db.columns, ("pk",))
        tables = as_arrow(db.columns, rows)
        self.made = filter_over(db.query(self.shown), db.columns, tables, keys)
        values = ", ".join(map(str, range(0, 2 * db.size, db.fan_out)))
        checks = {c: check_condition(f"{c} IN ({values})") for c in ("f1", "f2")}
        rules = TableRules(dict.fromkeys(NAMES, "bigint"), ("pk",), (), checks)
        self.checker = UpdateChecker(
            self.made, dict.fromkeys(db.columns, rules), Listed(db.columns, rows)
        )

    def there(self, most: int) -> list[ViewRow]:
        """Rows of the view."""
        connection = duckdb.connect()
        for name, table in as_arrow(self.db.columns, self.db.rows()).items():
            connection.register(name, table)
        found = connection.execute(
            f"SELECT DISTINCT * FROM ({self.db.query(self.shown)}) ORDER BY ALL"
        )
        rows = [ViewRow(row) for row in found.to_arrow_table().to_pylist()]
        return random.Random(4).sample(rows, min(most, len(rows)))

    def new(self, how_many: int) -> list[ViewRow]:
        """Rows that the view does not have, along the joins."""
        names = [name.replace(".", "_") for name in self.shown]
        there = {tuple(row.values.values()) for row in self.there(LARGE)}
        drawn = chains(self.db, self.db.rows(), random.Random(5))
        rows = dict.fromkeys(tuple(row[name] for name in names) for row in islice(drawn, LARGE))
        some = islice((row for row in rows if row not in there), how_many)
        return [ViewRow(dict(zip(names, row, strict=True))) for row in some]


def on_projections(each: int) -> dict[str, Any]:
    """Insertions by order, bound and relations; deletions and replacements by relations."""
    found: dict[str, Any] = {"fillings": _fillings(Projected(Synthetic(FILLED, SIZE)), each)}
    for relations in RELATIONS:
        view = Projected(Synthetic(relations, **SMALL))
        found[f"{relations} relations"] = {
            "insertions": _insertions(view, view.new(each)),
            "deletions": _deletions(view, view.there(each)),
            "replacements": _replacements(view, view.there(each), view.new(each)),
        }
    return found


def _fillings(view: Projected, each: int) -> dict[str, Any]:
    """Errors and times of insertions by the order in which fillings are tried and how many are."""
    rows = view.new(each)
    real, _ = _timed(lambda row: _possible(view, [], [row]), rows)
    found: dict[str, Any] = dict(Counter(real))
    for order in (FillingOrder.GREEDY, FillingOrder.RANDOM):
        for most in BOUNDS:
            found[f"{order.value}, k = {most}"] = _estimated(view, rows, real, order, most)
    found["all"] = _estimated(view, rows, real, FillingOrder.ALL, 1)
    return found


def _estimated(
    view: Projected, rows: Sequence[ViewRow], real: Sequence[str], order: FillingOrder, most: int
) -> dict[str, float]:
    """Errors of estimates against the exact answers."""
    old = view.checker
    checker = UpdateChecker(view.made, old.rules, old.source, fillings=most, order=order)
    says, took = _timed(lambda row: _free(checker, row), rows)
    return {**_errors(says, real), "ms": took}


def _free(checker: UpdateChecker, row: ViewRow) -> bool:
    """Whether the estimate finds a filling free of side effects."""
    assert isinstance(checker.filter, UpdateFilter)
    request = TranslationRequest(checker.filter.base, checker.rules, checker.source, (), (row,))
    quick = FastCheck(checker.filter, request, THETA, checker.fillings, checker.order)
    found = quick.answer(row)
    return isinstance(found, InsertionEstimate) and not found.declares(THETA)


def _insertions(view: Projected, rows: Sequence[ViewRow]) -> dict[str, Any]:
    """Errors with the usual fillings, times by candidates, and that of the exact search."""
    real, translation = _timed(lambda row: _possible(view, [], [row]), rows)
    found: dict[str, Any] = dict(Counter(real))
    for share in SHARES:
        view.made.choose_candidates(share)
        says, took = _timed(lambda row: _free(view.checker, row), rows)
        found[f"{share:.0%} candidates"] = {**_errors(says, real), "ms": took}
    return {**found, "translation_ms": translation}


def _deletions(view: Projected, rows: Sequence[ViewRow]) -> dict[str, Any]:
    """Whether some base row of each embedding shows in no other view row, by lineage."""
    coder = Coder(view.made.base, view.checker.source)
    real, translation = _timed(lambda row: _possible(view, [row], []), rows)
    _, traced = _timed(lambda row: lineage(view.made, coder.signature(row)), rows)
    says, took = _timed(lambda row: _can_go(view, row), rows)
    return {
        **Counter(real),
        **_errors(says, real),
        "ms": took,
        "lineage_ms": traced,
        "translation_ms": translation,
    }


def _replacements(
    view: Projected, old: Sequence[ViewRow], new: Sequence[ViewRow]
) -> dict[str, Any]:
    """A deletion and then an estimated insertion (Prop. 7.1) against the exact search."""
    pairs = list(zip(old, new, strict=False))
    real, translation = _timed(lambda pair: _possible(view, [pair[0]], [pair[1]]), pairs)
    says, took = _timed(
        lambda pair: _can_go(view, pair[0]) and _free(view.checker, pair[1]),
        pairs,
    )
    return {**Counter(real), **_errors(says, real), "ms": took, "translation_ms": translation}


def _possible(view: Projected, delete: list[ViewRow], insert: list[ViewRow]) -> str:
    return view.checker.check(delete, insert, CheckMode.EXACT).possible


def _can_go(view: Projected, row: ViewRow) -> bool:
    signature = Coder(view.made.base, view.checker.source).signature(row)
    free = set(deletable(view.made, signature))
    return all(embedding & free for embedding in lineage(view.made, signature))


def _errors(says: Sequence[bool], real: Sequence[str]) -> dict[str, float]:
    """FP: possible updates that are refused. FN: impossible ones that are not."""
    pairs = list(zip(says, real, strict=True))
    refused = [not said for said, r in pairs if r == "yes"]
    passed = [said for said, r in pairs if r == "no"]
    return {
        "fp": round(sum(refused) / max(len(refused), 1), 4),
        "fn": round(sum(passed) / max(len(passed), 1), 4),
    }


def _timed(run: Callable[[Any], Any], over: Sequence[Any]) -> tuple[list[Any], float]:
    """What calls give, and their mean milliseconds."""
    began = time.process_time()
    found = [run(each) for each in over]
    return found, round((time.process_time() - began) / max(len(over), 1) * 1000, 2)
