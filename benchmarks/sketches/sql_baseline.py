"""The comparison: a sketch of one table's groups kept by SQL on Spark alone (IMP §8).

The state is a Delta table of partial sums by group and fragment. A refresh reads the change feed by
Spark, aggregates it, merges it into the state, and asks the state for the fragments of the groups
that pass.
"""

from __future__ import annotations

from typing import Any

from belvedere.algebra.scalars import col
from belvedere.joins.partitions import Partition


class BySql:
    """A sketch of `SELECT key … GROUP BY key HAVING condition` over sums and counts."""

    def __init__(
        self, lake: Any, table: str, key: str, sums: list[str], having: str, cut: Partition
    ) -> None:
        self.lake, self.table, self.key, self.sums, self.having = lake, table, key, sums, having
        self.state = f"by_sql_{table}"
        self.fragment = cut.fragment_scalar(col(cut.column)).sql()
        totals = ", ".join(f"sum({c}) AS s_{c}" for c in sums)
        lake.spark.sql(f"DROP TABLE IF EXISTS {self.state}")
        lake.spark.sql(
            f"CREATE TABLE {self.state} USING DELTA AS SELECT {key} AS k, {self.fragment} AS f, "
            f"count(*) AS n, {totals} FROM {table} GROUP BY 1, 2"
        )
        self.version = self._newest()

    def _newest(self) -> int:
        rows = self.lake.spark.sql(f"DESCRIBE HISTORY {self.table} LIMIT 1").collect()
        return int(rows[0]["version"])

    def refresh(self) -> set[int]:
        """Bring the state to the newest version, and read the sketch off it."""
        newest = self._newest()
        if newest > self.version:
            reader = self.lake.spark.read.format("delta").option("readChangeFeed", "true")
            reader = reader.option("startingVersion", self.version + 1)
            reader.option("endingVersion", newest).table(self.table).createOrReplaceTempView("feed")
            self.lake.spark.sql(self._merge())
            self.version = newest
        sums = ", ".join(f"sum(s_{c}) AS s_{c}" for c in self.sums)
        passing = (
            f"SELECT k FROM (SELECT k, sum(n) AS n, {sums} FROM {self.state} GROUP BY k) "
            f"WHERE {self.having}"
        )
        kept = f"SELECT DISTINCT f FROM {self.state} LEFT SEMI JOIN ({passing}) USING (k)"
        return {row["f"] for row in self.lake.spark.sql(kept).collect()}

    def _merge(self) -> str:
        sign = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
        totals = ", ".join(f"sum({sign} * {c}) AS s_{c}" for c in self.sums)
        change = (
            f"SELECT {self.key} AS k, {self.fragment} AS f, sum({sign}) AS n, {totals} "
            "FROM feed GROUP BY 1, 2"
        )
        names = ["n", *(f"s_{c}" for c in self.sums)]
        updates = ", ".join(f"t.{n} = t.{n} + s.{n}" for n in names)
        listed, values = ", ".join(["k", "f", *names]), ", ".join(f"s.{n}" for n in names)
        return (
            f"MERGE INTO {self.state} t USING ({change}) s ON t.k <=> s.k AND t.f = s.f "
            "WHEN MATCHED AND t.n + s.n = 0 THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {updates} "
            f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES (s.k, s.f, {values})"
        )
