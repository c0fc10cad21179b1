"""The changes of tables applied to an updatable view whose rows are in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from belvedere.delta.small_changes import arrow_schema
from belvedere.derivations.protocol import AdvanceStep
from belvedere.lake.offline import ReadableLake
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN
from belvedere.updating.reading import change_signs, net_changes
from belvedere.updating.state import UpdatableState


def apply_changes(view: UpdatableState, changes: Mapping[str, pa.Table]) -> int:
    """Apply net changes to a view's rows and summary, in place; the number of changed rows."""
    rows: int = sum(net.num_rows for net in changes.values())
    if rows:
        view.filter.advance(changes, {t: change_signs(net) for t, net in changes.items()})
    if view.unsaved is not None:
        view.unsaved += rows
    return rows


def changes_of_step(
    lake: ReadableLake, step: AdvanceStep, view: UpdatableState
) -> dict[str, pa.Table] | None:
    """The net changes of the tables that a step moves: from their logs if small, or by Spark.

    None if a change is not small and there is no Spark.
    """
    changes: dict[str, pa.Table] = {}
    for table in step.moving:
        net = _net(lake, step, table, list(view.shape.used[table]))
        if net is None:
            return None
        changes[table] = net
    return changes


def _net(lake: ReadableLake, step: AdvanceStep, name: str, columns: list[str]) -> pa.Table | None:
    table = step.pins.table(name)
    net = net_changes(table, *step.versions(name), columns)
    if net is not None:
        return net
    if not lake.capabilities.runs_spark:
        return None
    work = step.pins.work({})
    change = step.pins.changes(work, name, *step.versions(name), columns)
    rows = change.held
    if rows is None:
        listed = ", ".join(map(quote, [*columns, SIGN]))
        rows = work.query(f"SELECT {listed} FROM {quote(change.view())}").toArrow()
    types = {c: table.types[c.lower()] for c in columns}
    schema = arrow_schema(types).append(pa.field(SIGN, rows.schema.field(SIGN).type))
    return rows.select([*columns, SIGN]).cast(schema)
