"""Sketches on Spark and Delta: answers through them are the answers without, whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.api import Lake
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.spark_lake import open_directory
from belvedere.sketches import upkeep
from belvedere.sketches.costs import BY_SPARK, Costs

pytestmark = pytest.mark.spark

HOT = (
    "SELECT brand, sum(price * sold) AS rev FROM sales GROUP BY brand HAVING sum(price * sold) > {}"
)


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Sales of 40 brands: cheap ones sell badly."""
    opened = Lake(open_directory(tmp_path_factory.mktemp("sketches") / "lake"))
    opened.sql(
        "CREATE TABLE sales USING DELTA TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true') AS "
        "SELECT id, concat('b', id % 40) AS brand, CAST(id % 40 * 10 + id % 7 AS DECIMAL(10,2)) AS price, "
        "CAST(id % 5 AS INT) AS sold, CAST(id % 11 AS DOUBLE) AS weight, "
        "date_add(DATE '2026-01-01', CAST(id % 30 AS INT)) AS day FROM range(4000)"
    )
    opened.sql(
        "CREATE TABLE brands USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        "SELECT concat('b', id) AS brand, CAST(id % 3 AS INT) AS country FROM range(40)"
    )
    opened.sql(
        f"CREATE SKETCH hot ON {HOT.format(60000)} PARTITION sales BY price INTO 100 FRAGMENTS"
    )
    yield opened
    opened.close()


def rows(lake: Lake, text: str) -> Counter[Any]:
    return Counter(tuple(r) for r in lake.sql(text).collect())


def same(lake: Lake, text: str, through: str | None) -> Any:
    """The query answers as without sketches, through the sketch that it should; how."""
    answer = lake.explain_query(text)
    assert answer.sketch == through, str(answer)
    assert Counter(tuple(r) for r in lake.query(text).collect()) == rows(lake, text)
    return answer


def test_a_query_is_answered_through_its_sketch_before_and_after_changes(lake: Lake) -> None:
    answer = same(lake, HOT.format(60000), "hot")
    assert 0 < answer.kept < answer.fragments / 2
    lake.sql(
        "INSERT INTO sales SELECT id + 9000, 'b3', 900.00, 8, 1.0, DATE '2026-03-01' FROM range(20)"
    )
    lake.sql("DELETE FROM sales WHERE brand = 'b39' AND id < 2000")
    lake.sql("UPDATE sales SET sold = sold + 1 WHERE brand IN ('b38', 'b20')")
    after = same(lake, HOT.format(60000), "hot")
    assert "merge" in after.upkeep
    assert lake.explain_query(HOT.format(60000)).upkeep == ""


def test_a_change_that_only_spark_reads_is_maintained_and_weighed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weights() -> float:
        return Costs.of(lake._sketches.service.definition("hot").costs).rows

    lake.refresh("hot")
    before = weights()
    monkeypatch.setattr(upkeep, "_TIMES", 0)
    lake.sql("UPDATE sales SET sold = sold + 1 WHERE brand = 'b37'")
    done = lake.refresh("hot")
    assert done.strategy == "merge"
    assert weights() == pytest.approx(0.9 * before + BY_SPARK * (done.rows_changed or 0))
    same(lake, HOT.format(60000), "hot")


