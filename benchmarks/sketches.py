"""Sketches: how fast they are kept, against capturing them anew, and what queries gain by them.

    python -m benchmarks.sketches [--quick] [--parts engine lake tpch] [--rows N] [--scale N]

The engine's figures need no Spark: batches of changes in Arrow, the paper's synthetic table. Those
of the lake are measured end to end on a Delta table of the same rows, beside capture by Spark. One
line per figure, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.relations import Rel
from belvedere.analyses.types import types
from belvedere.memory.plans import Memory
from belvedere.rules.delta import delta
from belvedere.sketches.blocks import block
from belvedere.sketches.engine import Engine
from belvedere.sketches.partitions import Partition, equi_width
from belvedere.sql.bind import Relation, bind
from belvedere.sql.render import SIGN
from benchmarks import synthetic
from benchmarks.by_sql import BySql

CACHE = Path(".cache/benchmarks")
GROUPS, FRAGMENTS = 5000, 1000
SHARES = (0.01, 0.05)
TWO = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 1000 AND sum(b) >= {}"
SPREAD = "SELECT a, sum(c) AS sc FROM r GROUP BY a HAVING sum(c) >= {} AND count(b) > 1"
TEN = (
    "SELECT a FROM r GROUP BY a HAVING avg(b) > 0 AND avg(c) < 1000 AND avg(d) < 1200 AND avg(e) > 0 "
    "AND avg(f) > 0 AND avg(g) > 0 AND avg(h) > 0 AND avg(i) > 0 AND avg(j) > 0 AND sum(c) > 5"
)
LEAST = "SELECT a, min(b) AS m FROM r GROUP BY a HAVING min(b) < 100 AND max(c) > 300"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a million rows, two minutes")
    parser.add_argument("--rows", type=int, help="rows of the synthetic table")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H (default 1)")
    parser.add_argument(
        "--parts", nargs="+", default=["engine", "lake"], choices=["engine", "lake", "tpch"]
    )
    options = parser.parse_args()
    rows = options.rows or (1_000_000 if options.quick else 10_000_000)
    found: dict[str, Any] = {"rows": rows, "groups": GROUPS, "fragments": FRAGMENTS}
    if "engine" in options.parts:
        found |= engine_figures(rows)
    if "lake" in options.parts:
        found |= lake_figures(rows, quick=options.quick)
    if "tpch" in options.parts:
        found |= tpch_figures(options.scale)
    print(json.dumps(found))


class Catalog:
    """The synthetic table by its name."""

    def resolve(self, name: str) -> Relation:
        """The one table there is."""
        columns = tuple((c, "int") for c in ("id", "a", *synthetic.COLUMNS))
        return Relation(columns, table=name)


def ask(texts: Mapping[str, str], _known: Mapping[str, str]) -> dict[str, str]:
    """Columns of integers stay integers."""
    return dict.fromkeys(texts, "int")


class Kept:
    """A sketch that an engine keeps, fed batches of Arrow."""

    def __init__(self, text: str, partition: Partition, room: int = 16) -> None:
        self.plan: Rel = bind(text, Catalog()).plan
        found = block(self.plan, [partition])
        self.feed = found.feeds[0]
        self.engine = Engine(found, [partition], types(self.feed.plan, ask), room)
        self.change = delta(self.feed.plan, {"r"})

    def take(self, rows: pa.Table, signs: np.ndarray) -> float:  # type: ignore[type-arg]
        """Seconds from a batch of signed rows to the new sketch."""
        batch = rows.append_column(SIGN, pa.array(signs))
        start = time.perf_counter()
        self.engine.take(0, Memory(lambda _leaf: batch, most=1 << 40).rows(self.change))
        self.engine.finish()
        return time.perf_counter() - start

    def begin(self, whole: pa.Table) -> float:
        """Seconds to take in everything."""
        spent = 0.0
        for start in range(0, whole.num_rows, 1 << 20):
            part = whole.slice(start, 1 << 20)
            spent += self.take(part, np.ones(part.num_rows, np.int64))
        return spent


def engine_figures(rows: int) -> dict[str, Any]:
    """What the engine takes, without the read of the changes."""
    whole = synthetic.table(rows, GROUPS)
    by_group = equi_width("r", "a", "int", 0, GROUPS, FRAGMENTS)
    by_key = equi_width("r", "id", "int", 0, rows, FRAGMENTS)
    per_group = rows / GROUPS
    cases = {
        "maintain_ms_by_group": (TWO.format(int(per_group * 1000)), by_group),
        "maintain_ms": (SPREAD.format(int(per_group * 2600)), by_key),
        "maintain_ms_10agg": (TEN, by_group),
        "maintain_ms_minmax": (LEAST, by_group),
    }
    found: dict[str, Any] = {}
    for name, (text, partition) in cases.items():
        kept = Kept(text, partition)
        loaded = kept.begin(whole)
        sizes = [10, 1000, *(int(rows * s) for s in SHARES)]
        found[name] = [round(_batches(kept, whole, n), 2) for n in sizes]
        held = kept.engine.bytes / max(kept.engine.groups, 1)
        found.setdefault("bytes_per_group", {})[name] = round(held)
        shown = int(kept.engine.sketch().sum())
        print(f"{name}: {found[name]} ms for {sizes} rows; {loaded:.1f} s to take in; {shown} kept")
    for room in (1, 16, 256):
        kept = Kept(LEAST, by_group, room)
        kept.begin(whole.slice(0, min(rows, 1_000_000)))
        found["bytes_per_group"][f"room {room}"] = round(kept.engine.bytes / kept.engine.groups)
    return found


def _batches(kept: Kept, whole: pa.Table, count: int) -> float:
    """Milliseconds of a batch, the median; each is taken back before the next."""
    spent = []
    for seed in range(2, 9 if count <= 1000 else 7):
        rows, signs = synthetic.changed(whole, count, GROUPS, seed)
        spent.append(1000 * kept.take(rows, signs))
        kept.take(rows, -signs)
    return statistics.median(spent[1:])


TPCH = {
    "q18": (
        "SELECT l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey "
        "HAVING sum(l_quantity) > 300",
        "PARTITION lineitem BY l_orderkey INTO 1000 FRAGMENTS",
    ),
    "q10": (
        "SELECT c_custkey, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM customer "
        "JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey "
        "WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' "
        "AND l_returnflag = 'R' GROUP BY c_custkey ORDER BY revenue DESC LIMIT 20",
        "PARTITION orders BY o_custkey INTO 1000 FRAGMENTS",
    ),
    "q15": (
        "SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total FROM lineitem "
        "WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' "
        "GROUP BY l_suppkey ORDER BY total DESC LIMIT 1",
        "PARTITION lineitem BY l_suppkey INTO 1000 FRAGMENTS",
    ),
}


def tpch_figures(scale: float) -> dict[str, Any]:
    """TPC-H: capture on Spark beside maintenance after new lineitems, and what queries gain."""
    import belvedere as bv
    from benchmarks import tpch

    home = CACHE / f"sketches-tpch-{scale:g}"
    fresh = not home.exists()
    with bv.connect(home) as lake:
        if fresh:
            tpch.load(lake, tpch.data(scale, CACHE), ("customer", "orders", "lineitem"))
        figures = Figures(lake)
        out: dict[str, Any] = {"scale": scale, "vs_capture": {}, "query_gain": {}}
        for name, (text, clause) in TPCH.items():
            lake.sql(f"CREATE OR REPLACE SKETCH {name} ON {text} {clause}")
            out["vs_capture"][name] = figures.against_capture(name, "lineitem")
            out["query_gain"][name] = figures.gain(name, text)
        return {"tpch": out}


def lake_figures(rows: int, *, quick: bool) -> dict[str, Any]:
    """End to end: change feed, maintenance, capture and queries on Delta."""
    import belvedere as bv

    home = CACHE / f"sketches-{rows}"
    shutil.rmtree(home, ignore_errors=True)
    with bv.connect(home) as lake:
        return LakeFigures(lake, rows, quick).all()


class Figures:
    """What is measured in one lake."""

    def __init__(self, lake: Any) -> None:
        self.lake = lake

    def insert(self, table: str, count: int) -> None:
        """Rows of a table once more, in one commit."""
        some = f"SELECT * FROM {table} LIMIT {count}"
        self.lake.sql(f"INSERT INTO {table} {some}")

    def against_capture(self, name: str, table: str) -> dict[str, Any]:
        """Capture on Spark beside maintenance, after inserts of 10 and 1000 rows."""
        capture = self.timed(lambda: self.lake.refresh(name, full=True))[0]
        out: dict[str, Any] = {"capture_ms": round(1000 * capture)}
        for count in (10, 1000):
            ends, engines = [], []
            for _ in range(4):
                self.insert(table, count)
                seconds, done = self.timed(lambda: self.lake.refresh(name))
                assert done.strategy == "maintain", done
                ends.append(seconds)
                engines.append(done.engine_seconds)
            engine, end = statistics.median(engines), statistics.median(ends)
            out[f"d{count}"] = {
                "engine_ms": round(1000 * engine, 2),
                "end_ms": round(1000 * end, 1),
                "engine_ratio": round(capture / engine, 1),
                "end_ratio": round(capture / end, 1),
            }
        print(f"{name}: {json.dumps(out)}")
        return out

    def gain(self, name: str, text: str) -> dict[str, Any]:
        """The query without its sketch, and through it."""
        answer = self.lake.explain_query(text)
        if answer.sketch is None:
            return {"why": str(answer).splitlines()[0]}
        plain, through = [], []
        for _ in range(4):
            plain.append(self.timed(lambda: self.lake.sql(text).collect())[0])
            through.append(self.timed(lambda: self.lake.query(text).collect())[0])
        out = {
            "kept": f"{answer.kept} of {answer.fragments}",
            "files_skipped": [f"{s.files} of {s.of_files}" for s in answer.skipped],
            "plain_ms": round(1000 * statistics.median(plain[1:])),
            "through_ms": round(1000 * statistics.median(through[1:])),
        }
        out["gain"] = round(out["plain_ms"] / max(out["through_ms"], 1), 2)
        print(f"{name}: {json.dumps(out)}")
        return out

    @staticmethod
    def timed(run: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds, and what came of it."""
        start = time.perf_counter()
        done = run()
        return time.perf_counter() - start, done


