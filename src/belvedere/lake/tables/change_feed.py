"""The change feed, net: each row value that changed, with its signed count.

    net(old, new) = { row -> inserts and new images - deletes and old images },  counts not 0

so that a MERGE that rewrites rows as they were, or a row deleted and inserted again, shows
nothing. Rows are the same if every value is the same to the bit (0.0 is not -0.0): whoever
compares rows by SQL equality nets once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from belvedere.algebra.scalars import Scalar, condition
from belvedere.algebra.types import VARIANT, MapType, StringType, Type, parse
from belvedere.analyses.spans import Spans
from belvedere.delta import log
from belvedere.delta.readability import spans
from belvedere.delta.small_changes import (
    all_inserts,
    is_small,
    net_arrow,
    signed_arrow,
    spans_arrow,
)
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.capabilities import reads_files
from belvedere.lake.tables import remote
from belvedere.lake.tables.table import Table
from belvedere.lake.tables.version_difference import difference, too_long_to_tell, was_too_long
from belvedere.memory.declined import Declined
from belvedere.memory.kinds import is_exact
from belvedere.memory.scalars import true
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace


@dataclass(frozen=True)
class Changes:
    """A temporary view of net changes; what is not known without a scan is None."""

    view: Callable[[], str]
    """Makes the temporary view, once."""
    rows: int | None
    inserts_only: bool | None
    all_ones: bool = False
    """Whether every count is known to be 1 or -1."""
    within: Mapping[str, Spans] = field(default_factory=dict)
    """Where the values of integer and date columns lie, as far as that is known."""
    held: pa.Table | None = None
    """The changes themselves, where they are in memory."""


class Feed:
    """The changes of a table after version `old` up to version `new`, read once for all askers."""

    def __init__(
        self,
        table: Table,
        old: int,
        new: int,
        columns: Sequence[str],
        where: Scalar | None = None,
        times: int = 1,
    ) -> None:
        self.table, self.old, self.new, self._where, self._times = table, old, new, where, times
        self._kinds = _kinds(table, columns)
        self._commits = self._log()
        self._raw: pa.Table | None = None
        self._frames: dict[Workspace, DataFrame] = {}
        self._busy = threading.Lock()

    def net(self, work: Workspace, columns: Sequence[str]) -> Changes:
        """The changes of some of the columns, under a name of their own."""
        kinds = _kinds(self.table, columns)
        if self._nothing():
            return _empty(work, kinds)
        found = self._from_arrow(work, kinds) or self._from_spark(work, kinds)
        # SQL finds a column whatever the case of its name; who looks up spans does not.
        asked = dict(zip(kinds, columns, strict=True))
        held = found.held
        held = held if held is None else held.rename_columns([*columns, SIGN])
        within = {asked[c]: at for c, at in found.within.items()}
        return replace(found, within=within, held=held)

    def _log(self) -> list[log.Commit] | None:
        if not reads_files(self.table):
            return None
        return log.commits(self.table.store, range(self.old + 1, self.new + 1))

    def _nothing(self) -> bool:
        if self.old == self.new:
            return True
        return self._commits is not None and not any(c.changes_data for c in self._commits)

    def _from_spark(self, work: Workspace, kinds: dict[str, str]) -> Changes:
        inserts = True if self._commits is not None and all_inserts(self._commits) else None
        return Changes(cache(lambda: self._registered(work, kinds)), None, inserts)

    def _from_arrow(self, work: Workspace, kinds: dict[str, str]) -> Changes | None:
        """The changes without Spark; None where they are large, or not for Arrow to read."""
        if self._commits is None or not kinds.keys() <= self._kinds.keys():
            return None
        if not is_small(self.table, self._commits, [*kinds.values()], self._times):
            return None
        if self._raw is None:
            # Rows without columns cannot be counted.
            known = (self._kinds or dict(self.table.columns)).items()
            exact = {c: kind for c, kind in known if is_exact(kind)}
            try:
                self._raw = self._wanted(signed_arrow(self.table, self._commits, exact), exact)
            except FileNotFoundError:
                return None
        net = net_arrow(self._raw, list(kinds))
        if net.num_rows == 0:
            return _empty(work, kinds)
        counts = set(pc.unique(net.column(SIGN)).to_pylist())
        return Changes(
            cache(lambda: work.hold("changes", net, {**kinds, SIGN: "bigint"})),
            net.num_rows,
            min(counts) > 0,
            all_ones=counts <= {1, -1},
            within=spans_arrow(net.select(list(kinds))),
            held=net,
        )

    def _wanted(self, rows: pa.Table, kinds: dict[str, str]) -> pa.Table:
        """The rows that are asked for; all where that cannot be told here."""
        if self._where is None or not self._where.columns <= kinds.keys():
            return rows
        try:
            return rows.filter(true(self._where, rows, kinds))
        except (Declined, pa.ArrowInvalid):  # what overflows is for Spark, too
            return rows

    def _registered(self, work: Workspace, kinds: dict[str, str]) -> str:
        """A view of Spark's feed: nobody plans it who then computes everything again."""
        listed = [*(quote(c) for c in kinds), SIGN]
        with self._busy:  # views that are refreshed side by side share it
            return work.register("changes", self._frame(work, kinds).selectExpr(*listed))

    def _frame(self, work: Workspace, kinds: dict[str, str]) -> DataFrame:
        wide = {c: kind for c, kind in self._kinds.items() if _comparable(kind)}
        if not kinds.keys() <= wide.keys():
            return self._kept(work, kinds)
        if work not in self._frames:
            self._frames[work] = self._kept(work, wide)
        return self._frames[work]

    def _kept(self, work: Workspace, kinds: dict[str, str]) -> DataFrame:
        """The net change, computed once."""
        if self._commits is not None and too_long_to_tell(self._commits):
            return work.keep(_net(work, self._from_versions(work, kinds), kinds))
        try:
            return work.keep(_net(work, self._fed(work, kinds), kinds))
        except Exception as error:
            # Of a table whose log cannot be read here, Spark is the first to know.
            if self._commits is not None or not was_too_long(error):
                raise
            return work.keep(_net(work, self._from_versions(work, kinds), kinds))

    def _fed(self, work: Workspace, kinds: dict[str, str]) -> DataFrame:
        found = [(self.old + 1, self.new)] if self._commits is None else spans(self._commits)
        read = [*(quote(c) for c in kinds), "_change_type"]
        feeds = (remote.feed(work.spark, self.table, *span) for span in found)
        if self._where is not None:
            where = condition(self._where.expr).sql(dialect="spark")
            feeds = (each.where(where) for each in feeds)
        parts = (each.selectExpr(*read) for each in feeds)
        return reduce(DataFrame.unionAll, parts)

    def _from_versions(self, work: Workspace, kinds: dict[str, str]) -> DataFrame:
        return difference(work, self.table, self.old, self.new, self._commits or (), list(kinds))


