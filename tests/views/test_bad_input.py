"""A user's mistake gets a clear error, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import belvedere as bv

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("mistakes")) as lake:
        lake.sql("CREATE TABLE log (video_id BIGINT, bytes BIGINT, spare INT)")
        lake.sql("CREATE TABLE video (video_id BIGINT, owner STRING)")
        lake.sql(
            "CREATE MATERIALIZED VIEW visits AS SELECT video_id, count(*) AS n FROM log GROUP BY video_id"
        )
        lake.sql("CREATE MATERIALIZED VIEW top AS SELECT * FROM visits WHERE n > 1")
        yield lake


MISTAKES = [
    ("CREATE MATERIALIZED VIEW v AS SELECT * FROM lgo", bv.Invalid, "lgo", "log"),
    ("CREATE MATERIALIZED VIEW v AS SELECT bites FROM log", bv.Invalid, "bites", "bytes"),
    ("CREATE MATERIALIZED VIEW v AS SELECT video_id FROM log, video", bv.Invalid, "video_id", ""),
    ("CREATE MATERIALIZED VIEW v AS SELECT bytes AS a, spare AS A FROM log", bv.Invalid, "", "AS"),
    ("CREATE MATERIALIZED VIEW visits AS SELECT * FROM log", bv.Invalid, "visits", "OR REPLACE"),
    ("CREATE MATERIALIZED VIEW log AS SELECT * FROM video", bv.Invalid, "log", "another name"),
    ("CREATE MATERIALIZED VIEW v AS SELECT * FROM v", bv.Invalid, "v", ""),
    (
        "CREATE OR REPLACE MATERIALIZED VIEW visits AS SELECT * FROM visits",
        bv.Invalid,
        "itself",
        "",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELECT rand() AS r FROM log", bv.Unsupported, "rand", ""),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT bytes FROM log LIMIT 5",
        bv.Unsupported,
        "LIMIT",
        "ORDER BY",
    ),
    (
        "CREATE MATERIALIZED VIEW v REFRESH POLICY HOURLY AS SELECT 1 AS a FROM log",
        bv.Invalid,
        "HOURLY",
        "",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELEC bytes FROM log", bv.Invalid, "", ""),
    ("CREATE MATERIALIZED VIEW v AS SELECT bytes + FROM log", bv.Invalid, "", ""),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT no_such_function(bytes) AS x FROM log",
        bv.Invalid,
        "no_such_function",
        "",
    ),
    ("CREATE MATERIALIZED VIEW v AS SELECT bytes AS __b FROM log", bv.Unsupported, "__b", "rename"),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT INTERVAL '1' DAY AS d FROM log",
        bv.Unsupported,
        "interval",
        "cast",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT bytes FROM log |> WHERE bytes > 1",
        bv.Unsupported,
        "a pipe",
        "one SELECT",
    ),
    (
        "ALTER MATERIALIZED VIEW visits SET TBLPROPERTIES ('a' = 'b')",
        bv.Unsupported,
        "SET TBLPROPERTIES is not supported",
        "CREATE OR REPLACE",
    ),
    ("DROP TABLE log", bv.Invalid, "visits", "DROP MATERIALIZED VIEW"),
    ("DROP TABLE visits", bv.Invalid, "visits", "DROP MATERIALIZED VIEW"),
    ("DROP MATERIALIZED VIEW visits", bv.Invalid, "top", "DROP MATERIALIZED VIEW"),
    ("DROP MATERIALIZED VIEW vists", bv.Invalid, "vists", "visits"),
    ("REFRESH MATERIALIZED VIEW log", bv.Invalid, "log", "SHOW MATERIALIZED VIEWS"),
    ("REFRESH MATERIALIZED VIEW nothing", bv.Invalid, "nothing", ""),
    ("INSERT INTO visits VALUES (1, 2)", bv.Invalid, "visits", "tables"),
    ("DELETE FROM top", bv.Invalid, "top", "tables"),
    (
        "ALTER TABLE log RENAME COLUMN video_id TO id",
        bv.Invalid,
        "visits",
        "DROP MATERIALIZED VIEW",
    ),
    (
        "ALTER TABLE log SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
        bv.Invalid,
        "visits",
        "",
    ),
    ("CREATE SCHEMA other", bv.Unsupported, "schema", "connect"),
    ("CREATE TABLE visits (a INT)", bv.Invalid, "visits", ""),
]


@pytest.mark.parametrize(
    ("text", "kind", "says", "hint"), MISTAKES, ids=[m[0][:70] for m in MISTAKES]
)
def test_a_mistake_is_named_with_what_to_do(
    lake: bv.Lake, text: str, kind: type[bv.BelvedereError], says: str, hint: str
) -> None:
    before = [row.asDict() for row in lake.sql("SHOW TABLES").collect()]
    with pytest.raises(kind) as caught:
        lake.sql(text)
    assert says.lower() in str(caught.value).lower()
    assert hint.lower() in caught.value.hint.lower()
    assert [row.asDict() for row in lake.sql("SHOW TABLES").collect()] == before


def test_a_column_no_view_uses_may_change(lake: bv.Lake) -> None:
    lake.sql("ALTER TABLE log ADD COLUMN more STRING")
    lake.sql("INSERT INTO log VALUES (1, 2, 3, 'x')")
    done = lake.refresh("visits")
    assert isinstance(done, bv.Outcome)
    assert done.strategy == "merge"


def test_a_strict_view_that_would_rebuild_is_refused_at_once(lake: bv.Lake) -> None:
    with pytest.raises(bv.Unsupported) as caught:
        lake.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS"
            " SELECT bytes, rank() OVER (ORDER BY bytes) AS r FROM log"
        )
    assert caught.value.reason == "GLOBAL_WINDOW"
    assert "INCREMENTAL" in caught.value.hint


def test_a_view_on_a_table_that_is_not_delta_is_refused(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE plain (a INT) USING parquet")
    with pytest.raises(bv.Unsupported) as caught:
        lake.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM plain")
    assert "Delta" in str(caught.value)
    lake.spark.sql("DROP TABLE plain")


def test_advance_of_a_table_the_view_does_not_read_names_those_it_reads(lake: bv.Lake) -> None:
    with pytest.raises(bv.Invalid) as caught:
        lake.advance("visits", "video")
    assert "log" in caught.value.hint
