"""Subscriptions: what to tell (a query on a view), when (a condition that does not need the view),
and to whom (a webhook, a command, a file of JSON lines).

When the condition holds the view is refreshed within its limit, and the notification carries the
content and how it differs from the last one. It is saved before it is sent, under a number of its
own: killed in between, the same notification is sent again under the same identifier. A line of a
file that is there already is not written again, so files have each notification once.

Webhooks and commands may take their time, and limits must be kept meanwhile: they are sent apart
from the service's own thread, one at a time for each subscription.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sqlglot import exp

from belvedere.derivations.registry import the_saves
from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.notify.delivery import (
    TIMEOUT,
    Undelivered,
    deliver,
    refuse_unless_allowed,
)
from belvedere.sql.names import quote
from belvedere.sql.parse import parse_query
from belvedere.storage.private_files import Damage
from belvedere.views.catalog import canonical_name, shown_name, the_view

SUBSCRIPTION, NOTICE = "subscription", "notice"
PATIENCE = 5.0
"""Seconds before a delivery that failed is tried again; doubled each time, up to five minutes."""
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d)\s*")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

Row = dict[str, Any]


@dataclass(frozen=True)
class Subscription:
    """Exactly one of `every` and `when`, and one of `webhook`, `command` and `jsonl`, is given."""

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
                hint="--every, or --when",
                reason="BAD_VALUE",
            )
        if self.changed is not None and (not self.when or not self.changed > 0):
            raise Invalid(
                "a change in percent is one of a value",
                hint='--when "SELECT value FROM …" --changed 10%',
                reason="BAD_VALUE",
            )
        if sum(map(bool, (self.webhook, self.command, self.jsonl))) != 1:
            raise Invalid(
                "a subscription has one receiver",
                hint="one of --webhook, --exec and --jsonl",
                reason="BAD_VALUE",
            )


@dataclass(frozen=True)
class Notice:
    """Where a subscription stands: what was told last, and what waits to be sent."""

    number: int = 0
    content: tuple[Row, ...] = ()
    value: float | None = None
    held: bool = False
    due: float = 0.0
    waiting: Mapping[str, Any] | None = None


class Asked(Protocol):
    """What the service does for subscriptions."""

    def ask(self, view: str) -> Any: ...

    def rows(self, query: str) -> list[Row]: ...

    def versions(self) -> Mapping[str, int]: ...


@dataclass
class Desk:
    """Checks conditions and sends notifications."""

    lake: ReadableLake
    service: Asked
    allowed: Sequence[str] = ()
    wall: Callable[[], float] = time.time
    told: Callable[[str], None] = lambda _: None
    seen: dict[str, Mapping[str, int]] = field(default_factory=dict)
    retries: dict[str, tuple[float, float]] = field(default_factory=dict)
    recovered: set[str] = field(default_factory=set)
    apart: Executor | None = None
    """Where webhooks and commands are sent; None is here and now."""
    sending: dict[str, Future[None]] = field(default_factory=dict)
    told_of: set[Path] = field(default_factory=set)
    """Damaged files that were told of."""

    def __post_init__(self) -> None:
        self.recovered = {s.id for s in subscriptions(self.lake)}

    def turn(self) -> int:
        """Look after every subscription; how many notifications were sent."""
        for damage in lost(self.lake):
            if damage.path not in self.told_of:
                self.told_of.add(damage.path)
                self.told(str(damage))
        return sum(self._one(subscription) for subscription in subscriptions(self.lake))

    def _one(self, subscription: Subscription) -> bool:
        try:
            notice = _notice(self.lake, subscription.id)
            if notice.waiting is None:
                notice = self._checked(subscription, notice)
            return notice.waiting is not None and self._sent(subscription, notice)
        except Exception as error:
            # One that cannot be served must not hold up the others.
            message = error.message if isinstance(error, BelvedereError) else str(error)
            self.told(f"subscription {subscription.id}: {message.partition(chr(10))[0]}")
            return False

    def _checked(self, subscription: Subscription, notice: Notice) -> Notice:
        """The notice after its condition was looked at, with a notification if it holds."""
        if subscription.every is not None:
            now = self.wall()
            if now < notice.due:
                return notice
            periods = max(int((now - notice.due) // subscription.every), 0) + 1
            first = notice.due == 0.0
            due = now + subscription.every if first else notice.due + periods * subscription.every
            return self._composed(subscription, replace(notice, due=due))
        versions = self.service.versions()
        if self.seen.get(subscription.id) == versions:
            return notice
        self.seen[subscription.id] = versions
        value = _number(subscription, self.service.rows(subscription.when))
        if subscription.changed is None:
            holds = bool(value)
            news = replace(notice, held=holds)
            return (
                self._composed(subscription, news)
                if holds and not notice.held
                else _saved_if(self.lake, subscription, notice, news)
            )
        if notice.value is None:
            return _saved_if(self.lake, subscription, notice, replace(notice, value=value))
        if abs(value - notice.value) < subscription.changed * abs(notice.value) or (
            value == notice.value
        ):
            return notice
        return self._composed(subscription, replace(notice, value=value))

    def _composed(self, subscription: Subscription, notice: Notice) -> Notice:
        """Refresh the view, and put down what is to be sent before it is sent."""
        answer = self.service.ask(subscription.view)
        content = [_plain(row) for row in self.service.rows(subscription.query)]
        number = notice.number + 1
        added, removed = _difference(notice.content, content)
        message = {
            "id": f"{subscription.id}-{number}",
            "subscription": subscription.id,
            "view": subscription.view,
            "number": number,
            "content": content,
            "added": added,
            "removed": removed,
            "vector": dict(answer.vector),
            "seconds": round(answer.seconds, 3),
            "late": answer.violation,
        }
        composed = replace(notice, number=number, content=tuple(content), waiting=message)
        _save(self.lake, subscription.id, composed)
        self.recovered.discard(subscription.id)
        return composed

    def _sent(self, subscription: Subscription, notice: Notice) -> bool:
        name, now = subscription.id, self.wall()
        at, pause = self.retries.get(name, (0.0, PATIENCE))
        if name not in self.sending and (now < at or notice.waiting is None):
            return False
        try:
            if not self._delivered(subscription, notice):
                return False
        except Undelivered as error:
            self.retries[name] = now + pause, min(2 * pause, 300.0)
            # It may have arrived all the same: a file is looked through before the next try.
            self.recovered.add(name)
            self.told(f"subscription {name}: not delivered: {error}")
            return False
        self.retries.pop(name, None)
        self.recovered.discard(name)
        _save(self.lake, name, replace(notice, waiting=None))
        return True

    def _delivered(self, subscription: Subscription, notice: Notice) -> bool:
        """Send, or see what became of it; False while it is on its way."""
        assert notice.waiting is not None
        name, again = subscription.id, subscription.id in self.recovered
        if self.apart is None or subscription.jsonl:
            deliver(subscription, notice.waiting, allowed=self.allowed, again=again)
            return True
        if name not in self.sending:
            refuse_unless_allowed(subscription, self.allowed)
            self.sending[name] = self.apart.submit(
                deliver, subscription, notice.waiting, allowed=self.allowed, again=again
            )
        if not self.sending[name].done():
            return False
        self.sending.pop(name).result()
        return True

    def close(self) -> None:
        """Wait for what is on its way, and put down what has arrived."""
        wait(self.sending.values(), TIMEOUT)
        for subscription in subscriptions(self.lake):
            if subscription.id in self.sending:
                self._one(subscription)
        if self.apart is not None:
            self.apart.shutdown(wait=False)


def subscribe(lake: ReadableLake, subscription: Subscription) -> Subscription:
    """Save a subscription; its view must exist, its query read it, and its condition no view."""
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
                detail="a condition is asked at every change, and the view is not fresh then",
                hint="ask the tables that the view reads",
                reason="CONDITION_READS_VIEW",
            )
        lake.table(name)
    saves = the_saves(lake)
    saves.save(SUBSCRIPTION, subscription.id, asdict(subscription), {}, {})
    if not saves.was_lost(NOTICE, subscription.id) and not saves.has(NOTICE, subscription.id):
        _save(lake, subscription.id, Notice())
    return subscription


def lost(lake: ReadableLake) -> list[Damage]:
    """The subscriptions, and what is known of their notifications, that damaged files had."""
    return [] if lake.saves is None else lake.saves.damages(SUBSCRIPTION, NOTICE)


def _read_by(lake: ReadableLake, text: str) -> set[str]:
    """The tables and views that a query names; Invalid if it is none."""
    query = parse_query(text)
    inner = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = (t for t in query.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
    named = [[part.name for part in table.parts] for table in tables]
    outer = (parts for parts in named if len(parts) > 1 or parts[0].lower() not in inner)
    return {canonical_name(lake, ".".join(map(quote, parts))) for parts in outer}


def unsubscribe(lake: ReadableLake, name: str) -> None:
    """Take a subscription away with what it told last."""
    saves = the_saves(lake)
    if not saves.has(SUBSCRIPTION, name):
        raise Invalid(
            f"no subscription {name!r}",
            hint="list them: belvedere subscriptions",
            reason="UNKNOWN_SUBSCRIPTION",
        )
    saves.drop(SUBSCRIPTION, name)
    saves.drop(NOTICE, name)


def subscriptions(lake: ReadableLake) -> list[Subscription]:
    """All of them, in order of their identifiers."""
    saves = lake.saves
    if saves is None:
        return []
    found = [dict(saves.head(SUBSCRIPTION, n).definition) for n in saves.names(SUBSCRIPTION)]
    return [Subscription(**{**record, "command": tuple(record["command"])}) for record in found]


def new_id() -> str:
    """An identifier for a subscription that was given none."""
    return uuid.uuid4().hex[:12]


def seconds(text: str) -> float:
    """A time such as 30s, 5m, 1h, 1d.

    >>> seconds("1.5h")
    5400.0
    """
    match = _TIME.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise Invalid(f"{text!r} is not a time", hint="write 30s, 5m, 1h or 1d", reason="BAD_VALUE")
    return float(match[1]) * _SECONDS[match[2]]


def percent(text: str) -> float:
    """A part such as 10%.

    >>> percent("10%")
    0.1
    """
    try:
        found = float(text.removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not text.endswith("%") or not 0 < found < float("inf"):
        raise Invalid(f"{text!r} is not a change in percent", hint="write 10%", reason="BAD_VALUE")
    return found


def _notice(lake: ReadableLake, name: str) -> Notice:
    saves = the_saves(lake)
    if not saves.has(NOTICE, name):
        # A number that no notification had, for the last one is not known.
        return Notice(int(time.time() * 1000))
    record = dict(saves.head(NOTICE, name).definition)
    return Notice(**{**record, "content": tuple(record["content"])})


def _save(lake: ReadableLake, name: str, notice: Notice) -> None:
    the_saves(lake).save(NOTICE, name, asdict(notice), {}, {})


def _saved_if(lake: ReadableLake, subscription: Subscription, old: Notice, new: Notice) -> Notice:
    if new != old:
        _save(lake, subscription.id, new)
    return new


def _number(subscription: Subscription, rows: list[Row]) -> float:
    """The one value of a condition; nothing is 0."""
    value = next(iter(rows[0].values()), None) if rows else None
    try:
        return 0.0 if value is None else float(value)
    except (TypeError, ValueError):
        raise Invalid(
            f"the condition of subscription {subscription.id} gives {value!r}",
            hint="it must give one number, or true or false",
            reason="BAD_CONDITION",
        ) from None


def _plain(row: Row) -> Row:
    """A row in JSON's types, so that it reads back as it was written."""
    found: Row = json.loads(json.dumps(row, default=str))
    return found


def _difference(old: Sequence[Row], new: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that came and those that went, with repetition.

    >>> _difference([{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 2}])
    ([{'a': 2}], [{'a': 1}])
    """
    before, after = (
        Counter(json.dumps(row, sort_keys=True) for row in rows) for rows in (old, new)
    )
    came, went = after - before, before - after
    return [json.loads(t) for t in came.elements()], [json.loads(t) for t in went.elements()]
