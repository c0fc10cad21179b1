"""belvedere synopsis: look at a sample of a join, or ask it, without Spark."""

from __future__ import annotations

import argparse

from belvedere.cli.invocation import OK, Adder, print_json, shelf


def add(command: Adder) -> None:
    """Add the command."""
    made = command("synopsis", _synopsis, "show a sample of a join, or what it says of the join")
    made.add_argument("name", metavar="SYNOPSIS")
    made.add_argument(
        "--rows", type=int, default=10, metavar="N", help="rows to show (default: 10)"
    )
    made.add_argument("--estimate", metavar="AGGREGATE", help='as in "avg(price)"')
    made.add_argument("--where", metavar="CONDITION", help="of the rows that count")
    made.add_argument("--by", metavar="COLUMNS", help="one estimate for each group")


def _synopsis(arguments: argparse.Namespace) -> int:
    from belvedere.synopses.describe import facts
    from belvedere.synopses.kind import Synopses
    from belvedere.views.catalog import canonical_name

    lake = shelf(arguments)
    kept = Synopses(lake)
    made = kept.handle(canonical_name(lake, arguments.name))
    if arguments.estimate:
        found = made.estimate(arguments.estimate, arguments.where, arguments.by)
        groups = found if isinstance(found, dict) else {(): found}
        if arguments.json:
            print_json([{"group": list(k), "estimate": e} for k, e in groups.items()])
        else:
            for key, estimate in sorted(groups.items(), key=lambda pair: str(pair[0])):
                print(*key, estimate)
        return OK
    rows = made.arrow().slice(0, arguments.rows).to_pylist()
    described = dict(facts(kept.loaded(made.name)))
    if arguments.json:
        print_json({"facts": described, "rows": rows})
    else:
        print("\n".join(f"{name}: {value}" for name, value in described.items()))
        print("\n".join(map(str, rows)))
    return OK
