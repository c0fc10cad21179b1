"""Requests for refreshes: what was asked, the answer, and a queue by deadline."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from belvedere.errors import Invalid


@dataclass(frozen=True)
class RefreshAnswer:
    """The answer to a request: its time, the predicted time, and why it was late or failed."""

    view: str
    seconds: float
    limit: float
    predicted: float
    violation: str = ""
    vector: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass(order=True)
class RefreshRequest:
    """A request for a refresh; requests are ordered by deadline, then by number."""

    deadline: float
    number: int
    came: float = field(compare=False)
    view: str = field(compare=False)
    done: threading.Event = field(default_factory=threading.Event, compare=False)
    answer: RefreshAnswer | None = field(default=None, compare=False)


class RequestQueue:
    """The waiting requests, earliest deadline first; it wakes the thread that answers them."""

    def __init__(self) -> None:
        self._requests: list[RefreshRequest] = []
        self._numbers = count()
        self._wake = threading.Condition()
        self.stopped = False

    def __len__(self) -> int:
        return len(self._requests)

    def new(self, view: str, came: float, limit: float) -> RefreshRequest:
        """A request that came now; it does not wait in the queue."""
        return RefreshRequest(came + limit, next(self._numbers), came, view)

    def add(self, view: str, limit: float, clock: Callable[[], float]) -> RefreshRequest:
        """A new request, which waits; Invalid if the service is stopping."""
        with self._wake:
            if self.stopped:
                raise Invalid(
                    "the service is stopping", hint="ask again when it runs", reason="STOPPING"
                )
            request = self.new(view, clock(), limit)
            heapq.heappush(self._requests, request)
            self._wake.notify()
        return request

    def pop(self) -> RefreshRequest | None:
        """The request with the earliest deadline; None if none waits."""
        with self._wake:
            return heapq.heappop(self._requests) if self._requests else None

    def put_back(self, request: RefreshRequest) -> None:
        """Let a request wait again."""
        with self._wake:
            heapq.heappush(self._requests, request)

    def wait(self, seconds: float) -> None:
        """Wait for a request or for the stop, at most so long."""
        with self._wake:
            if not self._requests and not self.stopped:
                self._wake.wait(seconds)

    def stop(self) -> None:
        """Take no more requests, and wake the thread that waits."""
        with self._wake:
            self.stopped = True
            self._wake.notify()
