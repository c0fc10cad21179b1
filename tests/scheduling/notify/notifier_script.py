"""A notifier that sends as fast as it can until it is killed. The argument is the lake."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

from belvedere.lake.offline import OfflineLake
from belvedere.scheduling.notify.notifier import Notifier
from belvedere.scheduling.serve.requests import RefreshAnswer


class Counting:
    """A service whose view is a counter."""

    def __init__(self) -> None:
        self.numbers = count()

    def refresh_now(self, view: str) -> RefreshAnswer:
        return RefreshAnswer(view, 0.0, 5.0, 0.0)

    def rows(self, query: str) -> list[dict[str, Any]]:
        return [{"n": next(self.numbers), "text": "x" * 5000}]

    def versions(self) -> Mapping[str, int]:
        return {}


start = time.time()
steps = count()
notifier = Notifier(OfflineLake(sys.argv[1]), Counting(), wall=lambda: start + 10.0 * next(steps))
sys.stdout.write("ready\n")
sys.stdout.flush()
while True:
    notifier.turn()
