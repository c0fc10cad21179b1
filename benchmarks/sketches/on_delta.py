"""Sketches end to end on Delta tables: change feed, maintenance, capture and queries on Spark."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.sketches.costs import Costs
from benchmarks.data import synthetic_groups
from benchmarks.sketches.sql_baseline import BySql

CACHE = Path(".cache/benchmarks")
GROUPS, FRAGMENTS = 5000, 1000
TWO = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 1000 AND sum(b) >= {}"
SPREAD = "SELECT a, sum(c) AS sc FROM r GROUP BY a HAVING sum(c) >= {} AND count(b) > 1"
# c follows a // 2 with noise of 0 to 499: its average is above this for the last hundredth of a.
HUNDREDTH = "SELECT a, avg(b) AS ab, sum(c) AS sc FROM {} GROUP BY a HAVING avg(c) >= 2725"
WARM, COUNTED = 4, 6
"""Rounds of queries: a short one is slow until the JVM has compiled its way."""
SHARES = (1, 10, 50, 100, 250, 500, 1000)
"""Thousandths of the rows that are updated at once."""
BY_A = "PARTITION {} BY a INTO 1000 FRAGMENTS"
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
    from benchmarks.data import tpch

    home = CACHE / f"sketches-tpch-{scale:g}"
    fresh = not home.exists()
    with bv.connect(home) as lake:
        if fresh:
            tpch.load(lake, tpch.data(scale, CACHE), ("customer", "orders", "lineitem"))
        else:  # rows that a run before this one put in again would make a few orders the largest
            lake.sql("RESTORE TABLE lineitem TO VERSION AS OF 1")
        figures = Figures(lake)
        out: dict[str, Any] = {"scale": scale, "vs_capture": {}, "query_gain": {}}
        out["query_gain"]["q18_hundredth"] = figures.hundredth()
        for name, (text, clause) in TPCH.items():
            lake.sql(f"CREATE OR REPLACE SKETCH {name} ON {text} {clause}")
            out["vs_capture"][name] = figures.against_capture(name, "lineitem")
        for name, (text, _) in TPCH.items():
            out["query_gain"][name] = figures.gain(name, text)
            lake.sql(f"DROP SKETCH {name}")
        return {"tpch": out}


def lake_figures(
    rows: int, parts: Sequence[str], operations: int, *, quick: bool
) -> dict[str, Any]:
    """The figures of some parts, in a lake of their own."""
    import belvedere as bv
    from benchmarks.sketches.joins import joined
    from benchmarks.sketches.mixed import mixed

    home = CACHE / f"sketches-{rows}"
    shutil.rmtree(home, ignore_errors=True)
    out: dict[str, Any] = {}
    with bv.connect(home) as lake:
        figures = LakeFigures(lake, rows, quick=quick)
        if "lake" in parts:
            out |= figures.kept()
        if "gain" in parts:
            out["clustered"] = figures.clustered()
        if "joins" in parts:
            out |= joined(figures, quick=quick)
        if "mixed" in parts:
            sizes = (2000,) if quick else (1, 20, 200, 2000)
            out["mixed"] = mixed(figures, operations, sizes)
        if "even" in parts:  # last, for it writes the whole table anew
            out["break_even"] = figures.break_even()
    return out


class Figures:
    """What is measured in one lake."""

    def __init__(self, lake: Any, *, quick: bool = False) -> None:
        self.lake = lake
        self.quick = quick

    def insert(self, table: str, count: int) -> None:
        """Rows of a table once more, in one commit."""
        some = f"SELECT * FROM {table} LIMIT {count}"
        self.lake.sql(f"INSERT INTO {table} {some}")

    def against_capture(self, name: str, table: str) -> dict[str, Any]:
        """Capture on Spark beside maintenance, after inserts of 10 and 1000 rows."""
        capture = self.timed(lambda: self.lake.refresh(name, full=True))[0]
        out: dict[str, Any] = {"capture_ms": round(1000 * capture)}
        # The first batch compiles.
        self.refreshed(name, table, 10)
        for count in (10, 1000):
            runs = [self.refreshed(name, table, count) for _ in range(5)]
            engine = statistics.median(done.details["engine_seconds"] for _, done in runs)
            end, mean = (f([seconds for seconds, _ in runs]) for f in _CENTRES)
            out[f"d{count}"] = {
                "engine_ms": round(1000 * engine, 2),
                "end_ms": round(1000 * end, 1),
                "mean_ms": round(1000 * mean, 1),
                "engine_ratio": round(capture / engine, 1),
                "end_ratio": round(capture / end, 1),
            }
        print(f"{name}: {json.dumps(out)}", flush=True)
        return out

    def refreshed(self, name: str, table: str, count: int) -> tuple[float, Any]:
        """Seconds of a refresh after so many new rows, and what it did: from the changes."""
        self.insert(table, count)
        seconds, done = self.timed(lambda: self.lake.refresh(name))
        assert done.strategy == "merge", done
        return seconds, done

    def gain(self, name: str, text: str) -> dict[str, Any]:
        """The query without its sketch, and through it; the same rows."""
        answer = self.lake.explain_query(text)
        if answer.sketch is None:
            return {"why": str(answer).splitlines()[0]}
        plain, through, finding = [], [], []
        warm, counted = (1, 3) if self.quick else (WARM, COUNTED)
        for _ in range(warm + counted):
            finding.append(self.timed(lambda: self.lake._sketches.route(text))[0])
            seconds, wanted = self.timed(lambda: self.lake.sql(text).collect())
            plain.append(seconds)
            seconds, found = self.timed(lambda: self.lake.query(text).collect())
            through.append(seconds)
            assert sorted(map(str, wanted)) == sorted(map(str, found))
        out = {
            "kept": f"{answer.kept} of {answer.fragments}",
            "files_skipped": [f"{s.files} of {s.of_files}" for s in answer.skipped],
            "plain_ms": round(1000 * statistics.median(plain[warm:])),
            "through_ms": round(1000 * statistics.median(through[warm:])),
            "finding_ms": round(1000 * statistics.median(finding[warm:])),
        }
        out["gain"] = round(out["plain_ms"] / max(out["through_ms"], 1), 2)
        print(f"{name}: {json.dumps(out)}", flush=True)
        return out

    def hundredth(self) -> dict[str, Any]:
        """The ten largest orders of TPC-H: a hundredth of the fragments, on a clustered table."""
        sums = "SELECT {} sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey"
        largest = f"{sums.format('')} ORDER BY q DESC LIMIT 10"
        least = self.lake.spark.sql(largest).collect()[-1]["q"]
        text = f"{sums.format('l_orderkey,')} HAVING sum(l_quantity) >= {least}"
        clause = "PARTITION lineitem BY l_orderkey INTO 1000 FRAGMENTS"
        self.lake.sql(f"CREATE OR REPLACE SKETCH hundredth ON {text} {clause}")
        print(self.lake.sql("CLUSTER SKETCH hundredth").collect()[0][0], flush=True)
        out = self.gain("q18_hundredth", text)
        self.lake.sql("DROP SKETCH hundredth")
        return out

    @staticmethod
    def timed(run: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds, and what came of it."""
        start = time.perf_counter()
        done = run()
        return time.perf_counter() - start, done


