"""Plans run in DuckDB: the same SQL rendering that Spark gets, in milliseconds."""

from __future__ import annotations

from collections import Counter

import duckdb
from sqlglot import exp

from belvedere.algebra.relations import At, Change, Rel, Scan
from belvedere.sql.render import SIGN, is_signed, render
from reference.interpreter import Bag, Database, Row, minus


class Engine:
    """The two states of a database's tables, and their changes, as DuckDB tables."""

    def __init__(self, db: Database) -> None:
        self._connection = duckdb.connect()
        for table, columns in db.columns.items():
            self._store(f"{table}_old", columns, list(db.old[table].elements()))
            self._store(f"{table}_new", columns, list(db.new[table].elements()))
            change = minus(db.new[table], db.old[table])
            signs = [(*r, 1 if m > 0 else -1) for r, m in change.items() for _ in range(abs(m))]
            self._store(f"{table}_change", (*columns, SIGN), signs)

    def bag(self, q: Rel) -> Bag:
        """The rows of a plan with their counts, as DuckDB finds them."""
        rows = self._connection.execute(self.text(q)).fetchall()
        if not is_signed(q):
            return Counter(rows)
        out: Bag = Counter()
        for *row, sign in rows:
            out[tuple(row)] += sign
        return Counter({r: m for r, m in out.items() if m})

    def text(self, q: Rel) -> str:
        return render(q, _source).sql(dialect="duckdb")

    def close(self) -> None:
        self._connection.close()

    def _store(self, name: str, columns: tuple[str, ...], rows: list[Row]) -> None:
        spec = ", ".join(f'"{c}" INTEGER' for c in columns)
        self._connection.execute(f'CREATE TABLE "{name}" ({spec})')
        if rows:
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)


def _source(leaf: Scan | Change) -> exp.Table:
    if isinstance(leaf, Change):
        return exp.to_table(f"{leaf.table}_change")
    return exp.to_table(f"{leaf.table}_{'old' if leaf.at is At.OLD else 'new'}")
