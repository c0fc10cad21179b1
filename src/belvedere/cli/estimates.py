"""`belvedere estimate`: fresh answers from views that are behind; `belvedere clean`: their samples."""

from __future__ import annotations

import argparse

from belvedere.cli.invocation import OK, Adder, lake, print_json
from belvedere.cli.progress import working


def add(command: Adder) -> None:
    """Add the commands."""
    made = command(
        "estimate", _estimate, "answer a query on a sampled view as of now, with intervals"
    )
    made.add_argument("query", metavar="SELECT", help="a query on a view that has a sample")
    made.add_argument("--confidence", type=float, default=95, metavar="PERCENT", help="default: 95")
    made.add_argument("--method", default="AUTO", metavar="AUTO|AQP|CORR", help="default: AUTO")
    made.add_argument("--no-clean", action="store_true", help="answer as of the sample's versions")
    made.add_argument("--explain", action="store_true", help="say where the answer comes from")
    made.add_argument("--plot", metavar="FILE", help="draw estimates beside the stale answers")
    made = command("clean", _clean, "bring a view's sample, not the view, to the newest versions")
    made.add_argument("view", metavar="VIEW")


def _estimate(arguments: argparse.Namespace) -> int:
    with lake(arguments) as opened, working("estimating"):
        found = opened.estimate(
            arguments.query,
            confidence=arguments.confidence / 100,
            method=arguments.method,
            clean=not arguments.no_clean,
        )
    if arguments.json:
        print_json(found.arrow().to_pylist())
    else:
        print(found)
        if arguments.explain:
            print(f"\n{found.explain()}")
    if arguments.plot:
        found.plot(arguments.plot)
    return OK


def _clean(arguments: argparse.Namespace) -> int:
    with lake(arguments) as opened, working(f"cleaning the sample of {arguments.view}"):
        done = opened.clean(arguments.view)
    print_json(done.refreshes) if arguments.json else print(done)
    return OK
