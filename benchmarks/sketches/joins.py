"""Sketches of joins: Q_join, Q_joinsel and Q_selpd (IMP §10.5, §10.6), with and without Bloom filter
and pushed selections. A refresh is timed after new rows of the large table.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from belvedere.sketches import upkeep
from benchmarks.data import synthetic_groups
from benchmarks.sketches.on_delta import BY_A, GROUPS

if TYPE_CHECKING:
    from benchmarks.sketches.on_delta import LakeFigures

JOIN_IDS = 40_000_000
"""Up to which number rows of Q_joinsel's other table are spread."""
JOINS = ((1, 50), (1, 5000), (1, 500_000), (20, 5000), (50, 5000))
"""Rows of the other table that a row meets, and how many values the join's attribute has: with ten
million rows the paper's 1-200K, 1-2K, 1-20, 20-2K and 50-2K."""
SELECTED = (0.01, 0.1)
PASSING = (0.02, 0.5)
USUAL = upkeep.BLOOM_FROM


def joined(figures: LakeFigures, *, quick: bool) -> dict[str, Any]:
    """All of it; `quick` takes one join of each kind."""
    return {
        "join_ms": _joins(figures, (JOINS[1], JOINS[3]) if quick else JOINS),
        "q_joinsel": _selective(figures),
        "q_selpd": _pushed(figures),
    }


@contextmanager
def _blooms(usual: bool) -> Iterator[None]:
    upkeep.BLOOM_FROM = USUAL if usual else 1 << 60
    try:
        yield
    finally:
        upkeep.BLOOM_FROM = USUAL


def _joins(figures: LakeFigures, joins: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Q_join: both tables have as many rows, and 1000 come to the one that is grouped."""
    lake, out = figures.lake, dict[str, Any]()
    for other, groups in joins:
        left, right = f"j_{groups}", f"m_{other}"
        names = lake._door.names()
        if left not in names:
            figures.write(left, synthetic_groups.table(figures.rows, groups).sort_by("a"), files=8)
        if right not in names:
            ids = np.arange(figures.rows) // other
            figures.write(right, pa.table({"ttid": pa.array(ids, pa.int32())}), files=8)
        text = (
            f"SELECT a, avg(b) AS ab FROM {left} JOIN {right} ON a = ttid "
            f"WHERE b < {2 * groups} GROUP BY a HAVING avg(c) < {groups // 4}"
        )
        for kind in ("bloom", "no_bloom"):
            with _blooms(kind == "bloom"):
                clause = BY_A.format(left)
                capture, _ = figures.timed(
                    lambda text=text, clause=clause: lake.sql(f"CREATE SKETCH j ON {text} {clause}")
                )
                spent = []
                for _ in range(4):
                    figures.insert(left, 1000, groups=groups)
                    spent.append(figures.timed(lambda: lake.refresh("j")))
            name = f"{other}-{figures.rows // groups} {kind}"
            out[name] = {"create_ms": round(1000 * capture), **_told(spent)}
            lake.sql("DROP SKETCH j")
            print(f"join {name}: {json.dumps(out[name])}", flush=True)
    return out


def _selective(figures: LakeFigures) -> dict[str, Any]:
    """Q_joinsel: of the changed rows a share meets one of the other table's, 1000 at a time."""
    lake, out, first = figures.lake, dict[str, Any](), figures.rows
    for share in SELECTED:
        name, step = f"s_{round(100 * share)}", round(1 / share)
        ids = np.arange(0, JOIN_IDS, step)
        figures.write(name, pa.table({"ttid": pa.array(ids, pa.int32())}))
        text = (
            f"SELECT a, avg(b) AS ab FROM r JOIN {name} ON id = ttid "
            "WHERE b < 4000 GROUP BY a HAVING avg(c) > 1000"
        )
        for kind in ("bloom", "no_bloom"):
            with _blooms(kind == "bloom"):
                lake.sql(f"CREATE SKETCH joined ON {text} {BY_A.format('r')}")
                spent = []
                for _ in range(4):
                    figures.insert("r", 1000, first)
                    first += 1000
                    spent.append(figures.timed(lambda: lake.refresh("joined")))
            out[f"{share:g} {kind}"] = _told(spent)
            lake.sql("DROP SKETCH joined")
    print(f"q_joinsel: {json.dumps(out)}", flush=True)
    return out


def _told(spent: list[tuple[float, Any]]) -> dict[str, Any]:
    """The refreshes after the first, which compiles."""
    return {
        "ms": round(1000 * statistics.median(seconds for seconds, _ in spent[1:]), 1),
        "engine_ms": round(
            1000 * statistics.median(d.details["engine_seconds"] for _, d in spent[1:]), 2
        ),
        "strategy": spent[-1][1].strategy,
    }


def _pushed(figures: LakeFigures) -> dict[str, Any]:
    """Q_selpd: 2.5 % of the table come, of which a share passes WHERE, pushed down or not."""
    lake, out = figures.lake, dict[str, Any]()
    for share in PASSING:
        text = (
            f"SELECT a, avg(b) AS ab FROM r WHERE a < {int(GROUPS * share)} "
            "GROUP BY a HAVING avg(c) < 300"
        )
        lake.sql(f"CREATE SKETCH pushed ON {text} {BY_A.format('r')}")
        service = lake._sketches.service
        usual = service.selections
        for kind, selections in (("pushed", usual), ("not_pushed", None)):
            service.selections = selections
            count = int(figures.rows * 0.025)
            spent = [figures.refreshed("pushed", "r", count)[0] for _ in range(3)]
            out[f"{share:g} {kind}"] = round(1000 * statistics.median(spent[1:]), 1)
        service.selections = usual
        lake.sql("DROP SKETCH pushed")
    print(f"q_selpd: {json.dumps(out)}", flush=True)
    return out
