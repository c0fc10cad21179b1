"""Schedules: the response limit of a view and the costs of its tables' changes, saved in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from belvedere.derivations.registry import the_saves
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import ReadableLake
from belvedere.listing import table
from belvedere.reasons import REASONS
from belvedere.scheduling.calibrate.fitting import (
    FittedCost,
    JointBatch,
    MeasuredBatch,
    Weights,
    by_kind,
    fit_cost,
    fit_prices,
    size_class,
)
from belvedere.scheduling.model.cost_functions import (
    BlockCost,
    CostFunction,
    CurveCost,
    LinearCost,
    ListedCost,
    Prices,
    from_record,
    to_record,
)
from belvedere.scheduling.model.problem import State, Terms
from belvedere.scheduling.serve.deadlines import refuse_short_limit
from belvedere.sql.statements.views import RefreshPolicy
from belvedere.storage.private_files import Damage
from belvedere.views.catalog import canonical_name, shown_name, the_view
from belvedere.views.definition import View
from belvedere.views.incremental.choice import rebuild_reason

KIND = "schedule"
KEPT_PER_SIZE = 5
"""The measurements that are kept for each size class of batches."""


@dataclass(frozen=True)
class Calibration:
    """The measured costs of a view's tables, each alone and all together, by kind of change."""

    tables: tuple[str, ...]
    fits: tuple[FittedCost, ...]
    joint: tuple[JointBatch, ...] = ()
    at: str = ""
    weights: tuple[Weights, ...] = ()
    """The share of each kind of change in the arrivals of each table; empty if that is not known."""

    @cached_property
    def prices(self) -> Prices:
        """The prices that fit the measurements."""
        return fit_prices(self.fits, self.joint)

    def with_measured(self, action: State, seconds: float) -> Calibration:
        """The calibration with one more measured batch, in place of the oldest of its size class."""
        moved = [i for i, k in enumerate(action) if k]
        if len(moved) == 1:
            (i,) = moved
            measured = self.fits[i].measured
            same_class = [
                m for m in measured if not m.kind and size_class(m.changes) == size_class(action[i])
            ]
            others = [m for m in measured if m not in same_class]
            batches = [
                *others,
                *same_class[-KEPT_PER_SIZE + 1 :],
                MeasuredBatch(action[i], seconds),
            ]
            fitted = fit_cost(batches, self.weights[i] if self.weights else None)
            return replace(self, fits=(*self.fits[:i], fitted, *self.fits[i + 1 :]))
        if len(moved) > 1:
            return replace(
                self, joint=(*self.joint, JointBatch(action, seconds))[-4 * KEPT_PER_SIZE :]
            )
        return self

    def times(self, factor: float) -> Calibration:
        """The calibration with all costs times a factor, for a machine that has become slower.

        Batches that the service timed itself keep their times.
        """

        def scaled(one: MeasuredBatch) -> MeasuredBatch:
            return replace(one, seconds=factor * one.seconds) if one.kind else one

        shares = self.weights or ({},) * len(self.fits)
        fits = (
            fit_cost([scaled(m) for m in f.measured], w)
            for f, w in zip(self.fits, shares, strict=True)
        )
        joint = (replace(j, seconds=factor * j.seconds) if j.kind else j for j in self.joint)
        return replace(self, fits=tuple(fits), joint=tuple(joint))

    def __str__(self) -> str:
        """The cost functions, their errors, and the measurements."""
        kinds = [
            (name, kind or "as they came", _pairs(points))
            for name, f in zip(self.tables, self.fits, strict=True)
            for kind, points in by_kind(f.measured)
        ]
        rows = [
            (name, _formula(f.cost), f"{f.residual:.0%}", _formula(f.at_most), "; ".join(f.notes))
            for name, f in zip(self.tables, self.fits, strict=True)
        ]
        headers = ("table", "cost in seconds of k changes", "off by", "at most", "notes")
        text = "\n".join((table(headers, rows), str(table(("table", "kind", "measured"), kinds))))
        return f"{text}\na joint refresh saves {self.prices.shared:.3g} s for each further table"


@dataclass(frozen=True)
class Schedule:
    """The limit of a view in seconds and its calibration, as far as they are set."""

    view: str
    limit: float | None = None
    calibration: Calibration | None = None
    policy: str = "AUTO"
    notes: tuple[str, ...] = field(default=())

    @property
    def terms(self) -> Terms:
        """The costs and the limit; Invalid if one is missing."""
        if self.limit is None:
            raise Invalid(
                f"{self.view!r} has no response limit",
                hint=f"ALTER MATERIALIZED VIEW {self.view} SET RESPONSE LIMIT 5 SECONDS",
                reason="NO_LIMIT",
            )
        if self.calibration is None:
            raise Invalid(
                f"the costs of changes of {self.view!r} were not measured",
                hint=f"lake.calibrate({self.view!r}), or belvedere calibrate {self.view}",
                reason="NOT_CALIBRATED",
            )
        return Terms(self.calibration.prices, self.limit)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that were calibrated."""
        return self.calibration.tables if self.calibration else ()


def the_schedule(lake: ReadableLake, name: str) -> Schedule:
    """The schedule of a view, empty if it has none."""
    view, saves = the_view(lake, name), lake.saves
    key = canonical_name(lake, name)
    if saves is None or not saves.has(KIND, key):
        return Schedule(view.name)
    return _schedule(saves.head(KIND, key).definition)


def schedules(lake: ReadableLake) -> list[Schedule]:
    """The schedules of all views that have a limit."""
    saves = lake.saves
    if saves is None:
        return []
    every = [_schedule(saves.head(KIND, key).definition) for key in saves.names(KIND)]
    return [s for s in every if s.limit is not None]


def lost_limits(lake: ReadableLake) -> list[Damage]:
    """The schedules that were lost with damaged files."""
    return [] if lake.saves is None else lake.saves.damages(KIND)


def is_damaged(lake: ReadableLake, name: str) -> bool:
    """Whether the file of a view's schedule exists but cannot be read."""
    return lake.saves is not None and lake.saves.is_damaged(KIND, canonical_name(lake, name))


