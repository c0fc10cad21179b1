"""The notifier: checks the conditions of subscriptions, and sends notifications.

When a condition holds, the view is refreshed within its limit. The notification has the content of
the query and its difference from the last notification. It is saved with a number before it is sent:
after a kill in between, the same notification is sent again under the same identifier. A line that a
file already has is not written again, so files have each notification once.

Webhooks and commands may be slow, and limits must be kept meanwhile. They are sent outside the
service's own thread, one at a time for each subscription.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.notify.delivery import (
    TIMEOUT,
    DeliveryFailed,
    deliver,
    refuse_unless_allowed,
)
from belvedere.scheduling.notify.notification_state import (
    NotificationState,
    Row,
    load_state,
    save_state,
)
from belvedere.scheduling.notify.subscriptions import (
    Subscription,
    lost_subscriptions,
    subscriptions,
)

FIRST_RETRY, LAST_RETRY = 5.0, 300.0
"""Seconds before a failed delivery is tried again; they double each time, up to the second."""


class SubscriptionService(Protocol):
    """What the notifier calls of the service."""

    def refresh_now(self, view: str) -> Any: ...

    def rows(self, query: str) -> list[Row]: ...

    def versions(self) -> Mapping[str, int]: ...


@dataclass
class Notifier:
    """Checks conditions and sends notifications."""

    lake: ReadableLake
    service: SubscriptionService
    allowed: Sequence[str] = ()
    wall: Callable[[], float] = time.time
    log: Callable[[str], None] = lambda _: None
    seen: dict[str, Mapping[str, int]] = field(default_factory=dict)
    retries: dict[str, tuple[float, float]] = field(default_factory=dict)
    recovered: set[str] = field(default_factory=set)
    """Subscriptions whose waiting notification may have arrived."""
    executor: Executor | None = None
    """Sends webhooks and commands; None sends them in this thread."""
    sending: dict[str, Future[None]] = field(default_factory=dict)
    logged_damages: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.recovered = {s.id for s in subscriptions(self.lake)}

    def turn(self) -> int:
        """Check every subscription; returns the number of notifications that were sent."""
        for damage in lost_subscriptions(self.lake):
            if damage.path not in self.logged_damages:
                self.logged_damages.add(damage.path)
                self.log(str(damage))
        return sum(self._check_and_send(subscription) for subscription in subscriptions(self.lake))

    def close(self) -> None:
        """Wait for notifications that are being sent, and save what has arrived."""
        wait(self.sending.values(), TIMEOUT)
        for subscription in subscriptions(self.lake):
            if subscription.id in self.sending:
                self._check_and_send(subscription)
        if self.executor is not None:
            self.executor.shutdown(wait=False)

    def _check_and_send(self, subscription: Subscription) -> bool:
        try:
            state = load_state(self.lake, subscription.id)
            if state.waiting is None:
                state = self._check(subscription, state)
            return state.waiting is not None and self._send(subscription, state)
        except Exception as error:
            # One that fails must not stop the others.
            message = error.message if isinstance(error, BelvedereError) else str(error)
            self.log(f"subscription {subscription.id}: {message.partition(chr(10))[0]}")
            return False

    def _check(self, subscription: Subscription, state: NotificationState) -> NotificationState:
        """The state after a check of the condition; with a notification if the condition holds."""
        if subscription.every is not None:
            now = self.wall()
            if now < state.due:
                return state
            periods = max(int((now - state.due) // subscription.every), 0) + 1
            first = state.due == 0.0
            due = now + subscription.every if first else state.due + periods * subscription.every
            return self._compose(subscription, replace(state, due=due))
        versions = self.service.versions()
        if self.seen.get(subscription.id) == versions:
            return state
        self.seen[subscription.id] = versions
        value = _number(subscription, self.service.rows(subscription.when))
        if subscription.changed is None:
            holds = bool(value)
            current = replace(state, held=holds)
            if holds and not state.held:
                return self._compose(subscription, current)
            return self._save_if_changed(subscription, state, current)
        if state.value is None:
            return self._save_if_changed(subscription, state, replace(state, value=value))
        if abs(value - state.value) < subscription.changed * abs(state.value) or (
            value == state.value
        ):
            return state
        return self._compose(subscription, replace(state, value=value))

    def _save_if_changed(
        self, subscription: Subscription, old: NotificationState, new: NotificationState
    ) -> NotificationState:
        if new != old:
            save_state(self.lake, subscription.id, new)
        return new

    def _compose(self, subscription: Subscription, state: NotificationState) -> NotificationState:
        """Refresh the view, and save the notification before it is sent."""
        answer = self.service.refresh_now(subscription.view)
        content = [_json_row(row) for row in self.service.rows(subscription.query)]
        number = state.number + 1
        added, removed = _difference(state.content, content)
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
        composed = replace(state, number=number, content=tuple(content), waiting=message)
        save_state(self.lake, subscription.id, composed)
        self.recovered.discard(subscription.id)
        return composed

    def _send(self, subscription: Subscription, state: NotificationState) -> bool:
        """Send the waiting notification; whether it has arrived."""
        name, now = subscription.id, self.wall()
        at, pause = self.retries.get(name, (0.0, FIRST_RETRY))
        if name not in self.sending and (now < at or state.waiting is None):
            return False
        try:
            if not self._is_delivered(subscription, state):
                return False
        except DeliveryFailed as error:
            self.retries[name] = now + pause, min(2 * pause, LAST_RETRY)
            # It may have arrived all the same: the next try looks for it in the file.
            self.recovered.add(name)
            self.log(f"subscription {name}: not delivered: {error}")
            return False
        self.retries.pop(name, None)
        self.recovered.discard(name)
        save_state(self.lake, name, replace(state, waiting=None))
        return True

    def _is_delivered(self, subscription: Subscription, state: NotificationState) -> bool:
        """Start to send, or ask how that went; False while it is being sent."""
        assert state.waiting is not None
        name, again = subscription.id, subscription.id in self.recovered
        if self.executor is None or subscription.jsonl:
            deliver(subscription, state.waiting, allowed=self.allowed, again=again)
            return True
        if name not in self.sending:
            refuse_unless_allowed(subscription, self.allowed)
            self.sending[name] = self.executor.submit(
                deliver, subscription, state.waiting, allowed=self.allowed, again=again
            )
        if not self.sending[name].done():
            return False
        self.sending.pop(name).result()
        return True


def _number(subscription: Subscription, rows: list[Row]) -> float:
    """The one value of a condition; no row and NULL are 0."""
    value = next(iter(rows[0].values()), None) if rows else None
    try:
        return 0.0 if value is None else float(value)
    except (TypeError, ValueError):
        raise Invalid(
            f"the condition of subscription {subscription.id} gives {value!r}",
            hint="select one number, or true or false",
            reason="BAD_CONDITION",
        ) from None


def _json_row(row: Row) -> Row:
    """A row in types that JSON has, so that it reads back as it was written."""
    plain: Row = json.loads(json.dumps(row, default=str))
    return plain


def _difference(old: Sequence[Row], new: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The added and the removed rows, with repetition.

    >>> _difference([{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 2}])
    ([{'a': 2}], [{'a': 1}])
    """
    before, after = (
        Counter(json.dumps(row, sort_keys=True) for row in rows) for rows in (old, new)
    )
    added, removed = after - before, before - after
    return [json.loads(t) for t in added.elements()], [json.loads(t) for t in removed.elements()]
