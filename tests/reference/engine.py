"""Plans run in DuckDB: the same SQL rendering that Spark gets, in milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

import duckdb
from sqlglot import exp

from belvedere.algebra.relations import At, Change, Rel, Scan
from belvedere.algebra.scalars import TRUE, Scalar, lit
from belvedere.sql.merges import Merge
from belvedere.sql.render import SIGN, is_signed, render
from tests.reference.interpreter import Bag, Database, Row, minus

FALSE = lit(False)

# Spark's names for what DuckDB calls otherwise; a sequence may run downwards in both.
_MACROS = """
CREATE MACRO raise_error(message) AS error(message);
CREATE MACRO explode(list) AS unnest(list);
CREATE MACRO sequence(a, b) AS
  generate_series(a::BIGINT, b::BIGINT, CASE WHEN a <= b THEN 1 ELSE -1 END);
"""


class Engine:
    """The two states of a database's tables and their changes, beside tables stored in DuckDB.

    A state stands in a query as a common table expression, which is cheaper than a table.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._connection = _connection()

    def bag(self, q: Rel) -> Bag:
        """The rows of a plan with their counts, as DuckDB finds them."""
        rows = self.rows(self.query(q))
        if not is_signed(q):
            return Counter(rows)
        out: Bag = Counter()
        for *row, sign in rows:
            out[tuple(row)] += sign
        return Counter({r: m for r, m in out.items() if m})

    def query(self, q: Rel) -> exp.Query:
        """The plan over this engine's names for the states of tables."""
        return render(q, source)

    def rows(self, query: exp.Query) -> list[Row]:
        """The rows of a query that reads states of tables."""
        return self._connection.execute(self.text(query)).fetchall()

    def text(self, query: exp.Query) -> str:
        """The query as DuckDB reads it, with the states it reads."""
        used = {t.name for t in query.find_all(exp.Table)}
        states = [text for name, text in self._states().items() if name in used]
        inner = query.sql(dialect="duckdb", copy=False)
        return f"WITH {', '.join(states)} SELECT * FROM ({inner})" if states else inner

    def store(self, table: str, query: exp.Query) -> None:
        """A table filled by a query, in place of any of that name."""
        self._connection.execute(f'CREATE OR REPLACE TEMP TABLE "{table}" AS {self.text(query)}')

    def write(self, table: str, query: exp.Query, how: Merge) -> None:
        """The stored table changed as a merge would: delete, else update; insert what is new.

        Written out as the rows it leaves, since DuckDB's own MERGE computes the values of
        clauses that do not apply, among them those that raise.
        """
        self.store("__source", query)
        self._refuse_two_for_one(table, how)
        columns = [d[0] for d in self._connection.execute(f'FROM "{table}"').description]
        on, gone, changed, new = map(
            _holds,
            (how.on, how.delete_when or FALSE, how.update_when or TRUE, how.insert_when or TRUE),
        )
        updated = how.update or {}
        after = ", ".join(
            f'CASE WHEN {changed} THEN {_text(updated[c])} ELSE t."{c}" END'
            if c in updated
            else f't."{c}"'
            for c in columns
        )
        inserted = ", ".join(_text(how.insert[c]) for c in columns)
        stored, rows = f'"{table}" AS t', '"__source" AS s'
        self._connection.execute(
            f'CREATE OR REPLACE TEMP TABLE "__after" AS SELECT * FROM {stored} ANTI JOIN {rows} ON {on}'
            f" UNION ALL SELECT {after} FROM {stored} JOIN {rows} ON {on} WHERE NOT {gone}"
            f" UNION ALL SELECT {inserted} FROM {rows} ANTI JOIN {stored} ON {on} WHERE {new}"
        )
        self._connection.execute(f'CREATE OR REPLACE TEMP TABLE "{table}" AS FROM "__after"')

    def _refuse_two_for_one(self, table: str, how: Merge) -> None:
        """A stored row that two source rows match: an error in Spark, silence in DuckDB."""
        pairs = f'"{table}" AS t JOIN "__source" AS s ON {_text(how.on)}'
        twice = f"SELECT t.rowid FROM {pairs} GROUP BY t.rowid HAVING count(*) > 1"
        assert self._connection.execute(twice).fetchall() == [], (
            "two source rows for one stored row"
        )

    def _states(self) -> Mapping[str, str]:
        db, states = self._db, {}
        for table, columns in db.columns.items():
            for name, rows in (("old", db.old[table]), ("new", db.new[table])):
                states[f"{table}_{name}"] = (columns, list(rows.elements()))
            change = minus(db.new[table], db.old[table])
            signs = [(*r, 1 if m > 0 else -1) for r, m in change.items() for _ in range(abs(m))]
            states[f"{table}_change"] = ((*columns, SIGN), signs)
        return {name: _state(name, *state) for name, state in states.items()}


def source(leaf: Scan | Change) -> exp.Table:
    """What stands in FROM for a leaf; a table that is stored has only one state."""
    if isinstance(leaf, Change):
        return exp.to_table(f"{leaf.table}_change")
    if isinstance(leaf.at, int):
        return exp.to_table(leaf.table)
    return exp.to_table(f"{leaf.table}_{'old' if leaf.at is At.OLD else 'new'}")


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET threads = 1")
    # DuckDB 1.5 pushes a join's filter below a LIMIT, which gives other rows.
    connection.execute("SET disabled_optimizers = 'join_filter_pushdown'")
    connection.execute(_MACROS)
    return connection


def _state(name: str, columns: tuple[str, ...], rows: list[Row]) -> str:
    """A common table expression of rows of integers."""
    names = ", ".join(f'"{c}"' for c in columns)
    typed = "(" + ", ".join(["CAST(NULL AS INTEGER)"] * len(columns)) + ")"
    texts = ["(" + ", ".join("NULL" if v is None else str(v) for v in r) + ")" for r in rows]
    return f'"{name}"({names}) AS (FROM (VALUES {", ".join([typed, *texts])}) OFFSET 1)'


def _text(scalar: Scalar) -> str:
    return scalar.sql("duckdb")


def _holds(condition: Scalar) -> str:
    return f"COALESCE({_text(condition)}, FALSE)"
