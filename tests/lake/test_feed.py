"""Net changes equal NEW minus OLD after every kind of commit, on both ways of reading them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from belvedere.lake import feed
from belvedere.lake.door import Door
from belvedere.lake.feed import Changes, changes
from belvedere.lake.names import quote
from belvedere.lake.work import Work

pytestmark = pytest.mark.spark

ROWS = "SELECT CAST(id AS INT) AS k, concat('v', id % 7) AS v, CAST(id AS DOUBLE) AS d FROM range({}, {}, 1, 2)"

COMMITS: dict[str, Sequence[str]] = {
    "append": [f"INSERT INTO t {ROWS.format(100, 120)}"],
    "append of rows that exist": [f"INSERT INTO t {ROWS.format(0, 10)}"],
    "delete with vectors": ["DELETE FROM t WHERE k % 5 = 0"],
    "delete twice": ["DELETE FROM t WHERE k % 5 = 0", "DELETE FROM t WHERE k % 5 = 1"],
    "delete that empties a file": ["DELETE FROM t WHERE k < 40"],
    "vectors, then a delete that empties files": [
        "DELETE FROM t WHERE k % 5 = 0",
        "DELETE FROM t WHERE k < 40",
    ],
    "delete of everything": ["DELETE FROM t"],
    "delete of everything by predicate": ["DELETE FROM t WHERE k >= 0"],
    "update": ["UPDATE t SET v = 'x' WHERE k < 10"],
    "update that changes nothing": ["UPDATE t SET v = v"],
    "merge": [
        "MERGE INTO t USING (SELECT 5 AS k UNION ALL SELECT 500) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
    ],
    "merge that changes nothing": [
        "MERGE INTO t USING (SELECT 5 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v"
    ],
    "truncate after vectors": ["DELETE FROM t WHERE k % 5 = 0", "TRUNCATE TABLE t"],
    "overwrite": [f"INSERT OVERWRITE t {ROWS.format(50, 110)}"],
    "overwrite after vectors": [
        "DELETE FROM t WHERE k % 5 = 0",
        f"INSERT OVERWRITE t {ROWS.format(50, 110)}",
    ],
    "restore": ["DELETE FROM t WHERE k % 5 = 0", "DELETE FROM t", "RESTORE t TO VERSION AS OF 2"],
    "restore of a vector": [
        "DELETE FROM t WHERE k % 5 = 0",
        "INSERT OVERWRITE t SELECT 1, 'a', 1D",
        "RESTORE t TO VERSION AS OF 2",
    ],
    "optimize": ["OPTIMIZE t"],
    "optimize with vectors": ["DELETE FROM t WHERE k % 5 = 0", "OPTIMIZE t"],
    "purge": ["DELETE FROM t WHERE k % 5 = 0", "REORG TABLE t APPLY (PURGE)"],
    "delete and insert again": ["DELETE FROM t WHERE k < 5", f"INSERT INTO t {ROWS.format(0, 5)}"],
    "properties": [
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        f"INSERT INTO t {ROWS.format(7, 9)}",
    ],
}


def difference(work: Work, found: Changes, reference: str, old: int, new: int, columns: str) -> int:
    """In how many row values the net changes and NEW minus OLD differ."""
    sql = f"""
        SELECT count(*) AS n FROM (
          SELECT {columns}, sum(m) AS m FROM (
            SELECT {columns}, 1L AS m FROM {reference} VERSION AS OF {new}
            UNION ALL SELECT {columns}, -1L AS m FROM {reference} VERSION AS OF {old}
            UNION ALL SELECT {columns}, -__m AS m FROM {quote(found.view)})
          GROUP BY {columns} HAVING sum(m) <> 0)"""
    return int(work.query(sql).collect()[0]["n"])


@pytest.mark.parametrize("kind", COMMITS)
def test_net_changes_are_new_minus_old(door: Door, kind: str) -> None:
    door.sql("CREATE TABLE t (k INT, v STRING, d DOUBLE)")
    door.sql(f"INSERT INTO t {ROWS.format(0, 100)}")
    start = door.table("t").version
    for statement in COMMITS[kind]:
        door.sql(statement)
    table = door.table("t")
    with door.work() as work:
        for old in range(start, table.version + 1):
            found = changes(work, table, old, table.version, ["k", "v", "d"])
            assert difference(work, found, "t", old, table.version, "k, v, d") == 0
            counts = [r["__m"] for r in work.spark.table(found.view).collect()]
            assert 0 not in counts
            assert found.rows in (None, len(counts))
            assert found.inserts_only in (None, all(c > 0 for c in counts))


@pytest.mark.parametrize("kind", ["update", "merge", "delete with vectors", "overwrite"])
def test_both_ways_of_reading_agree(door: Door, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    door.sql("CREATE TABLE t (k INT, v STRING, d DOUBLE)")
    door.sql(f"INSERT INTO t {ROWS.format(0, 100)}")
    for statement in COMMITS[kind]:
        door.sql(statement)
    table = door.table("t")
    with door.work() as work:
        small = changes(work, table, 1, table.version, ["v"])
        assert small.rows is not None
        monkeypatch.setattr(feed, "is_small", lambda *_: False)
        large = changes(work, table, 1, table.version, ["v"])
        assert large.rows is None
        a, b = (sorted(map(tuple, work.spark.table(c.view).collect())) for c in (small, large))
        assert a == b
