"""The core cases through Spark Connect; a process of its own, since classic Spark excludes it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import sqlglot
from pyspark.sql import SparkSession

import belvedere as bv
from belvedere.algebra.scalars import Scalar
from belvedere.delta.stamps import FOREIGN_WRITE, Position, Stamp
from belvedere.derivations.ledger import SCHEMA
from belvedere.errors import Invalid
from belvedere.execution import costs
from belvedere.lake.sessions.session import settings
from belvedere.lake.spark_lake import SparkLake, open_session
from belvedere.lake.tables import remote
from belvedere.lake.tables.change_feed import Feed
from belvedere.lake.writes import commits
from belvedere.sql.merges import Merge
from belvedere.storage.stores import UnreachableStore

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.derivations.kill_cases import Kill, fill, random_kills, run_kills
from tests.derivations.kill_script import STEPS
from tests.lake.connect_cases import run_views

KILLS = int(os.environ.get("BELVEDERE_KILLS", "0"))


def session(warehouse: str) -> SparkSession:
    """A session as a user with a hosted Spark would have, with the settings of the tests."""
    ours = {k: v for k, v in settings(os.environ).items() if "properties.defaults" not in k}
    here = {
        "spark.sql.warehouse.dir": warehouse,
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    builder = SparkSession.builder.remote("local[2]")
    for key, value in {**ours, **here}.items():
        if key not in ("spark.master", "spark.app.name"):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def stamp(refresh: int, version: int) -> Stamp:
    return Stamp("view-1", refresh, {"t": Position("an id", version)})


def sql(text: str) -> Scalar:
    return Scalar(sqlglot.parse_one(text, dialect="spark"))


def run(elsewhere: bool) -> None:
    """All cases; `elsewhere` as if the tables' storage could not be reached from here."""
    if elsewhere:
        remote.open_store = UnreachableStore  # type: ignore[assignment, attr-defined]
    suffix = "_far" if elsewhere else ""
    t, stored = f"t{suffix}", f"__bv_v{suffix}"
    door = open_session(spark)
    door.sql(f"CREATE TABLE {t} (k INT, v STRING) USING delta")
    assert not door.table(t).change_feed
    door.enable_change_feed(door.table(t))
    door.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (2, 'b')")
    door.sql(f"DELETE FROM {t} WHERE k = 1")
    table = door.table(t)
    assert (table.version, door.newest(table)) == (3, 3)
    kinds = {"k": "int", "v": "string"}
    assert dict(table.columns) == kinds
    assert door.feed_problem(table, Position(table.id, 1), 3, kinds) is None
    first = Position(table.id, 0)
    assert door.feed_problem(table, first, 3, {"k": "bigint"}) == "SCHEMA_CHANGED"
    assert door.types({"s": "sum(k)"}, kinds, {"spark.sql.ansi.enabled": "true"}) == {"s": "bigint"}
    with door.work({"spark.sql.session.timeZone": "UTC"}) as w:
        found = Feed(table, 1, 3, ["k", "v"]).net(w, ["k", "v"])
        assert w.query(f"SELECT * FROM {found.view()}").collect() == [(2, "b", 2)]
        commits.create(
            w,
            stored,
            f"SELECT k, __m AS n FROM {found.view()}",
            stamp(1, 3),
            {"belvedere.view": "{}"},
        )
        merge = Merge(("k",), {"k": sql("s.k"), "n": sql("s.n")}, update={"n": sql("t.n + s.n")})
        source = "SELECT 2 AS k, 5L AS n UNION ALL SELECT NULL, 1L"
        assert commits.merge(w, stored, source, merge, stamp(2, 4)) == 2
        commits.move(w, stored, stamp(3, 5))
    assert commits.read_stamp(door, stored).stamp == stamp(3, 5)
    assert sorted(door.sql(f"SELECT n FROM {stored}").collect()) == [(1,), (7,)]
    assert [s for s in door.stored() if s.endswith(f".{stored}")]
    assert door.sql(f"SELECT * FROM {t} VERSION AS OF 2").count() == 3
    door.sql(f"INSERT INTO {stored} VALUES (9, 9)")
    assert commits.read_stamp(door, stored).reason == FOREIGN_WRITE
    try:
        door.table("tt_fra")
        raise AssertionError("an unknown table was found")
    except Invalid:
        pass
    run_journal(door, table.id)
    door.close()


def run_new_layout() -> None:
    """Rows under other partition columns, where the log that tells of it cannot be read; after `elsewhere`."""
    with bv.connect(spark) as lake:
        lake.sql("CREATE TABLE laid (k INT, v STRING) USING delta")
        lake.enable_change_feed("laid")
        lake.sql("INSERT INTO laid VALUES (1, 'a'), (2, 'b')")
        lake.sql("CREATE MATERIALIZED VIEW kinds AS SELECT v, count(*) AS n FROM laid GROUP BY v")

        def lay(*columns: str) -> None:
            rows = spark.sql("SELECT 3 AS k, 'c' AS v").write.format("delta").mode("overwrite")
            rows.partitionBy(*columns).option("overwriteSchema", True).saveAsTable("laid")

        for change, reason in (
            (lambda: lake.sql("INSERT INTO laid VALUES (3, 'b')"), ""),
            (lambda: lay("v"), "PARTITIONS_CHANGED"),
            (lambda: lake.sql("INSERT INTO laid VALUES (3, 'b')"), ""),
            (lambda: [lay(), lay("v")], "PARTITIONS_CHANGED"),
        ):
            change()
            assert lake.refresh("kinds").reason == reason
            fresh = lake.sql("SELECT v, count(*) FROM laid GROUP BY v").collect()
            assert sorted(lake.view("kinds").df().collect()) == sorted(fresh)


def run_journal(door: SparkLake, view_id: str) -> None:
    """What is appended in a catalog is read again, whoever writes it."""
    row = {"view_id": view_id, "refresh": 7, "pending": [("t", 1)]}
    for number in (7, 8):
        door.journal.append([{**row, "refresh": number}], SCHEMA)
    found = door.journal.read("view_id", view_id)
    assert {r["refresh"] for r in found} == {7, 8}
    assert dict(found[0]["pending"]) == {"t": 1}
    assert door.journal.read("view_id", "no such") == []


def run_all_kills() -> None:
    """Clients that die at the named steps of a refresh, and at random moments."""
    steps = [Kill(step, when) for step in STEPS for when in ("before", "after")]
    chosen = [*steps, *random_kills(KILLS, longest=2.5)]
    with bv.connect(spark) as lake:
        lake.sql("CREATE DATABASE kills")
        lake.sql("USE kills")
        fill(lake)
        run_kills(lake, "sc://localhost", chosen)
        lake.sql("USE default")


if __name__ == "__main__":
    costs.WORTH_IT = 0.0  # as in conftest.py
    spark = session(sys.argv[1])
    try:
        run_views(spark)
        if KILLS:
            run_all_kills()
            run(elsewhere=False)
            run(elsewhere=True)
            run_new_layout()
        sys.stdout.write("done\n")
    finally:
        # The server of a local session would outlive a failure.
        spark.stop()
