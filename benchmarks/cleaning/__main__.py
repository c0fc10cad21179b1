"""Fresh answers from stale views, measured: accuracy in DuckDB and numpy, cleaning on Spark.

    python -m benchmarks.cleaning --quick      accuracy at a small scale, no Spark
    python -m benchmarks.cleaning              accuracy at a larger one, and more of it
    python -m benchmarks.cleaning --spark join cube batches [--scale 1] [--minutes 5] [--shares …]

The accuracy runs use the library's estimators on views computed by DuckDB; what is measured there
does not depend on the engine. On Spark, `join` and `cube` time cleaning beside refreshing, `batches`
runs both together. One JSON line comes last; `--figures DIR` draws what was run.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from benchmarks.cleaning import figures
from benchmarks.cleaning.accuracy import accuracy

CACHE = Path(".cache/benchmarks")


def main() -> None:
    """Run, and print what was found."""
    parser = argparse.ArgumentParser(
        "benchmarks.cleaning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spark", nargs="+", choices=("join", "cube", "batches"), default=())
    parser.add_argument("--scale", type=float)
    parser.add_argument(
        "--minutes", type=float, default=5, help="with --spark: when to begin no other round"
    )
    parser.add_argument(
        "--periodic",
        type=float,
        default=45,
        metavar="SECONDS",
        help="of batches: how long refreshes run, alone and with cleanings",
    )
    parser.add_argument(
        "--shares", nargs="+", type=float, help="with --spark: only these shares of changes"
    )
    parser.add_argument("--figures", metavar="DIR", help="draw the figures here")
    arguments = parser.parse_args()
    if arguments.spark:
        on_spark(arguments)
        return
    began = time.monotonic()
    scale = arguments.scale or (0.1 if arguments.quick else 0.5)
    found = accuracy(scale, instances=100, quick=arguments.quick)
    if arguments.figures:
        figures.draw(found, Path(arguments.figures))
    found["seconds"] = round(time.monotonic() - began, 1)
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    found["processor_seconds"] = round(sum(u.ru_utime + u.ru_stime for u in used), 1)
    print(json.dumps({k: v for k, v in found.items() if not k.startswith("_")}))


def on_spark(arguments: argparse.Namespace) -> None:
    """Run parts that need Spark, draw and print them."""
    from benchmarks.cleaning.batches import batches
    from benchmarks.cleaning.on_spark import SHARES, WORKLOADS, measured

    scale = arguments.scale or 1.0
    for part in arguments.spark:
        if part == "batches":
            found = batches(int(1_500_000 * scale), CACHE, arguments.periodic)
        else:
            shares = tuple(arguments.shares or SHARES)
            found = measured(WORKLOADS[part], scale, CACHE, arguments.minutes, shares)
        if arguments.figures:
            figures.draw_spark(part, found, Path(arguments.figures))
        print(json.dumps({part: found}), flush=True)


if __name__ == "__main__":
    main()
