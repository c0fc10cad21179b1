"""Whether applying changes or a rebuild is predicted to take less."""

from __future__ import annotations

from belvedere.derivations.cost_history import cost_history
from belvedere.execution.costs import candidate, cheaper
from belvedere.execution.predicted_work import PredictedWork
from belvedere.execution.strategies import Strategy
from belvedere.sql.statements.views import RefreshPolicy
from belvedere.views.incremental.pending_changes import PendingChanges
from belvedere.views.maintenance import rebuild_work


def stored_rows(pending: PendingChanges) -> float:
    """How many rows the view has, as its log counts them; 0 if it does not."""
    measured = pending.step.pins.measured(pending.view.stored)
    return 0.0 if measured is None else measured.rows


def rebuild_is_cheaper(pending: PendingChanges, strategy: Strategy, work: PredictedWork) -> bool:
    """Whether policy AUTO prefers a rebuild; both candidates are noted."""
    step, history = pending.step, cost_history(pending.lake, pending.view.definition.id)
    # A change that Spark reads is never computed in memory. Other large tables may turn out not
    # to be read.
    surely = bool(pending.statistics.passed)
    similar = history.on_spark(surely=surely) if surely or work.on_spark else history
    incremental = candidate(strategy, work.rows, similar)
    work_of_rebuild = rebuild_work(pending.view.state, pending.statistics)
    rebuild = candidate(Strategy.REBUILD, work_of_rebuild, history.on_spark())
    step.meter.candidates = (incremental, rebuild)
    free = RefreshPolicy(pending.view.definition.policy) is RefreshPolicy.AUTO
    return free and cheaper(rebuild, incremental)
