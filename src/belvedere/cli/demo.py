"""Command `demo`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from belvedere.cli.command import OK, AddCommand


def add_commands(command: AddCommand) -> None:
    """Add `demo`."""
    demo = command(
        "demo", _demo, "demonstrate views and refreshes on a lake of its own", as_json=False
    )
    demo.add_argument("--keep", metavar="DIR", help="create the lake in this directory and keep it")


def _demo(arguments: argparse.Namespace) -> int:
    from belvedere.cli.demonstration import demonstrate

    # Without the second compiler a JVM that runs for a minute is faster.
    os.environ.setdefault(
        "BELVEDERE_SPARK", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
    )
    demonstrate(print, None if arguments.keep is None else Path(arguments.keep))
    return OK
