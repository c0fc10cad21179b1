"""Samples of joins: inserts and deletes per second, against a symmetric join and the paper's figures.

    python -m benchmarks.synopsis --quick     scale 1, a few minutes
    python -m benchmarks.synopsis             scale 10
    python -m benchmarks.synopsis --only qy   one workload

The last line is JSON. Each workload runs in a process of its own on one core; time is that of the calls
of the synopsis alone, reading its input and compiling are not in it. Rates are per second of processor
time; `wall_rate` is by the clock on the wall, lower where other processes want the core too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.synopsis.throughput import PARTS, SAMPLE, part
from benchmarks.synopsis.workloads import BATCH, CACHE


def _kept(found: dict[str, Any], scale: int) -> dict[str, Any]:
    """What was measured at a scale in this run and before, for pictures: parts may run one at a time."""
    path = CACHE / f"synopsis-{scale}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(before | found))
    return before | found


def main() -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.synopsis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="scale 1 instead of 10")
    parser.add_argument("--scale", type=int, help="another scale")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--plots", type=Path, help="a directory for pictures")
    options = parser.parse_args()
    scale = options.scale or (1 if options.quick else 10)
    if options.here:
        print(json.dumps(part(options.here, scale, options.quick)))
        return
    found: dict[str, Any] = {"scale": scale, "sample": SAMPLE, "batch": BATCH}
    for name in options.only:
        command = [
            sys.executable,
            "-m",
            "benchmarks.synopsis",
            "--scale",
            str(scale),
            "--here",
            name,
        ]
        if options.quick:
            command.append("--quick")
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            print(ran.stderr, file=sys.stderr)
            raise SystemExit(f"{name} failed")
        found[name] = json.loads(ran.stdout.splitlines()[-1])
        shown = {k: v for k, v in found[name].items() if k != "curve"}
        print(f"{name}: {shown}", flush=True)
    everything = _kept(found, scale)
    if options.plots:
        from benchmarks.synopsis.plots import draw

        draw(everything, options.plots)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
