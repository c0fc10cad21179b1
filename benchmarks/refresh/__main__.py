"""Refresh against recomputation: TPC-H's queries as views, side by side in one session.

    python -m benchmarks.refresh [--quick] [--scale N] [--changes scattered|clustered]

Recomputation is the defining query written by Spark to a Delta table, warm, alternating with the
refresh of the view; medians. One row per case, then one JSON line. Data and views are kept in
.cache/benchmarks between runs; the full form keeps what it measured too, and goes on from there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import belvedere as bv
from benchmarks.data import tpch
from benchmarks.refresh.pairs import Pair, Pairs, mean, percentile

QUICK = ("q01", "q03", "q05", "q06", "q10", "q12", "q14", "q18")
UNTOUCHED = ("q02", "q11", "q16")
"""These read neither orders nor lineitem."""

SMALL = 0.001
ORDERS = 1_500_000
"""At scale 1."""
GROWTH_ORDERS = 1000
"""In and out with their lineitems they are 10 000 changed rows."""
CHOICE_ROUNDS = 2
"""In so many rounds of each size every strategy is measured, not only the one that AUTO takes."""
MANY_FILES = 24
CACHE = Path(".cache/benchmarks")


def main() -> None:
    options = _options()
    print(json.dumps(_quick() if options.quick else _full(options)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.refresh", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="8 views at scale 1, two sizes of changes"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--changes", choices=("scattered", "clustered"), default="scattered")
    parser.add_argument("--views", nargs="+", help="only these, for a look at some")
    parser.add_argument("--sizes", nargs="+", type=float, help="only these shares of changes")
    parser.add_argument("--rounds", type=int, help="measured rounds of each size of changes")
    parser.add_argument("--growth", action="store_true", help="growth from scale 1 alone")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    return parser.parse_args()


def _quick() -> dict[str, Any]:
    notes = _notes("quick", again=True)
    with _lake(1) as lake:
        new = _prepare(lake, 1, QUICK)
        run = _Run(lake, QUICK, notes, "scattered")
        run.warm(SMALL, [v for v in QUICK if v not in new])
        run.rounds({SMALL: 3, 0.1: 2})
        return run.figures("sf1_geomean", worst=True) | _small_figures(lake)


def _full(options: argparse.Namespace) -> dict[str, Any]:
    if options.growth:
        return {"growth": _growth(options)}
    views = options.views or [v for v in tpch.queries() if v not in UNTOUCHED]
    notes = _notes(f"{options.scale:g}-{options.changes}", again=options.again)
    first = options.scale == 1 and options.changes == "scattered"
    every = (SMALL, 0.01, 0.1, 0.5) if first else (SMALL,)
    sizes = dict.fromkeys(options.sizes or every, options.rounds or (5 if first else 3))
    choices = first and len(sizes) > 1
    key = "sf1_geomean" if first else f"sf{options.scale:g}_{options.changes}"
    with _lake(options.scale) as lake:
        new = _prepare(lake, options.scale, views)
        run = _Run(lake, views, notes, options.changes)
        if choices:
            run.prepare_choices()
        cold = [v for v in views if v not in new]
        run.warm(SMALL, cold if first else cold[:1])
        # Before the rounds, after which the views under INCREMENTAL would have much to catch up with.
        figures = _small_figures(lake) if choices else {}
        run.rounds(sizes)
        figures |= run.figures(key, worst=choices)
        if choices:
            figures["right_choice"] = run.right_choice()
    if options.scale > 1 and options.changes == "clustered" and not options.views:
        figures["growth"] = _growth(options)
    return figures


def _small_figures(lake: bv.Lake) -> dict[str, Any]:
    return {"empty_refresh_ms": _empty(lake), "fixed_units": _fixed(lake)}


def _notes(name: str, *, again: bool) -> Pairs:
    CACHE.mkdir(parents=True, exist_ok=True)
    file = CACHE / f"measured-{name}.json"
    if again:
        file.unlink(missing_ok=True)
    return Pairs(file)


def _lake(scale: float, kind: str = "lake") -> bv.Lake:
    return bv.connect(CACHE / f"{kind}-{scale:g}")


def _prepare(lake: bv.Lake, scale: float, views: Iterable[str]) -> list[str]:
    """Tables that earlier runs left in pieces, whole; the views that were not there yet."""
    there = {row["tableName"] for row in lake.sql("SHOW TABLES").collect()}
    missing = [t for t in tpch.TABLES if t not in there]
    if missing:
        _say(f"loading {', '.join(missing)}")
        tpch.load(lake, tpch.data(scale, CACHE), missing)
    for table in ("orders", "lineitem"):
        if lake.sql(f"DESCRIBE DETAIL {table}").collect()[0]["numFiles"] > MANY_FILES * max(
            scale, 1
        ):
            _say(f"putting {table} together")
            lake.sql(f"REORG TABLE {table} APPLY (PURGE)")
            lake.sql(f"OPTIMIZE {table}")
    known = {status.name for status in lake.status()}
    new = [view for view in views if view not in known]
    for view in new:
        _say(f"preparing {view}")
        lake.sql(f"CREATE MATERIALIZED VIEW {view} AS {tpch.queries()[view]}")
    lake.refresh()
    return new


class _Run:
    """Rounds of changes, and what recomputation and refresh take after each."""

    def __init__(self, lake: bv.Lake, views: Iterable[str], notes: Pairs, changes: str) -> None:
        self._lake = lake
        self._views = tuple(views)
        self._notes = notes
        self._changes = changes
        self._shares: tuple[float, ...] = ()
        self._choices = False

    def prepare_choices(self) -> None:
        """The same views under each policy, so that every strategy starts at the same state."""
        self._choices = True
        for view in self._views:
            for name, policy in ((_by_changes(view), "INCREMENTAL"), (_by_all(view), "FULL")):
                _say(f"preparing {name}")
                self._lake.sql(
                    f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name}"
                    f" REFRESH POLICY {policy} AS {tpch.queries()[view]}"
                )

    def warm(self, share: float, cold: Collection[str]) -> None:
        """A round that does not count; views that were created just now have been computed once."""
        self.change(share)
        for view in self._views:
            done = self._lake.refresh(view)
            _say(f"warm {view}: {done.seconds:.2f} s, {done.strategy}")
            if view in cold:
                self._recompute(view)
        self._lake.refresh()

    def rounds(self, sizes: dict[float, int]) -> None:
        """Rounds of each share of changes until every view has its number of pairs."""
        self._shares = tuple(sizes)
        for share, rounds in sizes.items():
            # What was measured in few rounds of the size before catches up.
            self._lake.refresh()
            while missing := [v for v in self._views if len(self._notes[v, share]) < rounds]:
                self.change(share)
                for view in missing:
                    self._measure(view, share)

    def figures(self, key: str, *, worst: bool) -> dict[str, Any]:
        """The table of medians, and what the run says as a whole."""
        cases = [(view, share) for share in self._shares for view in self._views]
        print(
            f"{'changes':<9}{'view':<6}{'recompute s':>12}{'refresh s':>11}{'ratio':>7}  strategy"
        )
        for view, share in cases:
            found = self._notes[view, share]
            slow = statistics.median(p.recompute for p in found)
            fast = statistics.median(p.refresh for p in found)
            taken = ", ".join(dict.fromkeys(p.strategy for p in found))
            print(f"{share:<9.1%}{view:<6}{slow:>12.2f}{fast:>11.2f}{slow / fast:>7.2f}  {taken}")
        small = {v: round(self._notes.ratio(v, self._shares[0]), 2) for v in self._views}
        figures: dict[str, Any] = {key: round(mean(small.values()), 2), "ratios": small}
        if worst:
            same = self._notes.same_twice(cases)
            ratios = [self._notes.ratio(*case) for case in cases]
            figures["same_twice"] = round(same, 2)
            figures["worst_auto"] = round(percentile(ratios, 5) / same, 2)
        return figures

    def right_choice(self) -> float:
        """The share of cases where AUTO took the faster strategy, or one as fast."""
        cases = [(view, share) for share in self._shares for view in self._views]
        right = {case: self._notes.right(*case) for case in cases}
        for (view, share), was in right.items():
            if was is False:
                _say(f"wrong choice: {view} at {share:.1%}")
        return round(statistics.fmean(bool(r) for r in right.values() if r is not None), 3)

    def change(self, share: float) -> None:
        """A round of changes."""
        if self._changes == "clustered":
            statements = tpch.clustered(self._lake, share)
        else:
            # Each round has two commits; a run goes on where the one before it ended.
            done = self._lake.sql("DESCRIBE HISTORY orders LIMIT 1").collect()[0]["version"]
            statements = tpch.scattered(done // 2, share)
        for statement in statements:
            self._lake.sql(statement)

    def _measure(self, view: str, share: float) -> None:
        """Recomputation and refresh, in turns the one or the other first."""
        again, fresh = (lambda: self._recompute(view)), (lambda: self._lake.refresh(view))
        if len(self._notes[view, share]) % 2:
            slow, (fast, done) = _timed(again)[0], _timed(fresh)
        else:
            (fast, done), slow = _timed(fresh), _timed(again)[0]
        compare = self._choices and len(self._notes[view, share]) < CHOICE_ROUNDS
        others = (
            _timed(lambda name=name: self._lake.refresh(name))[0]
            for name in (_by_changes(view), _by_all(view))
            if compare
        )
        pair = Pair(slow, fast, f"{done.strategy} {done.reason}".strip(), *others)
        self._notes.add(view, share, pair)
        _say(f"{share:g} {view}: {slow:.2f} s, {fast:.2f} s, {pair.strategy}")

    def _recompute(self, view: str) -> None:
        frame = self._lake.spark.sql(tpch.queries()[view])
        # Delta takes no column called sum(l_quantity).
        named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        writer = named.write.format("delta").mode("overwrite")
        writer.option("overwriteSchema", "true").saveAsTable(f"recomputed_{view}")


def _by_changes(view: str) -> str:
    return f"{view}_by_changes"


def _by_all(view: str) -> str:
    return f"{view}_by_all"


def _growth(options: argparse.Namespace) -> float:
    """How much longer the same changes take in a larger lake; in lakes where nothing else changes."""
    medians: dict[float, dict[str, float]] = {}
    for scale in (1.0, options.scale):
        with _lake(scale, "growth") as lake:
            _prepare(lake, scale, QUICK)
            run = _Run(lake, QUICK, _notes("growth", again=True), "clustered")
            share = GROWTH_ORDERS / (ORDERS * scale)
            seconds: dict[str, list[float]] = {}
            for number in range(4):
                run.change(share)
                for view in QUICK:
                    fast = _timed(lambda v=view, open_lake=lake: open_lake.refresh(v))[0]
                    if number:  # the first warms up
                        seconds.setdefault(view, []).append(fast)
            medians[scale] = {view: statistics.median(found) for view, found in seconds.items()}
    small, large = medians.values()
    for view in QUICK:
        print(
            f"growth   {view:<6}{small[view]:>12.2f}{large[view]:>11.2f}{large[view] / small[view]:>7.2f}"
        )
    return round(mean([large[view] / small[view] for view in QUICK]), 2)


def _empty(lake: bv.Lake) -> float:
    """Milliseconds per view when nothing changed."""
    lake.refresh()
    seconds, done = _timed(lake.refresh)
    return round(1000 * seconds / len(done), 1)


def _fixed(lake: bv.Lake) -> float:
    """The refresh of a small aggregate in units of one small query, both warm."""
    for statement in (
        "DROP MATERIALIZED VIEW IF EXISTS fixed_sums",
        "DROP TABLE IF EXISTS fixed",
        "CREATE TABLE fixed (k BIGINT, v BIGINT)",
        "INSERT INTO fixed SELECT id, id FROM range(10000)",
        "CREATE MATERIALIZED VIEW fixed_sums AS SELECT k, sum(v) AS v FROM fixed GROUP BY k",
    ):
        lake.sql(statement)
    units, refreshes = [], []
    for number in range(8):
        lake.sql(f"INSERT INTO fixed SELECT id * 10, {number} FROM range(1000)")
        refreshes.append(_timed(lambda: lake.refresh("fixed_sums"))[0])
        query = "SELECT k % 1000 AS k, sum(v) FROM fixed GROUP BY 1"
        units.append(_timed(lambda q=query: lake.sql(q).toArrow())[0])
    return round(statistics.median(refreshes[3:]) / statistics.median(units[3:]), 2)


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
