"""A view that the service keeps within its limit: what arrived, its costs, its policy."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.model.policies import Online, Receding, SchedulingPolicy, new_policy
from belvedere.scheduling.model.problem import Action, State
from belvedere.scheduling.model.simulator import choose_policy
from belvedere.scheduling.schedules import Schedule, save_schedule
from belvedere.scheduling.serve.deadlines import ViewScheduler
from belvedere.scheduling.serve.requests import RefreshRequest
from belvedere.scheduling.serve.watcher import TableWatch

MAX_RECORDED = 2000
"""The looks that are recorded for choosing a policy."""
ACTIONS_PER_SAVE = 20
"""The actions between two saves of what was learned."""
SLOW = 1.5
"""An action is slow if it takes more than this many times the predicted time."""
JUDGED_ACTIONS = 5
"""The actions whose median decides whether the calibration is off."""


@dataclass
class ServedView:
    """A view that the service keeps, and what the service observed of it."""

    schedule: Schedule
    scheduler: ViewScheduler
    watch: TableWatch
    recorded: deque[State] = field(default_factory=lambda: deque(maxlen=MAX_RECORDED))
    actions: int = 0
    requests: int = 0
    predicted: float = 0.0
    spent: float = 0.0
    violations: Counter[str] = field(default_factory=Counter)
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=JUDGED_ACTIONS))
    """The actual times of the last actions over their predicted times."""
    recalibrations: int = 0
    choosing: threading.Thread | None = None
    chosen: str = "NAIVE"
    choose_at: int = MAX_RECORDED // 8
    looked_at: float = -1.0

    @staticmethod
    def new(lake: ReadableLake, schedule: Schedule, policy: str, every: float) -> ServedView:
        """A view of which nothing was observed yet."""
        name = "NAIVE" if policy == "AUTO" else policy
        scheduler = ViewScheduler(
            schedule.view,
            schedule.tables,
            schedule.terms,
            new_policy(name, schedule.terms),
            every,
        )
        watch = TableWatch(lake, schedule.view, schedule.tables)
        return ServedView(schedule, scheduler, watch, chosen=name)

    def look(self, now: float, every: float) -> None:
        """Read from the tables' logs what arrived since the last look."""
        arrived, pending = self.watch.look()
        since = every if self.looked_at < 0 else now - self.looked_at
        looks = max(1, round(since / every))
        # Changes from before the first look did not arrive at a rate.
        if self.looked_at >= 0:
            self.scheduler.observe(arrived, looks)
            self.recorded.append(arrived)
            self.recorded.extend([self.scheduler.terms.nothing] * (looks - 1))
        self.looked_at = now
        self.scheduler.pending = pending

    def count(self, predicted: float, took: float) -> None:
        """Count an action with its predicted and its actual time."""
        self.scheduler.pending = self.watch.pending()
        self.actions += 1
        self.predicted += predicted
        self.spent += took

    def learn(
        self,
        lake: ReadableLake,
        action: Action,
        took: float,
        predicted: float,
        log: Callable[[str], None],
    ) -> None:
        """Correct the costs by the time of an action; all costs, if they were off several times."""
        calibration = self.schedule.calibration
        assert calibration is not None
        if predicted:
            self.ratios.append(took / predicted)
        factor = median(self.ratios) if len(self.ratios) == JUDGED_ACTIONS else 1.0
        if not 1 / SLOW <= factor <= SLOW:
            calibration = calibration.times(factor)
            self.ratios.clear()
            self.recalibrations += 1
            log(f"{self.scheduler.name}: recalibrated, costs are {factor:.2g} times what they were")
        learned = calibration.with_measured(action, took)
        self.schedule = replace(self.schedule, calibration=learned)
        self.scheduler.terms = self.schedule.terms
        if self.actions % ACTIONS_PER_SAVE == 0 or not self.ratios:
            save_schedule(lake, self.schedule)

    def cause_of_lateness(
        self, request: RefreshRequest, began: float, now: float, predicted: float
    ) -> str:
        """Why an answer was late, in words."""
        limit = self.scheduler.terms.limit
        if began - request.came > limit / 2:
            return "other work was running"
        if predicted > limit:
            return "more arrived than the limit can hold"
        if now - began > SLOW * predicted:
            return "slower than calibrated"
        return "the wait and the refresh together"

    def choose_policy(self, policy: str) -> None:
        """With policy AUTO, replay the recorded arrivals from time to time; take the cheapest."""
        if self.chosen != self.scheduler.policy.name:
            self.scheduler.policy = self._policy_with_rates(self.chosen)
        if policy != "AUTO" or self.scheduler.looks < self.choose_at:
            return
        if self.choosing is not None and self.choosing.is_alive():
            return
        terms, recorded = self.scheduler.terms, list(self.recorded)
        self.choose_at = self.scheduler.looks + MAX_RECORDED // 4
        if not any(map(any, recorded)):
            return

        def replay() -> None:
            self.chosen = choose_policy(terms, recorded).name

        self.choosing = threading.Thread(target=replay, daemon=True)
        self.choosing.start()

    def _policy_with_rates(self, name: str) -> SchedulingPolicy:
        """A new policy that knows the arrival rates observed so far."""
        policy = new_policy(name, self.scheduler.terms)
        if isinstance(policy, Online | Receding):
            rates = self.scheduler.rates
            policy.rates = replace(rates, means=[*rates.means], squares=[*rates.squares])
        return policy
