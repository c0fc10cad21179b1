"""What a synopsis is: its query, its kind of sample, what it reads, and what was known of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belvedere.delta.statistics import table_size
from belvedere.derivations.saved_states import Undivided
from belvedere.errors import Unsupported
from belvedere.joins.normal_form import JoinBlock
from belvedere.joins.selectivity import TableSizes, integer_bound
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables import declared_keys
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.synopses.plan.planner import plan
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan, query_block
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.saving import ARRAYS
from belvedere.views.catalog import Names, as_not_read
from belvedere.views.definition import Columns


@dataclass(frozen=True)
class SynopsisDefinition(Undivided):
    """What a synopsis is of."""

    shown: str
    query: str
    kind: SampleKind
    seed: int
    keys: Mapping[str, Sequence[str]]
    """The keys of tables that its joins are collapsed by."""
    reads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The tables with the columns that it uses, and their types."""
    sources: Mapping[str, Columns] = field(default_factory=dict)
    """All columns that the tables had: what `SELECT *` means."""
    known: TableSizes = field(default_factory=TableSizes)
    """What was known of the tables, for their sizes say where a cycle is cut."""

    @property
    def id(self) -> str:
        """What the record of refreshes calls it."""
        return f"synopsis {self.shown}"

    @property
    def name(self) -> str:
        """Its name as its user wrote it."""
        return self.shown

    def record(self) -> dict[str, Any]:
        """In JSON's types."""
        return {
            "shown": self.shown,
            "query": self.query,
            "sample": [self.kind.rows, self.kind.rate, self.kind.replacement],
            "seed": self.seed,
            "keys": {t: list(columns) for t, columns in self.keys.items()},
            "reads": {t: dict(columns) for t, columns in self.reads.items()},
            "sources": {t: [list(c) for c in columns] for t, columns in self.sources.items()},
            "known": self.known.record(),
            "arrays": ARRAYS,
        }

    @staticmethod
    def of(record: Mapping[str, Any]) -> SynopsisDefinition:
        """The definition of such a record."""
        return SynopsisDefinition(
            record["shown"], record["query"], SampleKind(*record["sample"]), record["seed"],
            record["keys"], record["reads"],
            {t: tuple((n, k) for n, k in columns) for t, columns in record["sources"].items()},
            TableSizes.of(record.get("known")),
        )  # fmt: skip


def define(
    lake: ReadableLake, shown: str, query: str, kind: SampleKind, lead: str
) -> tuple[SynopsisDefinition, SynopsisPlan]:
    """The definition that a statement makes, checked; nothing is built."""
    names = Names(lake)
    with as_not_read(lake, query):
        joined = query_block(lead + query, names)
    keys = _keys(lake, joined)
    known = _known(lake, joined)
    planned = plan(joined, {t: [columns] for t, columns in keys.items()}, sizes=known)
    reads: dict[str, dict[str, str]] = {}
    for position in joined.positions:
        reads.setdefault(position.table, {}).update({f.source: f.type for f in position.fields})
    for table, columns in reads.items():
        _refuse_types(table, columns)
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    return SynopsisDefinition(
        shown, query, kind, seed, keys, reads, dict(names.seen), known
    ), planned


def _known(lake: ReadableLake, joined: JoinBlock) -> TableSizes:
    """What the logs say of the columns that are read."""
    rows: dict[str, int] = {}
    bounds: dict[tuple[str, str], tuple[int, int]] = {}
    for position in joined.positions:
        table = position.table
        seen = table_size(lake.table(table))
        if seen is not None:
            rows[table] = seen.rows
            for f in position.fields:
                if f.source in seen.bounds:
                    low, high = seen.bounds[f.source]
                    bounds[table, f.source] = integer_bound(low), integer_bound(high)
    return TableSizes(rows, bounds)


def planned_of(lake: ReadableLake, definition: SynopsisDefinition) -> SynopsisPlan:
    """The plan of a definition as it was made."""
    keys = {t: [columns] for t, columns in definition.keys.items()}
    return plan(_block(lake, definition), keys, sizes=definition.known)


def plain_plan(lake: ReadableLake, definition: SynopsisDefinition) -> SynopsisPlan:
    """The plan that collapses nothing: Spark draws from it."""
    return plan(_block(lake, definition), {}, collapse=False, sizes=definition.known)


def _block(lake: ReadableLake, definition: SynopsisDefinition) -> JoinBlock:
    return query_block(definition.query, Names(lake, recorded=definition.sources))


def _keys(lake: ReadableLake, joined: JoinBlock) -> dict[str, Sequence[str]]:
    keys = {p.table: declared_keys.key_of(lake.table(p.table)) for p in joined.positions}
    return {t: k for t, k in keys.items() if k is not None}


def _refuse_types(table: str, columns: Mapping[str, str]) -> None:
    for column, kind in columns.items():
        try:
            kinds.arrow(kind)
        except Declined:
            raise Unsupported(
                f"column {column!r} of {table!r}, of type {kind}, in a synopsis",
                hint="select the columns you need, without this one",
                reason="TYPE",
            ) from None
