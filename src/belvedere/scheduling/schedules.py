"""Schedules: the response limit of a view and what its tables' changes cost, saved with the lake."""

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
    Fit,
    Joint,
    Measured,
    Weights,
    about,
    by_kind,
    fit,
    priced,
)
from belvedere.scheduling.model.cost_functions import (
    Block,
    Cost,
    Curve,
    Linear,
    Listed,
    Prices,
    from_record,
    to_record,
)
from belvedere.scheduling.model.problem import State, Terms
from belvedere.scheduling.serve.deadlines import refuse_too_tight
from belvedere.sql.statements.views import RefreshPolicy
from belvedere.storage.private_files import Damage
from belvedere.views.catalog import canonical_name, shown_name, the_view
from belvedere.views.definition import View
from belvedere.views.incremental.choice import rebuild_reason

KIND = "schedule"
REMEMBERED = 5
"""Measurements that are kept for batches of about one size."""


@dataclass(frozen=True)
class Calibration:
    """What was measured of a view's tables, each alone and all together, by kinds of change."""

    tables: tuple[str, ...]
    fits: tuple[Fit, ...]
    joint: tuple[Joint, ...] = ()
    at: str = ""
    weights: tuple[Weights, ...] = ()
    """How often each kind of change arrives at each table; empty where that is not known."""

    @cached_property
    def prices(self) -> Prices:
        """What batches take."""
        return priced(self.fits, self.joint)

    def with_measured(self, action: State, seconds: float) -> Calibration:
        """The calibration after one more batch was timed; of about its size the oldest goes."""
        moved = [i for i, k in enumerate(action) if k]
        if len(moved) == 1:
            (i,) = moved
            known = self.fits[i].measured
            near = [m for m in known if not m.kind and about(m.changes) == about(action[i])]
            others = [m for m in known if m not in near]
            new = [*others, *near[-REMEMBERED + 1 :], Measured(action[i], seconds)]
            fitted = fit(new, self.weights[i] if self.weights else None)
            return replace(self, fits=(*self.fits[:i], fitted, *self.fits[i + 1 :]))
        if len(moved) > 1:
            return replace(self, joint=(*self.joint, Joint(action, seconds))[-4 * REMEMBERED :])
        return self

    def times(self, factor: float) -> Calibration:
        """The calibration of a machine that has become so many times slower.

        Batches that the service timed itself are what they are.
        """

        def scaled(one: Measured) -> Measured:
            return replace(one, seconds=factor * one.seconds) if one.kind else one

        often = self.weights or ({},) * len(self.fits)
        fits = (
            fit([scaled(m) for m in f.measured], w) for f, w in zip(self.fits, often, strict=True)
        )
        joint = (replace(j, seconds=factor * j.seconds) if j.kind else j for j in self.joint)
        return replace(self, fits=tuple(fits), joint=tuple(joint))

    def __str__(self) -> str:
        """The curves, how well they fit, and what they were fitted to."""
        kinds = [
            (name, kind or "as they came", _pairs(points))
            for name, f in zip(self.tables, self.fits, strict=True)
            for kind, points in by_kind(f.measured)
        ]
        rows = [
            (name, _shown(f.cost), f"{f.residual:.0%}", _shown(f.at_most), "; ".join(f.notes))
            for name, f in zip(self.tables, self.fits, strict=True)
        ]
        headers = ("table", "cost in seconds of k changes", "off by", "at most", "notes")
        text = "\n".join((table(headers, rows), str(table(("table", "kind", "measured"), kinds))))
        return f"{text}\na joint refresh saves {self.prices.shared:.3g} s for each further table"


