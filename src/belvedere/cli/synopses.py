"""Command `synopsis`: show a sample of a join, or estimate from it, without Spark."""

from __future__ import annotations

import argparse

from belvedere.cli.command import OK, AddCommand, offline_lake, print_json


def add_commands(command: AddCommand) -> None:
    """Add `synopsis`."""
    synopsis = command("synopsis", _synopsis, "show a sample of a join, or estimate from it")
    synopsis.add_argument("name", metavar="SYNOPSIS")
    synopsis.add_argument(
        "--rows", type=int, default=10, metavar="N", help="rows to show (default: 10)"
    )
    synopsis.add_argument(
        "--estimate", metavar="AGGREGATE", help='estimate an aggregate, such as "avg(price)"'
    )
    synopsis.add_argument(
        "--where", metavar="CONDITION", help="estimate over the rows that meet the condition"
    )
    synopsis.add_argument("--by", metavar="COLUMNS", help="one estimate for each group")


def _synopsis(arguments: argparse.Namespace) -> int:
    from belvedere.synopses.describe import facts
    from belvedere.synopses.kind import Synopses
    from belvedere.views.catalog import canonical_name

    lake = offline_lake(arguments)
    kind = Synopses(lake)
    synopsis = kind.handle(canonical_name(lake, arguments.name))
    if arguments.estimate:
        result = synopsis.estimate(arguments.estimate, arguments.where, arguments.by)
        groups = result if isinstance(result, dict) else {(): result}
        if arguments.json:
            print_json([{"group": list(k), "estimate": e} for k, e in groups.items()])
        else:
            for key, estimate in sorted(groups.items(), key=lambda pair: str(pair[0])):
                print(*key, estimate)
        return OK
    rows = synopsis.arrow().slice(0, arguments.rows).to_pylist()
    description = dict(facts(kind.loaded(synopsis.name)))
    if arguments.json:
        print_json({"facts": description, "rows": rows})
    else:
        print("\n".join(f"{name}: {value}" for name, value in description.items()))
        print("\n".join(map(str, rows)))
    return OK
