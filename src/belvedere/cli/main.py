"""The command line: parse, call, print.

Commands that only look read the Delta log and start no Spark; what needs Spark is imported when
it is used.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belvedere import __version__
from belvedere.cli import estimates, limits, queries, synopses
from belvedere.cli.invocation import (
    INTERNAL,
    INTERRUPTED,
    MISTAKE,
    OK,
    UNABLE,
    Adder,
    print_found,
    print_json,
    shelf,
)
from belvedere.cli.invocation import lake as lake_of
from belvedere.cli.progress import working
from belvedere.errors import BelvedereError, Internal, Invalid, Unable
from belvedere.lake.sessions.machine import as_unable

if TYPE_CHECKING:
    from belvedere.api import Lake
    from belvedere.lake.offline import OfflineLake

COMMANDS: tuple[Callable[[Adder], None], ...] = (
    estimates.add,
    limits.add_commands,
    queries.add,
    synopses.add,
)
"""The commands of each kind of derivation, in a file of its own under `commands/`."""

_EPILOG = """\
exit codes:
  0    done
  1    something you can fix: an unknown name, SQL that cannot be understood or maintained
  2    wrong usage of this command
  3    a bug of Belvedere's
  4    the machine could not: no space, no memory, no right to write
  130  interrupted

environment:
  BELVEDERE_LAKE   the lake's directory, where --lake is not given
  BELVEDERE_SPARK  settings for Spark: "spark.driver.memory=4g spark.master=local[8]"
  BELVEDERE_DEBUG  1 shows the stack trace of every error
"""

_REPORT = """\
This is a bug of Belvedere's. Please report it with the command you ran and the output of the
same command with BELVEDERE_DEBUG=1; Spark's own log is spark.log in Belvedere's cache directory."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (Exception, KeyboardInterrupt) as error:
        return _complain(error)


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--lake",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the lake's directory (default: $BELVEDERE_LAKE, or ./lake)",
    )
    parser = argparse.ArgumentParser(
        prog="belvedere",
        description="Views on Delta tables that refresh from the changes alone.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[shared],
    )
    parser.add_argument("--version", action="version", version=f"belvedere {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Any, text: str, *, as_json: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[shared],
        )
        if as_json:
            made.add_argument("--json", action="store_true", help="write JSON, for programs")
        made.set_defaults(run=run)
        return made

    sql = command("sql", _sql, "run SQL statements, or ask for them at a prompt")
    sql.add_argument("-e", dest="text", metavar="SQL", help="the statements, separated by ;")
    sql.add_argument("file", nargs="?", metavar="FILE", help="a script; - is the standard input")
    sql.add_argument(
        "--rows", type=int, default=100, metavar="N", help="rows to show of a result (default: 100)"
    )
    made = command("refresh", _refresh, "bring views to the newest versions of their tables")
    made.add_argument("views", nargs="*", metavar="VIEW", help="all of them if none is named")
    made.add_argument("--full", action="store_true", help="compute them again from scratch")
    made = command("advance", _advance, "apply only some tables' pending changes to a view")
    made.add_argument("view", metavar="VIEW")
    made.add_argument("tables", nargs="+", metavar="TABLE")
    made = command("explain", _explain, "show a view's plan, how changes pass it, and its SQL")
    which = made.add_mutually_exclusive_group(required=True)
    which.add_argument("view", nargs="?", metavar="VIEW")
    which.add_argument(
        "-e", dest="text", metavar="SQL", help="a CREATE MATERIALIZED VIEW … that is not run"
    )
    command("status", _status, "show where every view stands and what its tables did since")
    command("show", _show, "list the views")
    made = command("describe", _describe, "show a view's columns, query and policy")
    made.add_argument("view", metavar="VIEW")
    made = command("history", _history, "list the refreshes of a view, newest first")
    made.add_argument("view", metavar="VIEW")
    made.add_argument("--limit", type=_count, metavar="N", help="only the last N of them")
    made = command("demo", _demo, "show what Belvedere does, on a lake made for it", as_json=False)
    made.add_argument("--keep", metavar="DIR", help="make the lake here and leave it")
    for add in COMMANDS:
        add(command)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _sql(arguments: argparse.Namespace) -> int:
    from belvedere.sql.statements.parser import split_statements

    text = _script(arguments)
    if text is None:
        return _prompt(arguments)
    statements = split_statements(text)
    with lake_of(arguments) as lake:
        for statement in statements:
            _run_sql(lake, statement, arguments)
    return OK


def _script(arguments: argparse.Namespace) -> str | None:
    """The statements to run; None if they are to be asked for."""
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
    from belvedere.cli.prompt import prompt, remember
    from belvedere.lake.sessions.jars import cache_directory

    remember(cache_directory() / "history")
    with lake_of(arguments) as lake:
        print("Statements end with ; and Ctrl-D leaves.")
        prompt(lambda text: _run_sql(lake, text, arguments), _complain, print)
    return OK


def _run_sql(lake: Lake, statement: str, arguments: argparse.Namespace) -> None:
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