class LakeFigures(Figures):
    """The figures of one lake with the synthetic tables."""

    def __init__(self, lake: Any, rows: int, quick: bool) -> None:
        super().__init__(lake)
        self.rows, self.quick = rows, quick
        self.next = 10 * rows
        self.whole = synthetic.table(rows, GROUPS).sort_by("a")
        self.write("r", self.whole, files=32)
        self.write("helper", synthetic.helper(GROUPS, 1))
        self.write("crimes", synthetic.crimes(rows // 2))

    def write(self, name: str, rows: pa.Table, files: int = 1) -> None:
        """A Delta table with its changes recorded, in so many files."""
        from deltalake import write_deltalake

        path = str(Path(self.lake._door.directory) / name)
        step = -(-rows.num_rows // files)
        for start in range(0, rows.num_rows, step):
            feed = {"delta.enableChangeDataFeed": "true"} if start == 0 else None
            part = rows.slice(start, step)
            write_deltalake(path, part, mode="append", configuration=feed)

    def all(self) -> dict[str, Any]:
        """Every figure."""
        per_group = self.rows / GROUPS
        queries = {
            "q_having": (TWO.format(int(per_group * 1700)), "PARTITION r BY a INTO 1000 FRAGMENTS"),
            "q_sum": (SPREAD.format(int(per_group * 2700)), "PARTITION r BY a INTO 1000 FRAGMENTS"),
            "q_join": (
                "SELECT a, avg(b) AS ab FROM r JOIN helper ON a = ttid WHERE b < 4000 GROUP BY a HAVING avg(c) > 2150",
                "PARTITION r BY a INTO 1000 FRAGMENTS",
            ),
            "cq1": (
                "SELECT beat, year, count(id) AS n FROM crimes GROUP BY beat, year HAVING count(id) > "
                + str(self.rows // 400),
                "PARTITION crimes BY beat INTO 100 FRAGMENTS",
            ),
            "cq2": (
                "SELECT district, community_area, ward, beat, count(beat) AS n FROM crimes "
                "GROUP BY district, community_area, ward, beat HAVING count(id) > "
                + str(self.rows // 20),
                "PARTITION crimes BY beat INTO 100 FRAGMENTS",
            ),
        }
        found: dict[str, Any] = {"vs_capture": {}, "feed_ms": {}, "query_gain": {}}
        for name, (text, clause) in queries.items():
            self.lake.sql(f"CREATE SKETCH {name} ON {text} {clause}")
            table = "crimes" if "crimes" in text else "r"
            found["vs_capture"][name] = self.against_capture(name, table)
            found["query_gain"][name] = self.gain(name, text)
        found["by_sql"] = self.by_sql("q_having")
        found["break_even"] = self.break_even("q_having")
        found["mixed"] = self.mixed(queries["q_having"][0])
        return found

    def by_sql(self, name: str) -> dict[str, Any]:
        """The same sketch kept by SQL on Spark alone, beside ours, after 1000 new rows."""
        live = self.lake._sketches.service.live(name)
        least = int(self.rows / GROUPS * 1700)
        having = f"s_c / n < 1000 AND s_b >= {least}"
        other = BySql(self.lake, "r", "a", ["b", "c"], having, live.definition.partitions[0])
        ours, theirs = [], []
        for _ in range(3):
            self.insert("r", 1000)
            ours.append(self.timed(lambda: self.lake.refresh(name))[0])
            seconds, kept = self.timed(other.refresh)
            theirs.append(seconds)
            bitmap = self.lake._sketches.service.live(name).bitmaps[0]
            assert kept == set(np.flatnonzero(bitmap).tolist()), "the two sketches differ"
        out = {
            "engine_s": round(statistics.median(ours), 3),
            "sql_s": round(statistics.median(theirs), 3),
        }
        print(f"by_sql: {json.dumps(out)}")
        return out

    def break_even(self, name: str) -> dict[str, Any]:
        """At which share of changed rows capture wins, and where the cost model says so."""
        from belvedere.sketches.costs import Costs

        capture = self.timed(lambda: self.lake.refresh(name, full=True))[0]
        measured: list[tuple[int, float]] = []
        for share in (0.001, 0.01, 0.05) if self.quick else (0.001, 0.01, 0.05, 0.1):
            count = int(self.rows * share)
            self.insert("r", count)
            measured.append((count, self.timed(lambda: self.lake.refresh(name))[0]))
        (n0, s0), (n1, s1) = measured[0], measured[-1]
        slope = max(s1 - s0, 1e-9) / (n1 - n0)
        costs = Costs.of(self.lake._sketches.service.definition(name).costs)
        out = {
            "capture_s": round(capture, 2),
            "maintain_s": [[n, round(s, 3)] for n, s in measured],
            "rows_measured": round((capture - s0) / slope),
            "rows_by_model": None if costs.break_even is None else round(costs.break_even),
        }
        print(f"break_even: {json.dumps(out)}")
        return out

    def mixed(self, text: str) -> dict[str, Any]:
        """Updates and queries in turn: no sketch, recapture, maintain."""
        out: dict[str, Any] = {}
        steps = {"1U1Q": "UQ", "1U5Q": "UQQQQQ", "5U1Q": "UUUUUQ"}
        times = 1 if self.quick else 5
        for name, pattern in steps.items():
            for count in (20, 2000):
                spent = {
                    way: self.timed(partial(self.play, pattern * times, count, text, way))[0]
                    for way in ("none", "recapture", "maintain")
                }
                out[f"{name} {count}"] = {k: round(v, 2) for k, v in spent.items()}
        print(f"mixed: {json.dumps(out)}")
        return out

    def play(self, pattern: str, count: int, text: str, way: str) -> None:
        """One run of updates and queries."""
        for step in pattern:
            if step == "U":
                self.insert("r", count)
            elif way == "none":
                self.lake.sql(text).collect()
            else:
                if way == "recapture":
                    self.lake.refresh("q_having", full=True)
                self.lake.query(text).collect()

    def insert(self, table: str, count: int) -> None:
        """New rows, by delta-rs."""
        from deltalake import write_deltalake

        self.next += count
        if table == "crimes":
            rows = synthetic.crimes(count, seed=self.next)
        else:
            rows = synthetic.table(count, GROUPS, seed=self.next, first=self.next % 2_000_000_000)
        write_deltalake(str(Path(self.lake._door.directory) / table), rows, mode="append")


if __name__ == "__main__":
    main()
