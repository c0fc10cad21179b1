"""Command `query`: run a query through a sketch, or explain which one would answer it."""

from __future__ import annotations

import argparse

from belvedere.cli.command import OK, AddCommand, open_lake, print_json, print_result
from belvedere.cli.progress import working


def add_commands(command: AddCommand) -> None:
    """Add `query`."""
    query = command("query", _query, "run a query, through a sketch if one answers it")
    query.add_argument("text", metavar="SQL")
    query.add_argument(
        "--explain", action="store_true", help="show which sketch would answer it; do not run it"
    )
    query.add_argument(
        "--rows", type=int, default=100, metavar="N", help="rows to show (default: 100)"
    )


def _query(arguments: argparse.Namespace) -> int:
    with open_lake(arguments) as lake:
        if arguments.explain:
            with working("planning"):
                answer = lake.explain_query(arguments.text)
            print_result(arguments, answer)
            return OK
        with working("running"):
            frame = lake.query(arguments.text)
            rows = [tuple(row) for row in frame.take(arguments.rows)]
        _print_rows(frame.columns, rows, arguments)
    return OK


def _print_rows(
    columns: list[str], rows: list[tuple[object, ...]], arguments: argparse.Namespace
) -> None:
    from belvedere.listing import table

    if arguments.json:
        for row in rows:
            print_json(dict(zip(columns, row, strict=True)), indent=None)
    else:
        print(table(columns, rows, null="NULL"))