def save_schedule(lake: ReadableLake, schedule: Schedule) -> None:
    """Save a schedule in place of the previous one."""
    key = canonical_name(lake, schedule.view)
    the_saves(lake).save(KIND, key, _record(schedule), {}, {})


def drop_schedule(lake: ReadableLake, name: str) -> None:
    """Delete the schedule of a view, if it has one."""
    if lake.saves is not None and lake.saves.has(KIND, canonical_name(lake, name)):
        lake.saves.drop(KIND, canonical_name(lake, name))


def set_limit(lake: ReadableLake, name: str, seconds: float | None) -> Schedule:
    """Set or remove the limit of a view; Invalid if the limit cannot be kept."""
    view = the_view(lake, name)
    schedule = replace(the_schedule(lake, name), limit=seconds)
    if seconds is not None:
        refuse_without_plan(lake, view)
        if schedule.calibration is not None:
            refuse_short_limit(view.name, schedule.tables, schedule.terms)
    save_schedule(lake, schedule)
    return schedule


def save_calibration(lake: ReadableLake, name: str, calibration: Calibration) -> Schedule:
    """Save the calibration of a view."""
    schedule = replace(the_schedule(lake, name), calibration=calibration)
    save_schedule(lake, schedule)
    return schedule


def refuse_without_plan(lake: ReadableLake, view: View) -> None:
    """Unsupported if the view cannot be refreshed from its changes, which a schedule needs."""
    below = [shown_name(lake, t) for t in view.inputs if t in lake.stored()]
    if below:
        raise Unsupported(
            f"a response limit for {view.name!r}, which reads the view {below[0]!r}",
            hint="define the view on the base tables",
            reason="VIEW_OVER_VIEW",
        )
    reason = "POLICY_FULL" if RefreshPolicy(view.definition.policy) is RefreshPolicy.FULL else ""
    reason = reason or rebuild_reason(view.state, view.definition.types, view.tables)
    if reason:
        raise Unsupported(
            f"{view.name!r} has no incremental plan to schedule: {REASONS[reason].sentence}",
            hint="change the view so that it can be refreshed from its changes",
            reason=reason,
        )


def now() -> str:
    """The present time, as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _record(schedule: Schedule) -> dict[str, Any]:
    calibration = schedule.calibration
    record: dict[str, Any] = {
        "view": schedule.view,
        "limit": schedule.limit,
        "policy": schedule.policy,
    }
    if calibration is not None:
        record["calibration"] = {
            "tables": list(calibration.tables),
            "fits": [_fit_record(f) for f in calibration.fits],
            "joint": [[list(j.changes), j.seconds, j.kind] for j in calibration.joint],
            "at": calibration.at,
            "weights": [dict(w) for w in calibration.weights],
        }
    return record


def _fit_record(fitted: FittedCost) -> dict[str, Any]:
    return {
        "cost": to_record(fitted.cost),
        "residual": fitted.residual,
        "above": to_record(fitted.above) if fitted.above else None,
        "measured": [[m.changes, m.seconds, m.kind] for m in fitted.measured],
        "notes": list(fitted.notes),
    }


def _schedule(record: Any) -> Schedule:
    saved = record.get("calibration")
    calibration = None
    if saved is not None:
        calibration = Calibration(
            tuple(saved["tables"]),
            tuple(_fit(f) for f in saved["fits"]),
            tuple(JointBatch(tuple(amounts), *how) for amounts, *how in saved["joint"]),
            saved["at"],
            tuple(saved.get("weights", ())),
        )
    return Schedule(record["view"], record["limit"], calibration, record["policy"])


def _fit(record: Any) -> FittedCost:
    measured = tuple(MeasuredBatch(*one) for one in record["measured"])
    above = from_record(record["above"]) if record.get("above") else None
    notes = tuple(record["notes"])
    return FittedCost(from_record(record["cost"]), record["residual"], measured, notes, above)


def _formula(cost: CostFunction) -> str:
    match cost:
        case LinearCost(slope, fixed):
            return f"{fixed:.3g} + {slope:.3g} k"
        case BlockCost(size, price):
            return f"{price:.3g} for every {size} begun"
        case CurveCost(points):
            return "through " + _pairs(points)
        case ListedCost(values):
            return "through " + _pairs(list(enumerate(values, 1)))


def _pairs(points: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{k}: {seconds:.2g}" for k, seconds in points[:8])
