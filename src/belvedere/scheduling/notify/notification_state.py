"""The saved state of a subscription: the last notification, and the one that waits to be sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from belvedere.derivations.registry import the_saves
from belvedere.lake.offline import ReadableLake

NOTIFICATION_STATE = "notice"
"""The kind of these saved files."""

Row = dict[str, Any]


@dataclass(frozen=True)
class NotificationState:
    """The number, content and value of the last notification, and the one that waits."""

    number: int = 0
    content: tuple[Row, ...] = ()
    value: float | None = None
    held: bool = False
    due: float = 0.0
    waiting: Mapping[str, Any] | None = None


def load_state(lake: ReadableLake, name: str) -> NotificationState:
    """The saved state of a subscription; a new one if it was lost."""
    saves = the_saves(lake)
    if not saves.has(NOTIFICATION_STATE, name):
        # The last number is not known, so take one that no notification had.
        return NotificationState(int(time.time() * 1000))
    record = dict(saves.head(NOTIFICATION_STATE, name).definition)
    return NotificationState(**{**record, "content": tuple(record["content"])})


def save_state(lake: ReadableLake, name: str, state: NotificationState) -> None:
    """Save the state of a subscription."""
    the_saves(lake).save(NOTIFICATION_STATE, name, asdict(state), {}, {})