def _kinds(table: Table, columns: Sequence[str]) -> dict[str, str]:
    """The columns as the table spells them, with their types."""
    known = {name.lower(): (name, kind) for name, kind in table.columns}
    unknown = [c for c in columns if c.lower() not in known]
    if unknown:
        listed = ", ".join(name for name, _ in table.columns)
        raise Invalid(
            f"{table.name!r} has no column {unknown[0]!r}",
            hint=f"its columns: {listed}",
            reason="NO_SUCH_COLUMN",
        )
    return dict(known[c.lower()] for c in columns)


def _empty(work: Workspace, kinds: dict[str, str]) -> Changes:
    shape = [*kinds.items(), (SIGN, "bigint")]
    return Changes(cache(lambda: work.register("changes", work.empty(shape))), 0, True)


def _net(work: Workspace, feed: DataFrame, kinds: dict[str, str]) -> DataFrame:
    raw = work.register("feed", feed)
    shown = [f"{_value(name, kind)} AS {quote(name)}" for name, kind in kinds.items()]
    keys = [key for name, kind in kinds.items() for key in _keys(name, kind)]
    sign = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
    grouping = f"GROUP BY {', '.join(keys)}" if keys else ""
    return work.query(
        f"SELECT {', '.join([*shown, f'sum({sign}) AS {SIGN}'])} FROM {quote(raw)} "
        f"{grouping} HAVING sum({sign}) <> 0"
    )


def _value(name: str, kind: str) -> str:
    """A column of the result: a member of the group where Spark's grouping rewrites the key."""
    return f"any_value({quote(name)})" if _is_rewritten(parse(kind)) else quote(name)


def _keys(name: str, kind: str) -> list[str]:
    """What must agree for two values to be the same to the bit."""
    column = quote(name)
    if not _comparable(kind):
        raise Unsupported(
            f"changes of column {name!r}: values of its type cannot be compared",
            reason="UNCOMPARABLE_TYPE",
        )
    type_ = parse(kind)
    if isinstance(type_, MapType):
        # Grouping by a map turns NULL values in it into zeros (Spark 4.2).
        column = f"map_entries({column})"
    if type_.is_float:
        return [column, f"IF({column} = 0, CAST({column} AS STRING), NULL)"]
    if isinstance(type_, StringType) and type_.collation:
        return [f"collate({column}, 'UTF8_BINARY')"]
    # Grouping takes -0.0 for 0.0 inside arrays and structs too; as text they differ.
    rewritten = any(map(_is_rewritten, type_.parts))
    return [column, f"to_json(struct({column}))"] if rewritten else [column]


def _comparable(kind: str) -> bool:
    type_ = parse(kind)
    below = (inner for part in type_.parts for inner in part.nested)
    return VARIANT not in type_.nested and not any(isinstance(i, MapType) for i in below)


def _is_rewritten(type_: Type) -> bool:
    """Whether Spark's grouping may change a value of a type to one that is equal to it."""
    return any(
        inner.is_float
        or isinstance(inner, MapType)
        or (isinstance(inner, StringType) and inner.collation)
        for inner in type_.nested
    )
