"""Commands `refresh` and `advance`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from belvedere.cli.command import (
    MISTAKE,
    OK,
    AddCommand,
    offline_lake,
    open_lake,
    print_json,
    print_result,
)
from belvedere.cli.failures import report
from belvedere.cli.progress import working

if TYPE_CHECKING:
    from belvedere.lake.offline import OfflineLake


def add_commands(command: AddCommand) -> None:
    """Add the commands."""
    refresh = command("refresh", _refresh, "refresh views to the newest versions of their tables")
    refresh.add_argument("views", nargs="*", metavar="VIEW", help="default: all")
    refresh.add_argument("--full", action="store_true", help="compute them again from scratch")
    advance = command("advance", _advance, "apply the pending changes of some tables to a view")
    advance.add_argument("view", metavar="VIEW")
    advance.add_argument("tables", nargs="+", metavar="TABLE")


def _refresh(arguments: argparse.Namespace) -> int:
    from belvedere.kinds import kinds
    from belvedere.views.catalog import sound_and_broken

    offline = offline_lake(arguments)
    others = [name for kind in kinds(offline) for name in kind.names()]
    names = [_exact_name(offline, name, others) for name in arguments.views]
    sound, broken = ([], []) if names else sound_and_broken(offline)
    names = names or [*(view.name for view in sound), *others]
    outcomes = []
    if names:
        with open_lake(arguments) as lake:
            for name in names:
                with working(f"refreshing {name}"):
                    outcomes.append(lake.refresh(name, full=arguments.full))
                if not arguments.json:
                    print(outcomes[-1])
    if arguments.json:
        print_json(outcomes)
    for view in broken:
        report(view.error)
    return MISTAKE if broken else OK


def _exact_name(lake: OfflineLake, name: str, others: Sequence[str]) -> str:
    """The name of a derivation as it was created; an unknown name fails before Spark starts."""
    from belvedere.views.catalog import canonical_name, the_view

    canonical = canonical_name(lake, name)
    return canonical if canonical in others else the_view(lake, name).name


def _advance(arguments: argparse.Namespace) -> int:
    from belvedere.kinds import kinds

    offline = offline_lake(arguments)
    _exact_name(offline, arguments.view, [n for kind in kinds(offline) for n in kind.names()])
    with open_lake(arguments) as lake, working(f"advancing {arguments.view}"):
        outcome = lake.advance(arguments.view, *arguments.tables)
    print_result(arguments, outcome)
    return OK
