"""The victim of the kill tests: refreshes all views when told to, until it is killed.

    kill_script.py WHERE [STEP before|after]

WHERE is the address of a Spark Connect server, or a lake's directory for a Spark of its own. With
a step it kills itself there; otherwise whoever started it does, at a time of their choosing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

import belvedere as bv
from belvedere.derivations.advance import _Advancing
from belvedere.derivations.ledger import Ledger
from belvedere.execution import costs
from belvedere.lake import pins
from belvedere.lake.writes import commits, upkeep

STEPS: dict[str, tuple[Any, str]] = {
    "open a version": (pins, "open_version"),
    "read changes": (pins, "_as_signs"),
    "check the fence": (commits, "_check_fence"),
    "merge by delta-rs": (commits, "merge_rows"),
    "replace by delta-rs": (commits, "replace_rows"),
    "write by Spark": (commits, "_retried"),
    "move the vector": (commits, "_move_local"),
    "read back": (commits, "_read_back"),
    "go on from parts to their view": (_Advancing, "_with_inner"),
    "look after a table": (upkeep, "keep_up"),
    "note it in the ledger": (Ledger, "__exit__"),
}


def main(where: str, step: str = "", when: str = "") -> None:
    lake = bv.connect(_session(where) if "://" in where else where)
    # As in conftest.py: every step is come to, however long refreshes take.
    costs.WORTH_IT = 0.0
    if step == "look after a table":
        upkeep.EVERY = 1
    if step:
        module, name = STEPS[step]
        setattr(module, name, _deadly(getattr(module, name), when))
    _say("ready")
    for _ in sys.stdin:
        lake.refresh()
        _say("refreshed")


def _session(where: str) -> SparkSession:
    spark = SparkSession.builder.remote(where).getOrCreate()
    spark.sql("USE kills")
    return spark


def _deadly(step: Callable[..., Any], when: str) -> Callable[..., Any]:
    def run(*args: Any, **named: Any) -> Any:
        if when == "after":
            step(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return run


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
