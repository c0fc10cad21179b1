"""A synopsis over streams: no lake, no Spark, rows come and go as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from belvedere.errors import Invalid
from belvedere.memory import kinds
from belvedere.sql.binder.bind import Relation
from belvedere.sql.binder.naming import did_you_mean
from belvedere.synopses.plan.planner import plan
from belvedere.synopses.plan.synopsis_plan import query_block
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.state import MOST_ROWS, SynopsisState

Schema: TypeAlias = Mapping[str, str] | Any
"""Names and types in Spark's words, or a schema of Arrow's."""


class Synopsis:
    """A uniform sample of a join, kept current while its tables change.

    >>> s = Synopsis("SELECT r.a, s.b FROM r JOIN s ON r.k = s.k",
    ...              {"r": {"k": "int", "a": "int"}, "s": {"k": "int", "b": "int"}}, rows=2, seed=1)
    >>> s.insert("r", pa.table({"k": [1, 2], "a": [10, 20]}))
    >>> s.insert("s", pa.table({"k": [1, 1, 3], "b": [5, 6, 7]}))
    >>> s.join_size, sorted(s.sample().to_pylist(), key=str)
    (2, [{'a': 10, 'b': 5}, {'a': 10, 'b': 6}])
    """

    def __init__(
        self,
        query: str,
        schemas: Mapping[str, Schema],
        *,
        rows: int | None = None,
        rate: float | None = None,
        replacement: bool = False,
        keys: Mapping[str, Iterable[str]] | None = None,
        collapse: bool = True,
        seed: int | None = None,
        most_rows: int = MOST_ROWS,
    ) -> None:
        kind = SampleKind(rows, rate, replacement)
        types = {name: _types(schema) for name, schema in schemas.items()}
        unique = {t: _key(t, list(columns), types) for t, columns in (keys or {}).items()}
        planned = plan(query_block(query, _Schemas(types)), unique, collapse=collapse)
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._results = SampleResults(SynopsisState(planned, kind, seed=seed, most=most_rows), seed)

    def insert(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Rows come."""
        self.change(table, inserts=rows)

    def delete(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Rows with these values go, one for each; an error if one is not there."""
        self.change(table, deletes=rows)

    def change(
        self,
        table: str,
        *,
        deletes: pa.RecordBatch | pa.Table | None = None,
        inserts: pa.RecordBatch | pa.Table | None = None,
    ) -> None:
        """Rows go and come at once; an update is a row that goes and one that comes."""
        self._results.change(table, deletes, inserts)

    def sample(self) -> pa.Table:
        """The sample's rows as the query shows them."""
        return self._results.arrow()

    @property
    def results(self) -> SampleResults:
        """What is asked of the sample: estimates, histograms, sets to train on."""
        return self._results

    @property
    def join_size(self) -> Any:
        """How many rows the join has: exact, or an estimate where filters come after the graph."""
        return self._results.join_size


def _types(schema: Schema) -> dict[str, str]:
    if not isinstance(schema, pa.Schema):
        return {name: kind.lower().replace(" ", "") for name, kind in schema.items()}
    return {f.name: _spoken(f.type) for f in schema}


def _spoken(type_: pa.DataType) -> str:
    """An Arrow type in Spark's words."""
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "string"
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    for kind in _WORDS:
        if kinds.arrow(kind) == type_:
            return kind
    raise Invalid(
        f"columns of Arrow's type {type_}",
        hint=f"cast to one of {', '.join(_WORDS)} or a decimal of at most 38 digits",
        reason="TYPE",
    )


_WORDS = "tinyint smallint int bigint float double boolean string binary date".split()


def _key(table: str, columns: list[str], types: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    if table not in types:
        raise Invalid(
            f"a key of {table!r}, which has no schema",
            hint=did_you_mean(table, types),
            reason="BAD_KEY",
        )
    for column in columns:
        if column not in types[table]:
            hint = did_you_mean(column, types[table])
            raise Invalid(
                f"a key of {table!r} by {column!r}, which it does not have",
                hint=hint,
                reason="NO_SUCH_COLUMN",
            )
    return [columns]


class _Schemas:
    """The tables of a stream by name."""

    def __init__(self, types: Mapping[str, Mapping[str, str]]) -> None:
        self._types = types

    def resolve(self, name: str) -> Relation:
        """The table of that name."""
        for known, columns in self._types.items():
            if known.lower() == name.lower():
                return Relation(tuple(columns.items()), table=known)
        raise Invalid(
            f"no table {name!r}", hint=did_you_mean(name, self._types), reason="UNKNOWN_TABLE"
        )
