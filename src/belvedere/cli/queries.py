"""The commands of sketches: ask a query through them, or how it would be asked."""

from __future__ import annotations

import argparse

from belvedere.cli.invocation import OK, Adder, lake, print_found, print_json
from belvedere.cli.progress import working


def add(command: Adder) -> None:
    """Adds `query`."""
    made = command("query", _query, "run a query through a sketch, where one answers it")
    made.add_argument("text", metavar="SQL")
    made.add_argument("--explain", action="store_true", help="say how, and do not run it")
    made.add_argument(
        "--rows", type=int, default=100, metavar="N", help="rows to show (default: 100)"
    )


def _query(arguments: argparse.Namespace) -> int:
    with lake(arguments) as opened:
        if arguments.explain:
            with working("looking"):
                answer = opened.explain_query(arguments.text)
            print_found(arguments, answer)
            return OK
        with working("running"):
            frame = opened.query(arguments.text)
            rows = [tuple(row) for row in frame.take(arguments.rows)]
        _show(frame.columns, rows, arguments)
    return OK


def _show(
    columns: list[str], rows: list[tuple[object, ...]], arguments: argparse.Namespace
) -> None:
    from belvedere.listing import table

    if arguments.json:
        for row in rows:
            print_json(dict(zip(columns, row, strict=True)), indent=None)
    else:
        print(table(columns, rows, null="NULL"))