def test_no_job_runs_where_no_changed_row_can_join(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def jobs() -> int:
        found: int = lake.spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()
        return found

    monkeypatch.setattr(upkeep, "BLOOM_FROM", 0)
    lake.sql("CREATE TABLE fact (k INT, g INT, v INT)")
    lake.sql("CREATE TABLE dim (k INT)")
    lake.sql("INSERT INTO fact SELECT id % 20, id % 50, id % 50 FROM range(2000)")
    lake.sql("INSERT INTO dim SELECT id FROM range(10)")
    text = (
        "SELECT g, sum(v) AS s FROM fact f JOIN dim d ON f.k = d.k GROUP BY g HAVING sum(v) > 900"
    )
    lake.sql(f"CREATE SKETCH met ON {text} PARTITION fact BY g INTO 25 FRAGMENTS")
    assert lake._sketches.service.live("met").blooms
    for key, meets in ((77, False), (3, True)):
        lake.sql(f"INSERT INTO fact VALUES ({key}, 7, 1000)")
        before = jobs()
        done = lake.refresh("met")
        assert (done.strategy, done.rows_changed) == ("merge", 1)
        assert jobs() == before or meets
        same(lake, text, "met")
    lake.sql("DROP SKETCH met")


def test_other_constants_are_answered_where_that_is_sound(lake: Lake) -> None:
    same(lake, HOT.format(80000), "hot")
    same(lake, HOT.format(60000) + " ORDER BY rev DESC LIMIT 3", "hot")
    same(lake, HOT.format(60000).replace("GROUP", "WHERE day > DATE '2026-01-10' GROUP"), "hot")
    refused = same(lake, HOT.format(50000), None)
    assert "HAVING" in str(refused)


def test_a_refresh_says_what_it_did_and_a_second_one_finds_nothing(lake: Lake) -> None:
    lake.refresh("hot")
    lake.sql("INSERT INTO sales VALUES (9002, 'b7', 70.00, 1, NULL, NULL)")
    done = lake.refresh("hot")
    assert (done.strategy, done.rows_changed) == ("merge", 1)
    assert lake.refresh("hot").strategy == "nothing"
    assert lake.refresh("hot", full=True).strategy == "rebuild"
    assert [s.name for s in lake.status() if s.policy == "SKETCH"] == ["hot"]
    assert "fragments" in str(lake.explain("hot"))
    assert lake.sql("SHOW SKETCHES").count() == 1
    assert lake.sql("DESCRIBE SKETCH hot").count() > 3


def test_the_maintained_sketch_is_the_captured_one(lake: Lake) -> None:
    lake.sql(
        "MERGE INTO sales t USING (SELECT 9001 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    lake.sql("INSERT INTO sales SELECT id + 20000, 'b12', 33.00, 9, 0.5, NULL FROM range(300)")
    lake.refresh("hot")
    kept = lake._sketches.service.live("hot").bitmaps[0].tolist()
    lake.refresh("hot", full=True)
    assert lake._sketches.service.live("hot").bitmaps[0].tolist() == kept


def test_an_earlier_version_is_asked_through_the_sketch_of_that_version(lake: Lake) -> None:
    lake.refresh("hot")
    before = lake._sketches.service.live("hot").vector["sales"].version
    wanted = rows(lake, HOT.format(60000))
    lake.sql("DELETE FROM sales WHERE brand = 'b37'")
    lake.refresh("hot")
    answer = lake.explain_query(HOT.format(60000), {"sales": before})
    assert answer.sketch == "hot"
    found = lake.query(HOT.format(60000), {"sales": before}).collect()
    assert Counter(tuple(r) for r in found) == wanted


JOINED = (
    "SELECT b.country, s.brand, max(s.price) AS top FROM sales s JOIN brands b ON s.brand = b.brand "
    "WHERE b.country < 2 GROUP BY b.country, s.brand HAVING max(s.price) > 380"
)


def test_a_join_is_kept_under_changes_of_both_tables(lake: Lake) -> None:
    lake.sql(f"CREATE SKETCH joined ON {JOINED} PARTITION sales BY brand INTO 40 FRAGMENTS")
    same(lake, JOINED, "joined")
    lake.sql("INSERT INTO brands VALUES ('b77', 0)")
    lake.sql("INSERT INTO sales VALUES (9100, 'b77', 999.00, 1, 1.0, NULL)")
    lake.sql("UPDATE brands SET country = 1 WHERE brand = 'b38'")
    answer = same(lake, JOINED, "joined")
    assert "merge" in answer.upkeep
    kept = lake._sketches.service.live("joined").bitmaps[0].tolist()
    lake.refresh("joined", full=True)
    assert lake._sketches.service.live("joined").bitmaps[0].tolist() == kept
    lake.sql("DROP SKETCH joined")


FLOATS = "SELECT brand, avg(weight) AS w FROM sales GROUP BY brand HAVING avg(weight) > 5.2 AND min(sold) < 1"


def test_the_first_by_a_sum_of_many_digits_are_kept(lake: Lake) -> None:
    text = "SELECT brand, sum(price * (1 + price)) AS rev FROM sales GROUP BY brand"
    first = f"{text} ORDER BY rev DESC LIMIT 2"
    lake.sql(f"CREATE SKETCH most ON {first} PARTITION sales BY brand")
    same(lake, first, "most")
    lake.sql(
        "INSERT INTO sales SELECT id + 9900, 'b1', 99999.00, 1, 1.0, DATE '2026-03-01' "
        "FROM range(3)"
    )
    assert "merge" in same(lake, first, "most").upkeep
    lake.sql("DELETE FROM sales WHERE id >= 9900")
    assert "merge" in same(lake, first, "most").upkeep
    lake.sql("DROP SKETCH most")


def test_floating_point_and_nested_queries_are_answered_too(lake: Lake) -> None:
    lake.sql(f"CREATE SKETCH floats ON {FLOATS} PARTITION sales BY brand INTO 20 FRAGMENTS")
    lake.sql("INSERT INTO sales VALUES (9200, 'b1', 1.00, 0, 1000.0, NULL)")
    lake.refresh("floats")
    nested = (
        "SELECT brand, max(n) AS m FROM (SELECT brand, day, count(*) AS n FROM sales GROUP BY brand, day) t "
        "GROUP BY brand HAVING max(n) > 50"
    )
    lake.sql(f"CREATE SKETCH nested ON {nested} PARTITION sales BY brand INTO 20 FRAGMENTS")
    lake.sql(
        "INSERT INTO sales SELECT id + 30000, 'b2', 3.00, 9, 0.5, DATE '2026-01-05' FROM range(60)"
    )
    answer = lake.explain_query(nested)
    assert Counter(map(tuple, lake.query(nested).collect())) == rows(lake, nested)
    assert Counter(map(tuple, lake.query(FLOATS).collect())) == rows(lake, FLOATS)
    assert answer.sketch == "nested"
    assert "rebuild" in answer.upkeep
    for name in ("floats", "nested"):
        lake.sql(f"DROP SKETCH {name}")


def test_a_sum_that_gets_a_negative_term_retires_its_sketch(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE amounts (g INT, p INT, v INT) USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    lake.sql("INSERT INTO amounts VALUES (1, 20, 60), (2, 20, 30), (3, 5, 10), (3, 7, 1)")
    text = "SELECT g, sum(v) AS s FROM amounts GROUP BY g HAVING sum(v) > 50"
    lake.sql(f"CREATE SKETCH total ON {text} PARTITION amounts BY p AT (6, 10, 15)")
    same(lake, text, "total")
    lake.sql("INSERT INTO amounts VALUES (2, 20, 70), (2, 5, -60)")
    refused = same(lake, text, None)
    assert "retired" in str(refused)
    lake.sql("DROP SKETCH total")


def test_bad_input_is_told_before_anything_is_written(lake: Lake) -> None:
    cases = {
        "PARTITION sales BY ID INTO 10 FRAGMENTS": "safe here: sales.brand",
        "PARTITION nowhere BY id": "it reads sales",
        "PARTITION sales BY nothing": "its columns",
        "PARTITION sales BY brand AT ('b', 'a')": "ascending",
        "PARTITION sales BY day AT ('yesterday')": "of the column's own type",
    }
    avg = "SELECT brand FROM sales GROUP BY brand HAVING avg(price) > 3"
    for clause, hint in cases.items():
        with pytest.raises((Invalid, Unsupported)) as error:
            lake.sql(f"CREATE SKETCH bad ON {avg} {clause}")
        assert hint in str(error.value)
    with pytest.raises(Invalid, match="exists already"):
        lake.sql(f"CREATE SKETCH hot ON {avg}")
    with pytest.raises(Invalid, match="needed"):
        lake.sql("DROP TABLE sales")
    assert list(lake._sketches.names()) == ["hot"]


def test_the_column_is_chosen_where_none_is_named(lake: Lake) -> None:
    avg = "SELECT brand FROM sales GROUP BY brand HAVING avg(price) > 390"
    lake.sql(f"CREATE SKETCH own ON {avg}")
    assert lake._sketches.service.definition("own").partitions[0].column == "brand"
    same(lake, avg, "own")
    lake.sql("DROP SKETCH own")


def test_auto_makes_a_sketch_of_what_is_asked_often(lake: Lake) -> None:
    lake.auto_sketches()
    lake._sketches.service._watcher._least_rows = 1  # type: ignore[union-attr]
    text = "SELECT brand, max(id) AS m FROM sales GROUP BY brand HAVING max(id) > {}"
    for n in (29000, 29001, 29002):
        lake.query(text.format(n)).collect()
    answer = same(lake, text.format(29005), next(n for n in lake._sketches.names() if "auto" in n))
    lake.sql(f"DROP SKETCH {answer.sketch}")
    lake.auto_sketches(False)


def test_a_state_is_restored_and_a_damaged_one_is_captured_anew(lake: Lake) -> None:
    lake.refresh("hot")
    lake._sketches.close()
    directory = lake._door.directory
    assert directory is not None
    again = Lake(open_directory(directory))
    assert again.refresh("hot").strategy == "nothing"
    again._sketches.service._held.clear()
    path = next(Path(directory).rglob("hot.state"))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 0xFF
    path.write_bytes(raw)
    wanted = rows(lake, HOT.format(60000))
    assert Counter(map(tuple, again.query(HOT.format(60000)).collect())) == wanted
    assert again.explain_query(HOT.format(60000)).sketch == "hot"


def test_a_table_is_clustered_by_the_column_that_its_sketch_cuts_it_by(lake: Lake) -> None:
    text = "SELECT id FROM spread WHERE g > 990"
    lake.sql(
        "CREATE TABLE spread USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        "SELECT /*+ REPARTITION(4) */ id, id * 7919 % 1000 AS g, rand(1) AS x, rand(2) AS y FROM range(120000)"
    )
    lake.sql(f"CREATE SKETCH few ON {text} PARTITION spread BY g INTO 100 FRAGMENTS")
    assert "CLUSTER" in dict(lake.sql("DESCRIBE SKETCH few").collect()).get("offered", "")
    told = lake.sql("CLUSTER SKETCH few").collect()[0]["result"]
    assert "0 of" in told.split(" before")[0]
    answer = same(lake, text, "few")
    assert answer.skipped[0].bytes > 0
    assert lake.refresh("few").strategy == "nothing"
    assert "offered" not in dict(lake.sql("DESCRIBE SKETCH few").collect())


def test_kept_loosely_and_with_constraints_answers_are_the_same(lake: Lake) -> None:
    lake.sql("CREATE TABLE paid (g BIGINT, pct BIGINT, v BIGINT)")
    lake.sql("ALTER TABLE paid ADD CONSTRAINT share CHECK (pct <= 100 AND pct >= 0 AND v >= 0)")
    lake.sql("INSERT INTO paid SELECT id % 50, 90 - id % 3, id % 9 + id % 50 FROM range(2000)")
    text = "SELECT g, sum(v * (100 - pct)) AS s, min(v) AS m FROM paid GROUP BY g HAVING sum(v * (100 - pct)) > 22000"
    lake.sql(
        f"CREATE SKETCH loose ON {text} PARTITION paid BY v INTO 20 FRAGMENTS BUFFER 4 VALUES KEPT LOOSELY"
    )
    facts = dict(lake.sql("DESCRIBE SKETCH loose").collect())
    assert "pct of paid between 0 and 100" in facts["relies on"]
    same(lake, text, "loose")
    lake.sql("DELETE FROM paid WHERE g = 49 AND v > 50")
    lake.sql("UPDATE paid SET v = v + 40 WHERE g = 3")
    assert "merge" in same(lake, text, "loose").upkeep