_CENTRES = (statistics.median, statistics.fmean)


def _crossing(measured: Sequence[tuple[int, float]], level: float) -> int:
    """Where lines through what was measured pass a level; behind the last, the last one goes on."""
    pairs = list(pairwise(measured))
    (n0, s0), (n1, s1) = next((pair for pair in pairs if pair[1][1] > level), pairs[-1])
    return round(n0 + (level - s0) / max(s1 - s0, 1e-9) * (n1 - n0))


class LakeFigures(Figures):
    """The figures of one lake with the synthetic tables."""

    def __init__(self, lake: Any, rows: int, *, quick: bool) -> None:
        super().__init__(lake, quick=quick)
        self.rows = rows
        self.next = 100_000_000
        self.write("r", synthetic_groups.table(rows, GROUPS).sort_by("a"), files=32)
        self.write("helper", synthetic_groups.helper(GROUPS, 1))
        self.write("crimes", synthetic_groups.crimes(rows // 2))

    def write(self, name: str, rows: pa.Table, files: int = 1) -> None:
        """A Delta table with its changes recorded, in so many files."""
        from deltalake import write_deltalake

        path = str(Path(self.lake._door.directory) / name)
        step = -(-rows.num_rows // files)
        for start in range(0, rows.num_rows, step):
            feed = {"delta.enableChangeDataFeed": "true"} if start == 0 else None
            part = rows.slice(start, step)
            write_deltalake(path, part, mode="append", configuration=feed)

    def insert(
        self, table: str, count: int, first: int | None = None, groups: int = GROUPS
    ) -> None:
        """New rows, by delta-rs."""
        from deltalake import write_deltalake

        self.next += count
        if table == "crimes":
            rows = synthetic_groups.crimes(count, seed=self.next)
        else:
            start = self.next if first is None else first
            rows = synthetic_groups.table(count, groups, seed=self.next, first=start)
        write_deltalake(str(Path(self.lake._door.directory) / table), rows, mode="append")

    def kept(self) -> dict[str, Any]:
        """Every query, kept and asked."""
        per_group = self.rows / GROUPS
        joined = "SELECT a, avg(b) AS ab FROM r JOIN helper ON a = ttid WHERE b < 4000 GROUP BY a"
        crimes = "SELECT district, community_area, ward, beat, count(beat) AS n FROM crimes"
        by_beat = "PARTITION crimes BY beat INTO 100 FRAGMENTS"
        queries = {
            "q_having": (TWO.format(int(per_group * 1700)), BY_A.format("r")),
            "q_sum": (SPREAD.format(int(per_group * 2700)), BY_A.format("r")),
            "q_join": (f"{joined} HAVING avg(c) > 2150", BY_A.format("r")),
            "cq1": (
                "SELECT beat, year, count(id) AS n FROM crimes GROUP BY beat, year "
                f"HAVING count(id) > {self.rows // 400}",
                by_beat,
            ),
            "cq2": (
                f"{crimes} GROUP BY district, community_area, ward, beat "
                f"HAVING count(id) > {self.rows // 20}",
                by_beat,
            ),
        }
        if self.quick:
            queries = {name: queries[name] for name in ("q_having", "q_join", "cq1")}
        found: dict[str, Any] = {"vs_capture": {}, "query_gain": {}}
        for name, (text, clause) in queries.items():
            self.lake.sql(f"CREATE SKETCH {name} ON {text} {clause}")
            table = "crimes" if "crimes" in text else "r"
            found["vs_capture"][name] = self.against_capture(name, table)
            found["query_gain"][name] = self.gain(name, text)
        if not self.quick:
            found["by_sql"] = self.by_sql("q_having")
        for name in queries:
            self.lake.sql(f"DROP SKETCH {name}")
        return found

    def clustered(self) -> dict[str, Any]:
        """A query for the last hundredth of the groups: over a table in their order; unless it
        must be quick, over one that is not, and over the latter after CLUSTER SKETCH.
        """
        out = {"in_order": self._hundredth_of("r", "in_order")}
        self.lake.sql("DROP SKETCH in_order")
        if self.quick:
            return out
        self.write("mixed_up", synthetic_groups.table(self.rows, GROUPS), files=32)
        out["not_in_order"] = self._hundredth_of("mixed_up", "not_in_order")
        seconds, told = self.timed(lambda: self.lake.sql("CLUSTER SKETCH not_in_order").collect())
        print(f"{told[0][0]}, in {seconds:.1f} s")
        out["after_cluster"] = self.gain("after_cluster", HUNDREDTH.format("mixed_up"))
        out["cluster_s"] = round(seconds, 1)
        self.lake.sql("DROP SKETCH not_in_order")
        return out

    def _hundredth_of(self, table: str, name: str) -> dict[str, Any]:
        text = HUNDREDTH.format(table)
        self.lake.sql(f"CREATE SKETCH {name} ON {text} {BY_A.format(table)}")
        return self.gain(name, text)

    def by_sql(self, name: str) -> dict[str, Any]:
        """The same sketch kept by SQL on Spark alone, beside ours, after 1000 new rows."""
        live = self.lake._sketches.service.live(name)
        least = int(self.rows / GROUPS * 1700)
        having = f"s_c / n < 1000 AND s_b >= {least}"
        other = BySql(self.lake, "r", "a", ["b", "c"], having, live.definition.partitions[0])
        ours, theirs = [], []
        for _ in range(3):
            ours.append(self.refreshed(name, "r", 1000)[0])
            seconds, kept = self.timed(other.refresh)
            theirs.append(seconds)
            bitmap = self.lake._sketches.service.live(name).bitmaps[0]
            assert kept == set(np.flatnonzero(bitmap).tolist()), "the two sketches differ"
        out = {
            "engine_s": round(statistics.median(ours), 3),
            "sql_s": round(statistics.median(theirs), 3),
        }
        print(f"by_sql: {json.dumps(out)}", flush=True)
        return out

    def break_even(self) -> dict[str, Any]:
        """From how many changed rows on capture wins, and where the cost model says so.

        More and more rows are updated, each time in one commit, at last all of them: the table
        stays as large as it is, and so does what a capture takes.
        """
        text = TWO.format(int(self.rows / GROUPS * 1700))
        self.lake.sql(f"CREATE SKETCH even ON {text} {BY_A.format('r')}")
        captures = [self.timed(lambda: self.lake.refresh("even", full=True))[0] for _ in range(2)]
        self.refreshed("even", "r", 10)
        measured, models = list[tuple[int, float]](), list[float | None]()
        pays, Costs.capture_pays = Costs.capture_pays, lambda _self, _rows: False  # type: ignore[method-assign]
        try:
            for thousandths in (100, 500, 1000) if self.quick else SHARES:
                self.lake.sql(f"UPDATE r SET c = c + 1 WHERE id % 1000 < {thousandths}")
                seconds, done = self.timed(lambda: self.lake.refresh("even"))
                assert done.strategy == "merge", done
                measured.append((2 * self.rows * thousandths // 1000, seconds))
                models.append(
                    Costs.of(self.lake._sketches.service.definition("even").costs).break_even
                )
        finally:
            Costs.capture_pays = pays  # type: ignore[method-assign]
        captures.append(self.timed(lambda: self.lake.refresh("even", full=True))[0])
        capture = statistics.median(captures)
        out = {
            "capture_s": round(capture, 2),
            "captures_s": [round(c, 2) for c in captures],
            "maintain_s": [[n, round(s, 3)] for n, s in measured],
            "capture_wins": measured[-1][1] > capture,
            "rows_by_line": _crossing(measured, capture),
            "rows_by_model": [None if m is None else round(m) for m in models],
        }
        print(f"break_even: {json.dumps(out)}", flush=True)
        self.lake.sql("DROP SKETCH even")
        return out
