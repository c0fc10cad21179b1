"""The command line: parse the arguments, run the command, end with its exit code.

The commands of each group are in a module of their own, with a function `add_commands`. Commands that
only look read the Delta log; Spark is imported when a command needs it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from belvedere import __version__
from belvedere.cli import (
    demo,
    inspection,
    refreshes,
    samples,
    schedules,
    sketches,
    sql,
    subscriptions,
    synopses,
)
from belvedere.cli.command import OK, AddCommand
from belvedere.cli.failures import report

GROUPS: tuple[Callable[[AddCommand], None], ...] = (
    sql.add_commands,
    refreshes.add_commands,
    inspection.add_commands,
    samples.add_commands,
    schedules.add_commands,
    subscriptions.add_commands,
    synopses.add_commands,
    sketches.add_commands,
    demo.add_commands,
)
"""The groups of commands, in the order of the help."""

_EPILOG = """\
exit codes:
  0    done
  1    an error that you can correct: an unknown name, SQL that is not supported
  2    wrong usage of this command
  3    a bug in Belvedere
  4    the machine failed: no space, no memory, no permission
  130  interrupted

environment:
  BELVEDERE_LAKE   the lake's directory, if --lake is not given
  BELVEDERE_SPARK  settings for Spark: "spark.driver.memory=4g spark.master=local[8]"
  BELVEDERE_DEBUG  1 shows the stack trace of every error
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the output has closed it. Python must not report that at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (Exception, KeyboardInterrupt) as error:
        return report(error)


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
        subparser = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[shared],
        )
        if as_json:
            subparser.add_argument("--json", action="store_true", help="write JSON, for programs")
        subparser.set_defaults(run=run)
        return subparser

    for add_commands in GROUPS:
        add_commands(command)
    return parser
