"""Mixed workloads: updates and queries in turn, without a sketch, with one captured for each query,
and with one that is maintained (IMP §10.3). Milliseconds of an operation, on average.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.sketches.on_delta import LakeFigures

PATTERNS = {"1U1Q": "UQ", "1U5Q": "UQQQQQ", "5U1Q": "UUUUUQ"}
PART_OF = {"none": 4, "recapture": 1 << 30, "maintain": 1}
"""Of the operations, the part that each way makes. Capturing takes seconds: one round of it says as
much as many. Without a sketch an operation takes the longer the more files updates have left, so
that fewer of them speak for doing without."""
FEW = 20
"""Updates whose files are left in pieces; the maintained sketch comes last and meets them all."""


def mixed(figures: LakeFigures, operations: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Every pattern with updates of every size, so many operations of each."""
    from benchmarks.sketches.on_delta import BY_A, HUNDREDTH

    lake, text = figures.lake, HUNDREDTH.format("r")
    lake.sql(f"CREATE SKETCH played ON {text} {BY_A.format('r')}")
    for way in PART_OF:
        _play(figures, "UQ", 20, text, way)
    out: dict[str, Any] = {}
    left = FEW + 1
    for name, pattern in PATTERNS.items():
        for count in sizes:
            spent = dict.fromkeys(PART_OF, 0.0)
            times = max(operations // len(pattern), 1)
            for way in PART_OF:
                own = max(times // PART_OF[way], 1)
                # Every way begins alike: the files of the updates before are put together.
                if left > FEW:
                    lake.sql("OPTIMIZE r")
                    left = 0
                lake.refresh("played")
                left += own * pattern.count("U")
                seconds = _play(figures, pattern * own, count, text, way)
                spent[way] = round(1000 * seconds / (own * len(pattern)), 1)
            out[f"{name} {count}"] = {**spent, "best": min(spent, key=spent.__getitem__)}
            print(f"{name} {count}: {json.dumps(out[f'{name} {count}'])}", flush=True)
    lake.sql("DROP SKETCH played")
    return out


def _play(figures: LakeFigures, pattern: str, count: int, text: str, way: str) -> float:
    """Seconds of one run of updates and queries."""
    lake = figures.lake

    def run() -> None:
        for step in pattern:
            if step == "U":
                figures.insert("r", count)
            elif way == "none":
                lake.sql(text).collect()
            else:
                if way == "recapture":
                    lake.refresh("played", full=True)
                lake.query(text).collect()

    return figures.timed(run)[0]
