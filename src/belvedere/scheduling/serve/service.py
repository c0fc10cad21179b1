"""The service: keeps the response limits of a lake's views, one action at a time.

One thread works. At every look it reads the tables' logs, without Spark, and acts if a limit would
be at risk. Between looks it answers requests, the earliest deadline first. The time of a request runs
from its arrival until the refreshed rows are visible, and includes whatever was running. An answer
that takes longer than the limit is a violation and is logged with its cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.model.problem import Action
from belvedere.scheduling.schedules import is_damaged, lost_limits, save_schedule, schedules
from belvedere.scheduling.serve.deadlines import ViewScheduler, longest_wait, next_to_act
from belvedere.scheduling.serve.requests import RefreshAnswer, RefreshRequest, RequestQueue
from belvedere.scheduling.serve.served_view import SLOW, ServedView

EVERY = 0.5
"""Seconds between looks."""
LOOKS_PER_RELOAD = 20
"""Looks between two reloads of the schedules."""


class ServedLake(Protocol):
    """What the service calls of a lake."""

    def advance(self, name: str, *tables: str) -> Any: ...

    def refresh(self, name: str | None = None, *, full: bool = False) -> Any: ...


class SchedulingService:
    """Keeps every view that has a limit and a calibration."""

    def __init__(
        self,
        lake: ServedLake,
        tables: ReadableLake,
        *,
        every: float = EVERY,
        policy: str = "AUTO",
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.lake, self.tables, self.every, self.policy = lake, tables, every, policy
        self.views: dict[str, ServedView] = {}
        self.trouble = ""
        self.on_look: Callable[[], object] = lambda: None
        """Called after every look."""
        self.on_stop: Callable[[], object] = lambda: None
        """Called once, when the service stops."""
        self.queue = RequestQueue()
        self._clock, self._log = clock, log
        self._looks = 0
        self.reload()
        if not self.views:
            raise Invalid(
                "no view has a response limit and a calibration",
                detail="; ".join(map(str, lost_limits(tables))),
                hint="ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT 5 SECONDS, then calibrate it",
                reason="NOTHING_TO_KEEP",
            )

    def request(self, view: str, timeout: float | None = None) -> RefreshAnswer:
        """Request a refresh of a view and wait for the answer, from any thread."""
        scheduler = self._view(view).scheduler
        request = self.queue.add(scheduler.name, scheduler.terms.limit, self._clock)
        if not request.done.wait(timeout) or request.answer is None:
            raise Invalid(
                f"no answer for {view!r} in {timeout:g} s",
                hint="ask again: the service is busy",
                reason="NO_ANSWER",
            )
        return request.answer

    def refresh_now(self, view: str) -> RefreshAnswer:
        """Refresh a view at once; for callers in the service's own thread."""
        scheduler = self._view(view).scheduler
        request = self.queue.new(scheduler.name, self._clock(), scheduler.terms.limit)
        self._answer(request)
        assert request.answer is not None
        if request.answer.error:
            raise Invalid(
                f"{view!r} was not refreshed", detail=request.answer.error, reason="NOT_REFRESHED"
            )
        return request.answer

    def run(self) -> None:
        """Work until stopped; a running action is finished first."""
        due = self._clock()
        while not self.queue.stopped:
            now = self._clock()
            look = now >= due
            worked = self._run_turn(look=look)
            if look:
                due = now + self.every
            if not worked:
                self.queue.wait(max(due - self._clock(), 0.0))
        self._answer_rest()
        self.on_stop()
        for view in self.views.values():
            save_schedule(self.tables, view.schedule)

    def stop(self) -> None:
        """End after the running action."""
        self.queue.stop()

    def reload(self) -> None:
        """Follow limits that were set, changed or removed."""
        current = {s.view: s for s in schedules(self.tables) if s.calibration is not None}
        for name in [n for n in self.views if n not in current]:
            if is_damaged(self.tables, name):
                # The schedule in memory replaces the damaged file.
                save_schedule(self.tables, self.views[name].schedule)
            else:
                del self.views[name]
        for name, schedule in current.items():
            if name not in self.views:
                self.views[name] = ServedView.new(self.tables, schedule, self.policy, self.every)
            elif schedule.limit != self.views[name].schedule.limit:
                view = self.views[name]
                view.schedule = replace(view.schedule, limit=schedule.limit)
                view.scheduler.terms = view.schedule.terms

    def turn(self, *, look: bool = True) -> bool:
        """One look and at most one action or answer; whether there was anything to do."""
        if look:
            self._look()
        request = self.queue.pop()
        schedulers = [view.scheduler for view in self.views.values()]
        scheduler = next_to_act(schedulers) if look or request is None else None
        if scheduler is not None and (request is None or self._can_go_first(scheduler, request)):
            if request is not None:
                self.queue.put_back(request)
            action = scheduler.action(longest_wait(schedulers, scheduler))
            self._act(self.views[scheduler.name], action)
            return True
        if request is not None:
            self._answer(request)
            return True
        return False

    def _run_turn(self, *, look: bool) -> bool:
        """One turn, and the work of a look; an error is logged, and the next turn tries again."""
        try:
            worked = self.turn(look=look)
            if look:
                self.on_look()
                self._looks += 1
                if self._looks % LOOKS_PER_RELOAD == 0:
                    self.reload()
            return worked
        except Exception as error:
            self._report(error)
            return False

    def _look(self) -> None:
        now = self._clock()
        for view in self.views.values():
            try:
                view.look(now, self.every)
                self.trouble = ""
            except (BelvedereError, OSError) as error:
                self.trouble = f"{view.scheduler.name}: {error}".partition("\n")[0]
                continue
            view.choose_policy(self.policy)

    def _act(self, view: ServedView, action: Action) -> None:
        moved = [t for t, k in zip(view.scheduler.tables, action, strict=True) if k]
        if len(moved) == sum(map(bool, view.scheduler.pending)):
            self._timed(view, action, lambda: self.lake.refresh(view.scheduler.name))
        else:
            self._timed(view, action, lambda: self.lake.advance(view.scheduler.name, *moved))

    def _answer(self, request: RefreshRequest) -> None:
        view = self.views[request.view]
        began = self._clock()
        pending = view.watch.pending()
        predicted = view.scheduler.terms.cost(pending)
        vector: Mapping[str, int] = {}
        error = ""
        try:
            outcome = self._timed(view, pending, lambda: self.lake.refresh(request.view))
            vector = outcome.vector_after
        except Exception as problem:
            # Whatever fails, the requester must get an answer, and other requests be served.
            error = self._report(problem)
        now, limit = self._clock(), view.scheduler.terms.limit
        took = now - request.came
        cause = view.cause_of_lateness(request, began, now, predicted) if took > limit else ""
        view.requests += 1
        if cause:
            view.violations[cause] += 1
            self._log(f"{request.view}: answered after {took:.2f} s of {limit:g} s: {cause}")
        request.answer = RefreshAnswer(request.view, took, limit, predicted, cause, vector, error)
        request.done.set()

    def _timed(self, view: ServedView, action: Action, work: Callable[[], Any]) -> Any:
        """Run work on a view, and learn from the time it took."""
        predicted = view.scheduler.terms.cost(action)
        began = self._clock()
        outcome = work()
        took = self._clock() - began
        view.count(predicted, took)
        if any(action) and getattr(outcome, "strategy", "") in ("merge", "replace keys"):
            view.learn(self.tables, action, took, predicted, self._log)
        if predicted and took > SLOW * predicted:
            self._log(
                f"{view.scheduler.name}: {action} took {took:.2f} s, predicted {predicted:.2f}"
            )
        return outcome

    def _can_go_first(self, scheduler: ViewScheduler, request: RefreshRequest) -> bool:
        """Whether an action can run before a request, and the request still be in time."""
        if scheduler.name == request.view:
            return False
        requested = self.views[request.view].scheduler
        work = scheduler.refresh_seconds() + requested.refresh_seconds()
        return self._clock() + work < request.deadline

    def _view(self, name: str) -> ServedView:
        view = next((v for n, v in self.views.items() if n.lower() == name.lower()), None)
        if view is None:
            raise Invalid(
                f"the service does not keep {name!r}",
                hint=f"name one of {', '.join(self.views)}",
                reason="NOT_KEPT",
            )
        return view

    def _report(self, error: Exception) -> str:
        self.trouble = f"{type(error).__name__}: {error}".partition("\n")[0]
        self._log(self.trouble)
        return self.trouble

    def _answer_rest(self) -> None:
        """Answer the requests that still wait when the service stops."""
        while (request := self.queue.pop()) is not None:
            limit = self.views[request.view].scheduler.terms.limit
            took = self._clock() - request.came
            request.answer = RefreshAnswer(
                request.view, took, limit, 0.0, error="the service stopped"
            )
            request.done.set()
