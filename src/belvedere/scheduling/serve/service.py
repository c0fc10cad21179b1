"""The service: keeps the response limits of a lake's views, one action at a time.

One thread works. At every look it reads the tables' logs (no Spark), and acts where a limit would
be at risk; in between it answers requests, the earliest deadline first. The time of a request
runs from its coming to visible content, whatever was running included; an answer that took longer
is a violation, and is reported with its cause.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median
from typing import Any, Protocol

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.model.policies import Online, Policy, Receding, fresh
from belvedere.scheduling.model.problem import Action, State
from belvedere.scheduling.model.simulator import auto
from belvedere.scheduling.schedules import Schedule, is_damaged, lost, save, schedules
from belvedere.scheduling.serve.deadlines import Keeper, before, next_to_act
from belvedere.scheduling.serve.watcher import Watch

EVERY = 0.5
"""Seconds between looks."""
RECORDED = 2000
"""Looks that are remembered for choosing a policy."""
SELDOM = 20
"""Turns, or actions, between things that need not be done at each."""
SLOW = 1.5
"""How many times what was predicted an action takes before it counts as slow."""
OFF = 5
"""Actions of which most were slow, or most fast, before the calibration counts as off."""


class Served(Protocol):
    """What a lake does for the service."""

    def advance(self, name: str, *tables: str) -> Any: ...

    def refresh(self, name: str | None = None, *, full: bool = False) -> Any: ...


@dataclass(frozen=True)
class Answer:
    """What became of a request: when it was answered, and if that was too late, why."""

    view: str
    seconds: float
    limit: float
    predicted: float
    violation: str = ""
    vector: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass
class Kept:
    """A view that the service keeps, and what was seen of it."""

    schedule: Schedule
    keeper: Keeper
    watch: Watch
    recorded: deque[State] = field(default_factory=lambda: deque(maxlen=RECORDED))
    actions: int = 0
    requests: int = 0
    predicted: float = 0.0
    spent: float = 0.0
    violations: Counter[str] = field(default_factory=Counter)
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=OFF))
    """What the last actions took, over what was predicted of them."""
    recalibrations: int = 0
    choosing: threading.Thread | None = None
    chosen: str = "NAIVE"
    choose_at: int = RECORDED // 8
    looked: float = -1.0


@dataclass(order=True)
class _Request:
    deadline: float
    number: int
    came: float = field(compare=False)
    view: str = field(compare=False)
    done: threading.Event = field(default_factory=threading.Event, compare=False)
    answer: Answer | None = field(default=None, compare=False)


class Service:
    """Keeps every view that has a limit and a calibration."""

    def __init__(
        self,
        lake: Served,
        tables: ReadableLake,
        *,
        every: float = EVERY,
        policy: str = "AUTO",
        clock: Callable[[], float] = time.monotonic,
        told: Callable[[str], None] = lambda _: None,
        between: Callable[[], object] = lambda: None,
    ) -> None:
        self.lake, self.tables, self.every, self.policy = lake, tables, every, policy
        self.kept: dict[str, Kept] = {}
        self.trouble = ""
        self._clock, self._told = clock, told
        self.between = between
        """What else is done at every look."""
        self.after: Callable[[], object] = lambda: None
        """What is done at the end."""
        self._requests: list[_Request] = []
        self._numbers = count()
        self._wake = threading.Condition()
        self._stopped = False
        self._turns = 0
        self.reload()
        if not self.kept:
            raise Invalid(
                "no view has a response limit and a calibration",
                detail="; ".join(map(str, lost(tables))),
                hint="ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT 5 SECONDS, then calibrate it",
                reason="NOTHING_TO_KEEP",
            )

    def request(self, view: str, timeout: float | None = None) -> Answer:
        """Have a view refreshed and wait for it."""
        kept = self._the(view)
        with self._wake:
            if self._stopped:
                raise Invalid(
                    "the service is stopping", hint="ask again when it runs", reason="STOPPING"
                )
            came = self._clock()
            deadline = came + kept.keeper.terms.limit
            request = _Request(deadline, next(self._numbers), came, kept.keeper.name)
            heapq.heappush(self._requests, request)
            self._wake.notify()
        if not request.done.wait(timeout) or request.answer is None:
            raise Invalid(
                f"no answer for {view!r} in {timeout:g} s",
                hint="the service is busy",
                reason="NO_ANSWER",
            )
        return request.answer

    def ask(self, view: str) -> Answer:
        """Refresh a view at once, for what runs in the service's own thread."""
        kept = self._the(view)
        now, limit = self._clock(), kept.keeper.terms.limit
        request = _Request(now + limit, next(self._numbers), now, kept.keeper.name)
        self._answer(request)
        assert request.answer is not None
        if request.answer.error:
            raise Invalid(
                f"{view!r} was not refreshed", detail=request.answer.error, reason="NOT_REFRESHED"
            )
        return request.answer

    def run(self) -> None:
        """Work until stopped; the action that runs then is finished."""
        due = self._clock()
        while not self._stopped:
            now = self._clock()
            look = now >= due
            worked = self._worked(look=look)
            if look:
                due = now + self.every
            with self._wake:
                if not worked and not self._requests and not self._stopped:
                    self._wake.wait(max(due - self._clock(), 0.0))
        self._give_up()
        self.after()
        for kept in self.kept.values():
            save(self.tables, kept.schedule)

    def _worked(self, *, look: bool) -> bool:
        """One turn and what else is to be done; an error is told, and the next turn tries again."""
        try:
            worked = self.turn(look=look)
            if look:
                self.between()
                self._turns += 1
                if self._turns % SELDOM == 0:
                    self.reload()
            return worked
        except Exception as error:
            self._told_of(error)
            return False

    def _told_of(self, error: Exception) -> str:
        self.trouble = f"{type(error).__name__}: {error}".partition("\n")[0]
        self._told(self.trouble)
        return self.trouble

    def stop(self) -> None:
        """End after the action that is running."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def reload(self) -> None:
        """Take note of limits that were set, changed or taken away."""
        found = {s.view: s for s in schedules(self.tables) if s.calibration is not None}
        for name in [n for n in self.kept if n not in found]:
            if is_damaged(self.tables, name):
                # What it said is still known here.
                save(self.tables, self.kept[name].schedule)
            else:
                del self.kept[name]
        for name, schedule in found.items():
            if name not in self.kept:
                self.kept[name] = self._kept(schedule)
            elif schedule.limit != self.kept[name].schedule.limit:
                kept = self.kept[name]
                kept.schedule = replace(kept.schedule, limit=schedule.limit)
                kept.keeper.terms = kept.schedule.terms

    def turn(self, *, look: bool = True) -> bool:
        """One look and at most one action or answer; whether there was anything to do."""
        if look:
            self._look()
        request = self._next_request()
        keepers = [kept.keeper for kept in self.kept.values()]
        keeper = next_to_act(keepers) if look or request is None else None
        if keeper is not None and (request is None or self._goes_first(keeper, request)):
            if request is not None:
                self._put_back(request)
            self._act(self.kept[keeper.name], keeper.action(before(keepers, keeper)))
            return True
        if request is not None:
            self._answer(request)
            return True
        return False

    def _look(self) -> None:
        now = self._clock()
        for kept in self.kept.values():
            try:
                arrived, pending = kept.watch.look()
                self.trouble = ""
            except (BelvedereError, OSError) as error:
                self.trouble = f"{kept.keeper.name}: {error}".partition("\n")[0]
                continue
            since = self.every if kept.looked < 0 else now - kept.looked
            looks = max(1, round(since / self.every))
            # What was there before the service began did not arrive at a rate.
            if kept.looked >= 0:
                kept.keeper.see(arrived, looks)
                kept.recorded.append(arrived)
                kept.recorded.extend([kept.keeper.terms.nothing] * (looks - 1))
            kept.looked = now
            kept.keeper.pending = pending
            self._choose(kept)

    def _act(self, kept: Kept, action: Action) -> None:
        moved = [t for t, k in zip(kept.keeper.tables, action, strict=True) if k]
        if len(moved) == sum(map(bool, kept.keeper.pending)):
            self._timed(kept, action, lambda: self.lake.refresh(kept.keeper.name))
        else:
            self._timed(kept, action, lambda: self.lake.advance(kept.keeper.name, *moved))

    def _answer(self, request: _Request) -> None:
        kept = self.kept[request.view]
        began = self._clock()
        pending = kept.watch.pending()
        predicted = kept.keeper.terms.cost(pending)
        vector: Mapping[str, int] = {}
        error = ""
        try:
            done = self._timed(kept, pending, lambda: self.lake.refresh(request.view))
            vector = done.vector_after
        except Exception as problem:
            # Whatever went wrong, whoever asked must hear of it, and the others be served.
            error = self._told_of(problem)
        took, limit = self._clock() - request.came, kept.keeper.terms.limit
        cause = self._cause(kept, request, began, predicted) if took > limit else ""
        kept.requests += 1
        if cause:
            kept.violations[cause] += 1
            self._told(f"{request.view}: answered after {took:.2f} s of {limit:g} s: {cause}")
        request.answer = Answer(request.view, took, limit, predicted, cause, vector, error)
        request.done.set()

    def _timed(self, kept: Kept, action: Action, work: Callable[[], Any]) -> Any:
        """Do something to a view, and learn from what it took."""
        predicted = kept.keeper.terms.cost(action)
        began = self._clock()
        done = work()
        took = self._clock() - began
        kept.keeper.pending = kept.watch.pending()
        kept.actions += 1
        kept.predicted += predicted
        kept.spent += took
        if any(action) and getattr(done, "strategy", "") in ("merge", "replace keys"):
            self._learn(kept, action, took, predicted)
        if predicted and took > SLOW * predicted:
            self._told(f"{kept.keeper.name}: {action} took {took:.2f} s, predicted {predicted:.2f}")
        return done

    def _learn(self, kept: Kept, action: Action, took: float, predicted: float) -> None:
        """Correct the costs by what an action took; all of them, if they have been off for long."""
        known = kept.schedule.calibration
        assert known is not None
        if predicted:
            kept.ratios.append(took / predicted)
        off = median(kept.ratios) if len(kept.ratios) == OFF else 1.0
        if not 1 / SLOW <= off <= SLOW:
            known = known.times(off)
            kept.ratios.clear()
            kept.recalibrations += 1
            self._told(
                f"{kept.keeper.name}: recalibrated, costs are {off:.2g} times what they were"
            )
        learned = known.with_measured(action, took)
        kept.schedule = replace(kept.schedule, calibration=learned)
        kept.keeper.terms = kept.schedule.terms
        if kept.actions % SELDOM == 0 or not kept.ratios:
            save(self.tables, kept.schedule)

    def _cause(self, kept: Kept, request: _Request, began: float, predicted: float) -> str:
        limit = kept.keeper.terms.limit
        if began - request.came > limit / 2:
            return "other work was running"
        if predicted > limit:
            return "more arrived than the limit can hold"
        took = self._clock() - began
        if took > SLOW * predicted:
            return "slower than calibrated"
        return "the wait and the refresh together"

    def _choose(self, kept: Kept) -> None:
        """AUTO: now and then, replay what was recorded and take the cheapest policy."""
        if kept.chosen != kept.keeper.policy.name:
            kept.keeper.policy = self._policy(kept.chosen, kept.keeper)
        if self.policy != "AUTO" or kept.keeper.looks < kept.choose_at:
            return
        if kept.choosing is not None and kept.choosing.is_alive():
            return
        terms, recorded = kept.keeper.terms, list(kept.recorded)
        kept.choose_at = kept.keeper.looks + RECORDED // 4
        if not any(map(any, recorded)):
            return

        def replay() -> None:
            kept.chosen = auto(terms, recorded).name

        kept.choosing = threading.Thread(target=replay, daemon=True)
        kept.choosing.start()

    def _policy(self, name: str, keeper: Keeper) -> Policy:
        """A policy that knows the rates seen so far."""
        policy = fresh(name, keeper.terms)
        if isinstance(policy, Online | Receding):
            rates = keeper.rates
            policy.rates = replace(rates, means=[*rates.means], squares=[*rates.squares])
        return policy

    def _kept(self, schedule: Schedule) -> Kept:
        name = "NAIVE" if self.policy == "AUTO" else self.policy
        policy = fresh(name, schedule.terms)
        keeper = Keeper(schedule.view, schedule.tables, schedule.terms, policy, self.every)
        watch = Watch(self.tables, schedule.view, schedule.tables)
        return Kept(schedule, keeper, watch, chosen=name)

    def _the(self, view: str) -> Kept:
        found = next((k for name, k in self.kept.items() if name.lower() == view.lower()), None)
        if found is None:
            raise Invalid(
                f"the service does not keep {view!r}",
                hint=f"it keeps {', '.join(self.kept)}",
                reason="NOT_KEPT",
            )
        return found

    def _next_request(self) -> _Request | None:
        with self._wake:
            return heapq.heappop(self._requests) if self._requests else None

    def _put_back(self, request: _Request) -> None:
        with self._wake:
            heapq.heappush(self._requests, request)

    def _goes_first(self, keeper: Keeper, request: _Request) -> bool:
        """Whether an action that is due can go before a request, which then is still in time."""
        if keeper.name == request.view:
            return False
        asked = self.kept[request.view].keeper
        return self._clock() + keeper.due() + asked.due() < request.deadline

    def _give_up(self) -> None:
        while (request := self._next_request()) is not None:
            limit = self.kept[request.view].keeper.terms.limit
            took = self._clock() - request.came
            request.answer = Answer(request.view, took, limit, 0.0, error="the service stopped")
            request.done.set()
