"""The rows of a query, read through a sketch if one helps; a sketch never makes a query fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from belvedere.errors import BelvedereError, Invalid
from belvedere.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.lake.spark_lake import SparkLake
    from belvedere.sketches.kind import Sketches
    from belvedere.sketches.use.rewrite import Reading


def run_query(
    door: SparkLake, sketches: Sketches, text: str, versions: Mapping[str, int] | None
) -> DataFrame:
    """The rows of a query."""
    if not versions and not sketches.names() and not sketches.watching:
        return door.sql(text)
    routed = sketches.route(text, versions)
    if routed.reading is None:
        return door.sql(_at(door, text, versions) if versions else text)
    try:
        return _read(door, routed.reading)
    except BelvedereError:
        if versions:
            raise
        # Spark does not accept the rewritten query, so it runs the query as it is.
        return door.sql(text)


def _read(door: SparkLake, reading: Reading) -> DataFrame:
    """The query over the files that may have rows that it needs.

    Delta would list and filter the files of each table by a job, which takes longer than reading
    the few files.
    """
    from belvedere.lake.tables.frames import open_version
    from belvedere.sketches.use.rewrite import rewrite_query

    if not door.capabilities.analyzes_at_once:
        return door.sql(rewrite_query(door, reading))
    with door.own_work() as work:
        opened = {}
        for name, table in reading.tables.items():
            frame = open_version(work, table, reading.at(name), reading.needs(name))
            opened[name] = quote(work.register("part", frame))
        return door.sql(rewrite_query(door, reading, opened))


def _at(door: SparkLake, text: str, versions: Mapping[str, int]) -> str:
    """The query over earlier versions of its tables."""
    from belvedere.algebra.walks import tables
    from belvedere.delta.stamps import Position
    from belvedere.sketches.definition import Version
    from belvedere.sketches.live import plan_of
    from belvedere.sketches.use.rewrite import Reading, rewrite_query
    from belvedere.views.catalog import canonical_name

    wanted = {canonical_name(door, t): v for t, v in versions.items()}
    read = {t: door.table(t) for t in tables(plan_of(door, text))}
    for name in wanted.keys() - read.keys():
        raise Invalid(
            f"the query does not read {name!r}",
            hint=f"it reads {', '.join(read)}",
            reason="NOT_IN_QUERY",
        )
    vector = {t: Position(f.id, wanted.get(t, f.version)) for t, f in read.items()}
    return rewrite_query(door, Reading(text, Version(vector, ()), {}, read))
