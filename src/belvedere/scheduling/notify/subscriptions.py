"""Subscriptions: a query on a view, the condition for sending its answer, and the receiver.

The condition is a schedule, or a query on base tables, so that checking it needs no fresh view. The
receiver is a webhook, a command, or a file of JSON lines.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import asdict, dataclass

from sqlglot import exp

from belvedere.derivations.registry import the_saves
from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.notify.notification_state import (
    NOTIFICATION_STATE,
    NotificationState,
    save_state,
)
from belvedere.sql.names import quote
from belvedere.sql.parse import parse_query
from belvedere.storage.private_files import Damage
from belvedere.views.catalog import canonical_name, shown_name, the_view

SUBSCRIPTION = "subscription"
"""The kind of these saved files."""
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)\s*")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Subscription:
    """A subscription: one of `every` and `when`, and one of `webhook`, `command` and `jsonl`."""

    id: str
    view: str
    query: str
    every: float | None = None
    when: str = ""
    changed: float | None = None
    webhook: str = ""
    command: tuple[str, ...] = ()
    jsonl: str = ""

    def __post_init__(self) -> None:
        if (self.every is None) == (not self.when):
            raise Invalid(
                "a subscription needs a schedule or a condition",
                hint="give --every or --when",
                reason="BAD_VALUE",
            )
        if self.changed is not None and (not self.when or not self.changed > 0):
            raise Invalid(
                "--changed needs --when and a percentage above 0",
                hint='--when "SELECT value FROM …" --changed 10%',
                reason="BAD_VALUE",
            )
        if sum(map(bool, (self.webhook, self.command, self.jsonl))) != 1:
            raise Invalid(
                "a subscription needs exactly one receiver",
                hint="give one of --webhook, --exec and --jsonl",
                reason="BAD_VALUE",
            )


def subscribe(lake: ReadableLake, subscription: Subscription) -> Subscription:
    """Save a subscription. Its view must exist, its query read the view, its condition only tables."""
    view = the_view(lake, subscription.view)
    if canonical_name(lake, view.name) not in _read_by(lake, subscription.query):
        raise Invalid(
            f"the query of a subscription to {view.name!r} does not read it",
            hint=f"SELECT … FROM {view.name}",
            reason="NOT_IN_QUERY",
        )
    derived = {canonical_name(lake, shown_name(lake, t)) for t in lake.stored()}
    for name in sorted(_read_by(lake, subscription.when) if subscription.when else ()):
        if name in derived:
            raise Invalid(
                f"the condition of a subscription reads the view {name!r}",
                detail="the condition is checked at every change, when the view is not fresh",
                hint="query the tables that the view reads",
                reason="CONDITION_READS_VIEW",
            )
        lake.table(name)
    saves = the_saves(lake)
    saves.save(SUBSCRIPTION, subscription.id, asdict(subscription), {}, {})
    if not saves.was_lost(NOTIFICATION_STATE, subscription.id) and not saves.has(
        NOTIFICATION_STATE, subscription.id
    ):
        save_state(lake, subscription.id, NotificationState())
    return subscription


def lost_subscriptions(lake: ReadableLake) -> list[Damage]:
    """The subscriptions and states that were lost with damaged files."""
    return [] if lake.saves is None else lake.saves.damages(SUBSCRIPTION, NOTIFICATION_STATE)


def _read_by(lake: ReadableLake, text: str) -> set[str]:
    """The tables and views that a query names; Invalid if the text is no query."""
    query = parse_query(text)
    inner = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = (t for t in query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    named = [[part.name for part in table.parts] for table in tables]
    outer = (parts for parts in named if len(parts) > 1 or parts[0].lower() not in inner)
    return {canonical_name(lake, ".".join(map(quote, parts))) for parts in outer}


def unsubscribe(lake: ReadableLake, name: str) -> None:
    """Delete a subscription and its state."""
    saves = the_saves(lake)
    if not saves.has(SUBSCRIPTION, name):
        raise Invalid(
            f"no subscription {name!r}",
            hint="list them: belvedere subscriptions",
            reason="UNKNOWN_SUBSCRIPTION",
        )
    saves.drop(SUBSCRIPTION, name)
    saves.drop(NOTIFICATION_STATE, name)


def subscriptions(lake: ReadableLake) -> list[Subscription]:
    """All subscriptions, in the order of their identifiers."""
    saves = lake.saves
    if saves is None:
        return []
    records = [dict(saves.head(SUBSCRIPTION, n).definition) for n in saves.names(SUBSCRIPTION)]
    return [Subscription(**{**record, "command": tuple(record["command"])}) for record in records]


def new_id() -> str:
    """A new identifier for a subscription."""
    return uuid.uuid4().hex[:12]


def seconds(text: str) -> float:
    """The seconds of a time such as 30s, 5m, 1h, 1d.

    >>> seconds("1.5h")
    5400.0
    """
    match = _TIME.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise Invalid(f"{text!r} is not a time", hint="write 30s, 5m, 1h or 1d", reason="BAD_VALUE")
    return float(match[1]) * _SECONDS[match[2]]


def percent(text: str) -> float:
    """The share of a percentage such as 10%.

    >>> percent("10%")
    0.1
    """
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 < share < float("inf"):
        raise Invalid(f"{text!r} is not a change in percent", hint="write 10%", reason="BAD_VALUE")
    return share
