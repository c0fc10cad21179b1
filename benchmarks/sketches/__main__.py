"""Sketches: how fast they are kept, against capturing them anew, and what queries gain by them.

    python -m benchmarks.sketches [--quick] [--parts engine sweeps lake even gain joins mixed tpch]
        [--rows N] [--scale N] [--operations N]

The figures of `engine` and `sweeps` need no Spark: batches of changes in Arrow, the paper's
synthetic table. The others are measured end to end on Delta tables of the same rows, beside capture
by Spark. One line per figure, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.relations import Rel
from belvedere.analyses.types import types
from belvedere.joins.partitions import Partition, equi_width
from belvedere.memory.plans import Memory
from belvedere.rules.delta import delta
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.engine.engine import SketchEngine
from belvedere.sql.binder.bind import Relation, bind
from belvedere.sql.render import SIGN
from benchmarks.data import synthetic_groups
from benchmarks.sketches.on_delta import FRAGMENTS, GROUPS, SPREAD, TWO, lake_figures, tpch_figures

ON_SPARK = ("lake", "even", "gain", "joins", "mixed")
WHOLE = ("engine", "sweeps", *ON_SPARK)
QUICK = ("engine", "lake", "even", "gain", "mixed")
SHARES = (0.01, 0.05)
TEN = (
    "SELECT a FROM r GROUP BY a HAVING avg(b) > 0 AND avg(c) < 1000 AND avg(d) < 1200 AND avg(e) > 0 "
    "AND avg(f) > 0 AND avg(g) > 0 AND avg(h) > 0 AND avg(i) > 0 AND avg(j) > 0 AND sum(c) > 5"
)
LEAST = "SELECT a, min(b) AS m FROM r GROUP BY a HAVING min(b) < 100 AND max(c) > 300"


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.sketches", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a million rows, two minutes")
    parser.add_argument("--rows", type=int, help="rows of the synthetic table")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H (default 1)")
    parser.add_argument("--operations", type=int, help="of each mixed workload")
    parser.add_argument("--parts", nargs="+", choices=[*WHOLE, "tpch"])
    options = parser.parse_args()
    options.parts = options.parts or (QUICK if options.quick else WHOLE)
    rows = options.rows or (1_000_000 if options.quick else 10_000_000)
    operations = options.operations or (6 if options.quick else 60)
    found: dict[str, Any] = {"rows": rows, "groups": GROUPS, "fragments": FRAGMENTS}
    if "engine" in options.parts:
        found |= engine_figures(rows)
    if "sweeps" in options.parts:
        found |= sweep_figures(rows)
    on_spark = [p for p in ON_SPARK if p in options.parts]
    if on_spark:
        found |= lake_figures(rows, on_spark, operations, quick=options.quick)
    if "tpch" in options.parts:
        found |= tpch_figures(options.scale)
    print(json.dumps(found))


class Catalog:
    """The synthetic table by its name."""

    def resolve(self, name: str) -> Relation:
        """The one table there is."""
        columns = tuple((c, "int") for c in ("id", "a", *synthetic_groups.COLUMNS))
        return Relation(columns, table=name)


def ask(texts: Mapping[str, str], _known: Mapping[str, str]) -> dict[str, str]:
    """Columns of integers stay integers."""
    return dict.fromkeys(texts, "int")


class Kept:
    """A sketch that an engine keeps, fed batches of Arrow."""

    def __init__(
        self, text: str, partition: Partition, room: int = 16, *, loose: bool = False
    ) -> None:
        self.plan: Rel = bind(text, Catalog()).plan
        found = sketch_block(self.plan, [partition])
        self.feed = found.feeds[0]
        self.engine = SketchEngine(
            found, [partition], types(self.feed.plan, ask), room, loose=loose
        )
        self.change = delta(self.feed.plan, {"r"})

    def take(self, rows: pa.Table, signs: np.ndarray) -> float:  # type: ignore[type-arg]
        """Seconds of this process from a batch of signed rows to the new sketch."""
        batch = rows.append_column(SIGN, pa.array(signs))
        start = time.process_time()
        self.engine.take(0, Memory(lambda _leaf: batch, most=1 << 40).rows(self.change))
        self.engine.finish()
        return time.process_time() - start

    def begin(self, whole: pa.Table) -> float:
        """Seconds to take in everything."""
        spent = 0.0
        for start in range(0, whole.num_rows, 1 << 20):
            part = whole.slice(start, 1 << 20)
            spent += self.take(part, np.ones(part.num_rows, np.int64))
        return spent


def engine_figures(rows: int) -> dict[str, Any]:
    """What the engine takes, without the read of the changes."""
    whole = synthetic_groups.table(rows, GROUPS)
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


def _batches(kept: Kept, whole: pa.Table, count: int, groups: int = GROUPS) -> float:
    """Milliseconds of a batch, the median; each is taken back before the next."""
    spent = []
    for seed in range(2, 9 if count <= 1000 else 7):
        rows, signs = synthetic_groups.changed(whole, count, groups, seed)
        spent.append(1000 * kept.take(rows, signs))
        kept.take(rows, -signs)
    return statistics.median(spent[1:])


def sweep_figures(rows: int) -> dict[str, Any]:
    """How the engine's time for 1000 changed rows follows groups, fragments and aggregates."""
    whole = synthetic_groups.table(rows, GROUPS)
    by_group = equi_width("r", "a", "int", 0, GROUPS, FRAGMENTS)
    least = int(rows / GROUPS * 2600)
    found: dict[str, Any] = {"q_groups_ms": {}, "q_sketch_ms": {}, "q_having_ms": {}}
    for groups in (50, 1000, 5000, 50_000, 500_000):
        some = synthetic_groups.table(rows, groups)
        cut = equi_width("r", "a", "int", 0, groups, min(groups, FRAGMENTS))
        found["q_groups_ms"][groups] = _after_1000(Kept(TWO.format(rows // 5), cut), some, groups)
    for count in (10, 100, 1000, 5000):
        cut = equi_width("r", "id", "int", 0, rows, count)
        found["q_sketch_ms"][count] = _after_1000(Kept(SPREAD.format(least), cut), whole)
    for count in (1, 2, 3, 10):
        having = " AND ".join(f"avg({c}) > 0" for c in (*synthetic_groups.COLUMNS, "id")[:count])
        text = f"SELECT a FROM r GROUP BY a HAVING {having}"
        found["q_having_ms"][count] = _after_1000(Kept(text, by_group), whole)
    found["loose_ms"] = _loosely(whole, least)
    for name, figures in found.items():
        print(f"{name}: {json.dumps(figures)}")
    return found


def _after_1000(kept: Kept, whole: pa.Table, groups: int = GROUPS) -> float:
    kept.begin(whole)
    return round(_batches(kept, whole, 1000, groups), 2)


def _loosely(whole: pa.Table, least: int) -> dict[str, list[float]]:
    """A batch of 1000 rows and of 1 %, half of them going: noted in fragments, or not."""
    by_key = equi_width("r", "id", "int", 0, whole.num_rows, FRAGMENTS)
    found = {}
    for name, loose in (("accurate", False), ("loose", True)):
        kept = Kept(SPREAD.format(least), by_key, loose=loose)
        kept.begin(whole)
        sizes = (1000, whole.num_rows // 100)
        found[name] = [round(_batches(kept, whole, n), 2) for n in sizes]
    return found


if __name__ == "__main__":
    main()
