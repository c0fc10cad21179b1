"""Command `sql`: run statements of a script, of the command line, or from a prompt."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from belvedere.cli.command import OK, AddCommand, open_lake, print_json
from belvedere.cli.failures import report
from belvedere.cli.progress import working
from belvedere.errors import Invalid

if TYPE_CHECKING:
    from belvedere.api import Lake


def add_commands(command: AddCommand) -> None:
    """Add `sql`."""
    sql = command("sql", _sql, "run SQL statements, from a script or at a prompt")
    sql.add_argument("-e", dest="text", metavar="SQL", help="the statements, separated by ;")
    sql.add_argument("file", nargs="?", metavar="FILE", help="a script; - reads the standard input")
    sql.add_argument(
        "--rows", type=int, default=100, metavar="N", help="rows to show of a result (default: 100)"
    )


def _sql(arguments: argparse.Namespace) -> int:
    from belvedere.sql.statements.parser import split_statements

    script = _script(arguments)
    if script is None:
        return _prompt(arguments)
    statements = split_statements(script)
    with open_lake(arguments) as lake:
        for statement in statements:
            _run(lake, statement, arguments)
    return OK


def _script(arguments: argparse.Namespace) -> str | None:
    """The statements to run; None if a prompt asks for them."""
    if arguments.text is not None and arguments.file is not None:
        raise Invalid("both -e and a file are given", hint="give one of them", reason="OPTIONS")
    if arguments.text is not None:
        return str(arguments.text)
    if arguments.file == "-" or (arguments.file is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    if arguments.file is None:
        return None
    try:
        return Path(arguments.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"cannot read {arguments.file}", detail=str(error), reason="UNREADABLE_FILE"
        ) from error


def _prompt(arguments: argparse.Namespace) -> int:
    from belvedere.cli.prompt import prompt, use_history
    from belvedere.lake.sessions.jars import cache_directory

    use_history(cache_directory() / "history")
    with open_lake(arguments) as lake:
        print("End a statement with ; and press Ctrl-D to leave.")
        prompt(lambda text: _run(lake, text, arguments), report, print)
    return OK


def _run(lake: Lake, statement: str, arguments: argparse.Namespace) -> None:
    with working("running"):
        frame = lake.sql(statement)
        columns = frame.columns
        rows = [tuple(row) for row in frame.take(arguments.rows + 1)] if columns else []
    if arguments.json:
        for row in rows[: arguments.rows]:
            print_json(dict(zip(columns, row, strict=True)), indent=None)
    else:
        _print_rows(columns, rows, arguments.rows)


def _print_rows(columns: list[str], rows: list[tuple[object, ...]], limit: int) -> None:
    from belvedere.listing import table

    if not rows and columns in ([], ["result"]):
        print("ok")
    elif len(columns) == len(rows) == 1 and "\n" in str(rows[0][0]):
        print(rows[0][0])
    else:
        print(table(columns, rows[:limit], null="NULL"))
        more = ", and more" if len(rows) > limit else ""
        count = min(len(rows), limit)
        print(f"({count} row{'' if count == 1 else 's'}{more})")