def _refresh(arguments: argparse.Namespace) -> int:
    from belvedere.kinds import kinds
    from belvedere.views.catalog import sound_and_broken

    looked = shelf(arguments)
    others = [name for kind in kinds(looked) for name in kind.names()]
    names = [_known_name(looked, name, others) for name in arguments.views]
    sound, broken = ([], []) if names else sound_and_broken(looked)
    names = names or [*(view.name for view in sound), *others]
    done = []
    if names:
        with lake_of(arguments) as lake:
            for name in names:
                with working(f"refreshing {name}"):
                    done.append(lake.refresh(name, full=arguments.full))
                if not arguments.json:
                    print(done[-1])
    if arguments.json:
        print_json(done)
    for view in broken:
        _complain(view.error)
    return MISTAKE if broken else OK


def _known_name(looked: OfflineLake, name: str, others: Sequence[str]) -> str:
    """The name of something derived, as it is spelled; an error before Spark is started."""
    from belvedere.views.catalog import canonical_name, the_view

    canonical = canonical_name(looked, name)
    return canonical if canonical in others else the_view(looked, name).name


def _advance(arguments: argparse.Namespace) -> int:
    from belvedere.kinds import kinds

    looked = shelf(arguments)
    _known_name(looked, arguments.view, [n for kind in kinds(looked) for n in kind.names()])
    with lake_of(arguments) as lake, working(f"advancing {arguments.view}"):
        done = lake.advance(arguments.view, *arguments.tables)
    print_found(arguments, done)
    return OK


def _explain(arguments: argparse.Namespace) -> int:
    from belvedere.kinds import kinds
    from belvedere.views.catalog import canonical_name, the_view
    from belvedere.views.explain import explain
    from belvedere.views.references import explain_references

    if arguments.text is not None:
        return _explain_text(arguments)
    looked = shelf(arguments)
    canonical = canonical_name(looked, arguments.view)
    for kind in kinds(looked):
        if canonical in kind.names():
            print_found(arguments, kind.explain(canonical))
            return OK
    view = the_view(looked, arguments.view)
    explanation = explain(view, explain_references(looked, view))
    if arguments.json:
        print_json({"view": explanation.view, "parts": dict(explanation.parts)})
    else:
        print(explanation)
    return OK


def _explain_text(arguments: argparse.Namespace) -> int:
    from belvedere.sql.statements.derivations import ExplainCreate
    from belvedere.sql.statements.parser import parse_statement
    from belvedere.sql.statements.views import CreateView

    statement = parse_statement(arguments.text)
    explained = isinstance(statement, ExplainCreate)
    create = statement.create if isinstance(statement, ExplainCreate) else statement
    if not isinstance(create, CreateView):
        raise Invalid(
            "explain -e takes a CREATE MATERIALIZED VIEW statement",
            hint='for a query of Spark\'s: belvedere sql -e "EXPLAIN SELECT …"',
            reason="OPTIONS",
        )
    text = arguments.text if explained else f"EXPLAIN {arguments.text}"
    with lake_of(arguments) as lake, working("explaining"):
        plan = str(lake.sql(text).collect()[0][0])
    print_json({"plan": plan}) if arguments.json else print(plan)
    return OK


def _status(arguments: argparse.Namespace) -> int:
    from belvedere.derivations.registry import everything
    from belvedere.kinds import kinds

    looked = shelf(arguments)
    print_found(arguments, everything(looked, kinds(looked)))
    return OK


def _show(arguments: argparse.Namespace) -> int:
    from belvedere.views.describe import show

    shown = show(shelf(arguments))
    if arguments.json:
        print_json([dict(zip(shown.headers, line, strict=True)) for line in shown])
    else:
        print(shown)
    return OK


def _describe(arguments: argparse.Namespace) -> int:
    from belvedere.views.catalog import the_view
    from belvedere.views.describe import describe

    looked = shelf(arguments)
    facts = describe(looked, the_view(looked, arguments.view))
    if arguments.json:
        columns = {name: value for name, value, kind in facts if kind == "column"}
        print_json({"columns": columns, **{n: v for n, v, kind in facts if kind == "fact"}})
    else:
        print(facts)
    return OK


def _history(arguments: argparse.Namespace) -> int:
    from belvedere.derivations.status import history

    print_found(arguments, history(shelf(arguments), arguments.view, arguments.limit))
    return OK


def _demo(arguments: argparse.Namespace) -> int:
    from belvedere.cli.demo import demo

    # A JVM that lives for a minute spends more on its second compiler than that saves.
    os.environ.setdefault(
        "BELVEDERE_SPARK", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
    )
    demo(print, None if arguments.keep is None else Path(arguments.keep))
    return OK


def _complain(error: BaseException) -> int:
    """Say what went wrong, and whose move it is; the exit code."""
    if os.environ.get("BELVEDERE_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    known = _known(error)
    if known is not None:
        code = f" [{known.reason}]" if known.reason else ""
        message, *rest = str(known).split("\n")
        print("\n".join([f"error: {message}{code}", *rest]), file=sys.stderr)
        return UNABLE if isinstance(known, Unable) else MISTAKE
    print(f"internal error: {type(error).__name__}: {error}", file=sys.stderr)
    print(_REPORT, file=sys.stderr)
    return INTERNAL


def _known(error: BaseException) -> BelvedereError | None:
    """The error as one that the user can act on; None if it is a bug."""
    if isinstance(error, BelvedereError):
        return None if isinstance(error, Internal) else error
    unable = as_unable(error)
    if unable is not None:
        return unable
    if type(error).__module__.startswith(("pyspark.", "py4j.")) and "pyspark" in sys.modules:
        from belvedere.lake.sessions.errors import as_known

        return as_known(error)
    return None
