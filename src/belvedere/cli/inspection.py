"""Commands that read the Delta logs alone: `status`, `show`, `describe`, `history`, `explain`."""

from __future__ import annotations

import argparse

from belvedere.cli.command import (
    OK,
    AddCommand,
    offline_lake,
    open_lake,
    print_json,
    print_result,
)
from belvedere.cli.progress import working
from belvedere.errors import Invalid


def add_commands(command: AddCommand) -> None:
    """Add the commands."""
    explain = command("explain", _explain, "show the plan of a view, of its changes, and its SQL")
    which = explain.add_mutually_exclusive_group(required=True)
    which.add_argument("view", nargs="?", metavar="VIEW")
    which.add_argument(
        "-e", dest="text", metavar="SQL", help="a CREATE MATERIALIZED VIEW …, which is not run"
    )
    command("status", _status, "show the versions of every view and the changes that are pending")
    command("show", _show, "list the views")
    describe = command(
        "describe", _describe, "show the columns, the query and the policy of a view"
    )
    describe.add_argument("view", metavar="VIEW")
    history = command("history", _history, "list the refreshes of a view, newest first")
    history.add_argument("view", metavar="VIEW")
    history.add_argument("--limit", type=_count, metavar="N", help="only the newest N refreshes")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _explain(arguments: argparse.Namespace) -> int:
    from belvedere.kinds import kinds
    from belvedere.views.catalog import canonical_name, the_view
    from belvedere.views.explain import explain
    from belvedere.views.references import explain_references

    if arguments.text is not None:
        return _explain_text(arguments)
    lake = offline_lake(arguments)
    canonical = canonical_name(lake, arguments.view)
    for kind in kinds(lake):
        if canonical in kind.names():
            print_result(arguments, kind.explain(canonical))
            return OK
    view = the_view(lake, arguments.view)
    explanation = explain(view, explain_references(lake, view))
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
    with open_lake(arguments) as lake, working("explaining"):
        plan = str(lake.sql(text).collect()[0][0])
    print_json({"plan": plan}) if arguments.json else print(plan)
    return OK


def _status(arguments: argparse.Namespace) -> int:
    from belvedere.derivations.registry import everything
    from belvedere.kinds import kinds

    lake = offline_lake(arguments)
    print_result(arguments, everything(lake, kinds(lake)))
    return OK


def _show(arguments: argparse.Namespace) -> int:
    from belvedere.views.describe import show

    views = show(offline_lake(arguments))
    if arguments.json:
        print_json([dict(zip(views.headers, line, strict=True)) for line in views])
    else:
        print(views)
    return OK


def _describe(arguments: argparse.Namespace) -> int:
    from belvedere.views.catalog import the_view
    from belvedere.views.describe import describe

    lake = offline_lake(arguments)
    facts = describe(lake, the_view(lake, arguments.view))
    if arguments.json:
        columns = {name: value for name, value, kind in facts if kind == "column"}
        print_json({"columns": columns, **{n: v for n, v, kind in facts if kind == "fact"}})
    else:
        print(facts)
    return OK


def _history(arguments: argparse.Namespace) -> int:
    from belvedere.derivations.status import history

    print_result(arguments, history(offline_lake(arguments), arguments.view, arguments.limit))
    return OK
