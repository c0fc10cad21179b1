"""Commands of response limits: calibrate, plan, serve, subscribe."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from belvedere.cli.invocation import OK, Adder, lake, print_found, print_json, shelf
from belvedere.cli.progress import working
from belvedere.errors import Invalid

if TYPE_CHECKING:
    from belvedere.scheduling.serve.preview import Outlook


def add_commands(command: Adder) -> None:
    """Add them to the parser."""
    made = command("calibrate", _calibrate, "measure what changes of a view's tables cost it")
    made.add_argument("view", metavar="VIEW")
    made.add_argument("--picture", metavar="FILE", help="draw the curves, as .svg or .png")
    made.add_argument(
        "--live",
        action="store_true",
        help="time the view itself on what is pending, instead of a copy",
    )
    made = command(
        "plan", _plan, "show what the service would do for a view, and what it would cost"
    )
    made.add_argument("view", metavar="VIEW")
    made.add_argument(
        "--arrivals",
        metavar="FILE",
        default="observed",
        help="seconds,table,changes (default: what the tables' logs recorded)",
    )
    made.add_argument("--picture", metavar="FILE", help="draw what is pending, as .svg or .png")
    _add_serve(command)
    _add_subscribe(command)
    made = command("unsubscribe", _unsubscribe, "take a subscription away")
    made.add_argument("name", metavar="NAME")
    command("subscriptions", _subscriptions, "list the subscriptions")


def _add_serve(command: Adder) -> None:
    made = command("serve", _serve, "keep the response limits of the lake's views")
    made.add_argument("--simulate", metavar="FILE", help="on these arrivals, without touching data")
    made.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    made.add_argument("--port", type=int, default=8799, help="(default: %(default)s; 0: any)")
    made.add_argument("--token-file", metavar="FILE", help="the token that requests must carry")
    made.add_argument("--every", type=float, default=0.5, metavar="SECONDS", help="between looks")
    made.add_argument("--policy", choices=["AUTO", "NAIVE", "ONLINE", "RECEDING"], default="AUTO")
    made.add_argument(
        "--allow-webhook",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="webhooks may go there, and below; repeat for more",
    )


def _add_subscribe(command: Adder) -> None:
    made = command(
        "subscribe", _subscribe, "be told what a query on a view says, when something holds"
    )
    made.add_argument("view", metavar="VIEW")
    made.add_argument("--query", metavar="SQL", help="what to tell (default: all of the view)")
    made.add_argument("--every", metavar="TIME", help="30s, 5m, 1h, 1d")
    made.add_argument("--when", metavar="SQL", help="a query on base tables that becomes true")
    made.add_argument(
        "--changed", metavar="PERCENT", help="its value changed by 10%% since the last report"
    )
    made.add_argument("--webhook", metavar="URL", default="")
    made.add_argument("--jsonl", metavar="FILE", default="")
    made.add_argument("--name", metavar="NAME", help="to unsubscribe by (default: a new one)")
    made.add_argument(
        "--exec",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="CMD",
        help="a command and its arguments, last on the line; gets JSON on its input",
    )


def _calibrate(arguments: argparse.Namespace) -> int:
    from belvedere.views.catalog import the_view

    the_view(shelf(arguments), arguments.view)
    with lake(arguments) as opened, working(f"calibrating {arguments.view}"):
        found = opened.calibrate(arguments.view, live=arguments.live)
    if arguments.picture:
        from belvedere.scheduling.plots import draw_curves

        draw_curves(found, arguments.picture)
    print_found(arguments, found)
    return OK


def _plan(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.schedules import the_schedule
    from belvedere.scheduling.serve.preview import plan

    here = shelf(arguments)
    found = plan(here, arguments.view, arguments.arrivals)
    _show(arguments, found, the_schedule(here, arguments.view).tables)
    return OK


def _show(arguments: argparse.Namespace, found: Outlook, tables: tuple[str, ...]) -> None:
    from belvedere.scheduling.plots import bars, draw_paths, paths

    if getattr(arguments, "picture", None):
        draw_paths(found.policies, tables, arguments.picture)
    if arguments.json:
        costs = {r.policy: r.cost for r in found.policies}
        violations = {r.policy: r.violations for r in found.policies}
        print_json(
            {"costs": costs, "chosen": found.chosen, "best": found.best, "violations": violations}
        )
        return
    print(found)
    print()
    print(bars({r.policy: r.cost for r in found.policies}))
    if len(found.views) == 1:
        print()
        print(paths(found.run(found.chosen), tables))


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.every <= 0:
        raise Invalid("--every must be more than nothing", reason="BAD_VALUE")
    return _simulate(arguments) if arguments.simulate else _run(arguments)


def _simulate(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.model.arrivals import read_arrivals
    from belvedere.scheduling.schedules import schedules
    from belvedere.scheduling.serve.preview import outlook

    kept = [s for s in schedules(shelf(arguments)) if s.calibration is not None]
    if not kept:
        raise Invalid(
            "no view has a response limit and a calibration",
            hint="ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT 5 SECONDS, then calibrate it",
            reason="NOTHING_TO_KEEP",
        )
    tables = tuple(dict.fromkeys(t for s in kept for t in s.tables))
    found = outlook(kept, read_arrivals(arguments.simulate, tables), arguments.every)
    _show(arguments, found, kept[0].tables)
    return OK


def _run(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.serve.endpoint import serve_http

    token = _token(arguments.token_file)

    def told(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with lake(arguments) as opened:
        service = opened.serve(
            every=arguments.every,
            policy=arguments.policy,
            allowed=arguments.allow_webhook,
            told=told,
        )
        server = serve_http(service, arguments.host, arguments.port, token)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: service.stop())
        host, port = server.server_address[:2]
        print(f"keeping {', '.join(service.kept)}; http://{host!s}:{port}", flush=True)
        service.run()
        server.shutdown()
    print("stopped", flush=True)
    return OK


def _token(path: str | None) -> str:
    if path is None:
        return ""
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Invalid(f"cannot read {path}", detail=str(error), reason="UNREADABLE_FILE") from error
    if not token:
        raise Invalid(f"{path} holds no token", reason="UNREADABLE_FILE")
    return token


def _subscribe(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.notify.subscriptions import (
        Subscription,
        new_id,
        percent,
        seconds,
        subscribe,
    )
    from belvedere.sql.names import dotted

    made = Subscription(
        id=arguments.name or new_id(),
        view=arguments.view,
        query=arguments.query or f"SELECT * FROM {dotted(arguments.view)}",
        every=None if arguments.every is None else seconds(arguments.every),
        when=arguments.when or "",
        changed=None if arguments.changed is None else percent(arguments.changed),
        webhook=arguments.webhook,
        command=tuple(arguments.exec),
        jsonl=str(Path(arguments.jsonl).expanduser().resolve()) if arguments.jsonl else "",
    )
    subscribe(shelf(arguments), made)
    print_json(made) if arguments.json else print(made.id)
    return OK


def _unsubscribe(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.notify.subscriptions import unsubscribe

    unsubscribe(shelf(arguments), arguments.name)
    return OK


def _subscriptions(arguments: argparse.Namespace) -> int:
    from belvedere.listing import table
    from belvedere.scheduling.notify.subscriptions import lost, subscriptions

    here = shelf(arguments)
    found = subscriptions(here)
    for each in lost(here):
        print(each, file=sys.stderr)
    if arguments.json:
        print_json(found)
        return OK
    rows = [
        (
            s.id,
            s.view,
            f"every {s.every:g} s" if s.every else s.when,
            s.webhook or s.jsonl or " ".join(s.command),
        )
        for s in found
    ]
    print(table(("name", "view", "when", "to"), rows) if rows else "none")
    return OK
