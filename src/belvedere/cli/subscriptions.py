"""Commands `subscribe`, `unsubscribe` and `subscriptions`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from belvedere.cli.command import OK, AddCommand, offline_lake, print_json


def add_commands(command: AddCommand) -> None:
    """Add the commands."""
    _add_subscribe(command)
    unsubscribe = command("unsubscribe", _unsubscribe, "delete a subscription")
    unsubscribe.add_argument("name", metavar="NAME")
    command("subscriptions", _subscriptions, "list the subscriptions")


def _add_subscribe(command: AddCommand) -> None:
    subscribe = command(
        "subscribe", _subscribe, "send the answer of a query on a view when a condition holds"
    )
    subscribe.add_argument("view", metavar="VIEW")
    subscribe.add_argument(
        "--query", metavar="SQL", help="the query to send (default: the whole view)"
    )
    subscribe.add_argument("--every", metavar="TIME", help="at an interval: 30s, 5m, 1h, 1d")
    subscribe.add_argument(
        "--when", metavar="SQL", help="when this query on base tables becomes true"
    )
    subscribe.add_argument(
        "--changed",
        metavar="PERCENT",
        help="when the value of --when changed by this much since the last report, such as 10%%",
    )
    subscribe.add_argument("--webhook", metavar="URL", default="", help="send to this address")
    subscribe.add_argument("--jsonl", metavar="FILE", default="", help="append to this file")
    subscribe.add_argument(
        "--name", metavar="NAME", help="the subscription's name (default: a new one)"
    )
    subscribe.add_argument(
        "--exec",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="CMD",
        help="run a command with JSON as its input; give it and its arguments last",
    )


def _subscribe(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.notify.subscriptions import (
        Subscription,
        new_id,
        percent,
        seconds,
        subscribe,
    )
    from belvedere.sql.names import dotted

    subscription = Subscription(
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
    subscribe(offline_lake(arguments), subscription)
    print_json(subscription) if arguments.json else print(subscription.id)
    return OK


def _unsubscribe(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.notify.subscriptions import unsubscribe

    unsubscribe(offline_lake(arguments), arguments.name)
    return OK


def _subscriptions(arguments: argparse.Namespace) -> int:
    from belvedere.listing import table
    from belvedere.scheduling.notify.subscriptions import lost_subscriptions, subscriptions

    lake = offline_lake(arguments)
    every = subscriptions(lake)
    for damage in lost_subscriptions(lake):
        print(damage, file=sys.stderr)
    if arguments.json:
        print_json(every)
        return OK
    rows = [
        (
            s.id,
            s.view,
            f"every {s.every:g} s" if s.every else s.when,
            s.webhook or s.jsonl or " ".join(s.command),
        )
        for s in every
    ]
    print(table(("name", "view", "when", "to"), rows) if rows else "none")
    return OK