@dataclass(frozen=True)
class Schedule:
    """The limit of a view in seconds, if it has one, and its costs, if they were measured."""

    view: str
    limit: float | None = None
    calibration: Calibration | None = None
    policy: str = "AUTO"
    notes: tuple[str, ...] = field(default=())

    @property
    def terms(self) -> Terms:
        """The terms to keep; Invalid if they are not known."""
        if self.limit is None:
            raise Invalid(
                f"{self.view!r} has no response limit",
                hint=f"ALTER MATERIALIZED VIEW {self.view} SET RESPONSE LIMIT 5 SECONDS",
                reason="NO_LIMIT",
            )
        if self.calibration is None:
            raise Invalid(
                f"what changes of the tables of {self.view!r} cost was not measured",
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
    found = [_schedule(saves.head(KIND, key).definition) for key in saves.names(KIND)]
    return [s for s in found if s.limit is not None]


def lost(lake: ReadableLake) -> list[Damage]:
    """The limits that were lost with damaged files."""
    return [] if lake.saves is None else lake.saves.damages(KIND)


def is_damaged(lake: ReadableLake, name: str) -> bool:
    """Whether the file of a view's schedule is there and none any more."""
    return lake.saves is not None and lake.saves.is_damaged(KIND, canonical_name(lake, name))


def save(lake: ReadableLake, schedule: Schedule) -> None:
    """Put a schedule in the place of the one before."""
    key = canonical_name(lake, schedule.view)
    the_saves(lake).save(KIND, key, _record(schedule), {}, {})


def forget(lake: ReadableLake, name: str) -> None:
    """A view that is dropped has no schedule."""
    if lake.saves is not None and lake.saves.has(KIND, canonical_name(lake, name)):
        lake.saves.drop(KIND, canonical_name(lake, name))


def set_limit(lake: ReadableLake, name: str, seconds: float | None) -> Schedule:
    """Give a view another limit, or none; refused if it could not be kept."""
    view = the_view(lake, name)
    found = replace(the_schedule(lake, name), limit=seconds)
    if seconds is not None:
        refuse_without_plan(lake, view)
        if found.calibration is not None:
            refuse_too_tight(view.name, found.tables, found.terms)
    save(lake, found)
    return found


def calibrated(lake: ReadableLake, name: str, calibration: Calibration) -> Schedule:
    """Save what was measured."""
    found = replace(the_schedule(lake, name), calibration=calibration)
    save(lake, found)
    return found


def refuse_without_plan(lake: ReadableLake, view: View) -> None:
    """Unsupported if changes cannot be applied to a view, so that it has nothing to schedule."""
    below = [shown_name(lake, t) for t in view.inputs if t in lake.stored()]
    if below:
        raise Unsupported(
            f"a response limit for {view.name!r}, which reads the view {below[0]!r}",
            hint="define it on the tables themselves",
            reason="VIEW_OVER_VIEW",
        )
    reason = "POLICY_FULL" if RefreshPolicy(view.definition.policy) is RefreshPolicy.FULL else ""
    reason = reason or rebuild_reason(view.state, view.definition.types, view.tables)
    if reason:
        raise Unsupported(
            f"{view.name!r} has no incremental plan to schedule: {REASONS[reason].sentence}",
            hint="a response limit needs a view that can be refreshed from its changes",
            reason=reason,
        )


def now() -> str:
    """When something was measured."""
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


def _fit_record(fitted: Fit) -> dict[str, Any]:
    return {
        "cost": to_record(fitted.cost),
        "residual": fitted.residual,
        "above": to_record(fitted.above) if fitted.above else None,
        "measured": [[m.changes, m.seconds, m.kind] for m in fitted.measured],
        "notes": list(fitted.notes),
    }


def _schedule(record: Any) -> Schedule:
    found = record.get("calibration")
    calibration = None
    if found is not None:
        calibration = Calibration(
            tuple(found["tables"]),
            tuple(_fit(f) for f in found["fits"]),
            tuple(Joint(tuple(amounts), *how) for amounts, *how in found["joint"]),
            found["at"],
            tuple(found.get("weights", ())),
        )
    return Schedule(record["view"], record["limit"], calibration, record["policy"])


def _fit(record: Any) -> Fit:
    measured = tuple(Measured(*one) for one in record["measured"])
    above = from_record(record["above"]) if record.get("above") else None
    notes = tuple(record["notes"])
    return Fit(from_record(record["cost"]), record["residual"], measured, notes, above)


def _shown(cost: Cost) -> str:
    match cost:
        case Linear(slope, fixed):
            return f"{fixed:.3g} + {slope:.3g} k"
        case Block(size, price):
            return f"{price:.3g} for every {size} begun"
        case Curve(points):
            return "through " + _pairs(points)
        case Listed(values):
            return "through " + _pairs(list(enumerate(values, 1)))


def _pairs(points: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{k}: {seconds:.2g}" for k, seconds in points[:8])
