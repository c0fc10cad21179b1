"""Samples on Spark and Delta: the right rows, fresh answers, clear refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from belvedere.algebra.hashing import bound, digest
from belvedere.api import Lake
from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.samples.answers.answer import EstimatedAnswer
from belvedere.samples.answers.select_rows import CorrectedRows

pytestmark = pytest.mark.spark

VISITS = (
    "SELECT v.video_id, owner, count(*) AS n, sum(bytes) AS bytes FROM log l"
    " JOIN video v ON l.video_id = v.video_id GROUP BY v.video_id, owner"
)
LINES = (
    "SELECT session_id, l.video_id, bytes, owner FROM log l JOIN video v ON l.video_id = v.video_id"
)


@pytest.fixture
def lake(door: SparkLake) -> Lake:
    opened = Lake(door)
    opened.sql(
        "CREATE TABLE video AS SELECT id AS video_id, concat('o', id % 3) AS owner FROM range(600)"
    )
    opened.sql(
        "CREATE TABLE log AS SELECT id AS session_id, id * id % 600 AS video_id, id * 7 % 1000 AS bytes"
        " FROM range(6000)"
    )
    for table, key in (("video", "video_id"), ("log", "session_id")):
        opened.enable_change_feed(table)
        opened.declare_key(table, [key])
    return opened


def change(lake: Lake) -> None:
    """Rows come, go and change in both tables; groups die and are born."""
    lake.sql("INSERT INTO log SELECT 10000 + id, id % 640, id * 13 % 3000 FROM range(1500)")
    lake.sql("DELETE FROM log WHERE session_id % 11 = 3")
    lake.sql("UPDATE log SET bytes = bytes + 500 WHERE session_id % 5 = 1")
    lake.sql("INSERT INTO video SELECT 600 + id, 'new' FROM range(40)")
    lake.sql("DELETE FROM video WHERE video_id IN (1, 4, 9)")


def rows(lake: Lake, query: str) -> set[tuple[object, ...]]:
    return {tuple(r) for r in lake.sql(query).collect()}


def test_a_clean_sample_has_the_fresh_rows_of_the_hashed_keys_and_answers_fresh(lake: Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
    lake.sql("CREATE SAMPLE ON visits RATIO 40 PERCENT SEED 3 OUTLIERS ON log.bytes ABOVE 2900")
    change(lake)
    stale = rows(lake, "SELECT * FROM visits")
    done = lake.clean("visits")
    assert {r.strategy for r in done.refreshes} == {"merge"}
    assert rows(lake, "SELECT * FROM visits") == stale
    now = rows(lake, VISITS)
    # Superfluous rows are gone, missing ones are there, the others have their key and new values.
    sampled = {r for r in now if digest([r[0]], 3) < bound(0.4)}
    assert rows(lake, "SELECT * FROM visits_sample") == sampled
    large = {v for (v,) in rows(lake, "SELECT video_id FROM log WHERE bytes >= 2900")}
    assert rows(lake, "SELECT * FROM visits_outliers") == {r for r in now if r[0] in large}
    _answers_are_near(lake)
    _selects_are_corrected(lake, now)
    lake.refresh("visits")
    assert rows(lake, "SELECT * FROM visits") == now


def _answers_are_near(lake: Lake) -> None:
    asked = "SELECT owner, sum(bytes) AS b, count(*) AS c, avg(n) AS a FROM visits WHERE n > 1 GROUP BY owner"
    found = lake.estimate(asked, confidence=0.99, clean=False)
    assert isinstance(found, EstimatedAnswer)
    truth = {r[0]: r[1:] for r in rows(lake, asked.replace("FROM visits", f"FROM ({VISITS})"))}
    seen = {r["owner"]: r for r in found.arrow().to_pylist()}
    assert set(seen) == set(truth)
    for owner, values in truth.items():
        for name, value in zip("bca", values, strict=True):
            width = (seen[owner][f"{name}_high"] or np.inf) - (
                seen[owner][f"{name}_low"] or -np.inf
            )
            assert abs(seen[owner][name] - float(value)) <= width
    assert "new: not in the stale view" in seen["new"]["note"]
    assert "η(video_id) at log" in found.explain()
    assert found.df().columns[:4] == ["owner", "b", "b_low", "b_high"]
    ranks = lake.estimate(
        "SELECT median(n) AS m, max(n) AS x, stddev(n) AS s FROM visits", clean=False
    )
    assert "Cantelli" in ranks.arrow().to_pylist()[0]["note"]
    joined = lake.sql(
        "ESTIMATE METHOD CORR WITHOUT CLEANING SELECT v.owner, sum(n) / count(*) AS r FROM visits s"
        " JOIN video v ON s.video_id = v.video_id GROUP BY v.owner HAVING count(*) > 50 ORDER BY r LIMIT 2"
    )
    assert {r["r_method"] for r in joined.collect()} == {"CORR"}


def _selects_are_corrected(lake: Lake, now: set[tuple[object, ...]]) -> None:
    found = lake.estimate("SELECT video_id, n FROM visits WHERE n > 5", clean=False)
    assert isinstance(found, CorrectedRows)
    have = {tuple(r.values()) for r in found.rows.to_pylist()}
    wanted = {(r[0], r[2]) for r in now if r[2] > 5}
    fresh = {(v, n) for v, n in wanted if digest([v], 3) < bound(0.4)}
    assert fresh <= have
    assert len(wanted - have) < len(wanted)
    assert set(found.counts) == {"added", "updated", "removed"}
    assert "added" in found.explain()


def test_stored_leaves_and_a_hashed_attribute_keep_the_rows_of_their_keys(lake: Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW lines AS {LINES}")
    lake.sql(
        "CREATE SAMPLE ON lines RATIO 30 PERCENT BY (video_id) OUTLIERS AUTO TOP 40 WITH STORED LEAVES"
    )
    change(lake)
    found = lake.estimate(
        "SELECT sum(bytes) AS b, count(DISTINCT video_id) AS d FROM lines", confidence=0.99
    )
    now = rows(lake, LINES)
    sampled = {r for r in now if digest([r[1]], 0) < bound(0.3)}
    assert rows(lake, "SELECT * FROM lines_sample") == sampled
    assert {r[1] for r in rows(lake, "SELECT * FROM lines_outliers")} <= {r[1] for r in now}
    (line,) = found.arrow().to_pylist()
    assert line["b_low"] <= sum(r[2] for r in now) <= line["b_high"]  # type: ignore[misc]
    assert line["d_low"] <= len({r[1] for r in now}) <= line["d_high"]
    assert "not unique" in found.explain()


def test_the_k_largest_records_stay_in_the_index_as_the_top_of_a_table_changes(lake: Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW lines AS {LINES}")
    lake.sql("CREATE SAMPLE ON lines RATIO 20 PERCENT OUTLIERS ON log.bytes TOP 20")
    # Some of the top go: the reserve is enough. Then more of them than the reserve has.
    for gone, redefined in (("session_id < 200 AND bytes > 900", False), ("bytes > 950", True)):
        lake.sql(f"DELETE FROM log WHERE {gone}")
        assert _cleaned(lake) == redefined
    # A few new ones come, then many times as many as are to be kept.
    for count, redefined in ((5, False), (200, True)):
        lake.sql(f"INSERT INTO log SELECT 20000 + {count} + id, id, 5000 + id FROM range({count})")
        assert _cleaned(lake) == redefined
    lake.sql("UPDATE log SET bytes = bytes - 5000 WHERE bytes > 5150")
    assert _cleaned(lake)
    for name in ("lines_sample", "lines_outliers"):
        assert lake.view(name).df().count() == len(rows(lake, f"SELECT * FROM {name}"))


def _cleaned(lake: Lake) -> bool:
    """Clean, and check that the top is there and little else; whether bounds were set anew."""
    done = lake.clean("lines")
    kept = {r[0] for r in rows(lake, "SELECT session_id FROM lines_outliers")}
    top = {r[0] for r in rows(lake, "SELECT session_id FROM log ORDER BY bytes DESC LIMIT 20")}
    last = lake.sql("SELECT min(bytes) FROM (SELECT bytes FROM log ORDER BY bytes DESC LIMIT 20)")
    larger = rows(lake, f"SELECT session_id FROM log WHERE bytes > {last.collect()[0][0]}")
    assert {r[0] for r in larger} <= kept
    assert len(top & kept) >= 15
    assert 20 <= len(kept) <= 72
    return any(r.reason == "REDEFINED" for r in done.refreshes)


def test_bounds_from_the_mean_follow_the_data_when_the_view_is_refreshed(lake: Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
    for index in ("ON log.bytes BEYOND 1.5 DEVIATIONS", "AUTO TOP 20"):
        lake.sql(f"CREATE OR REPLACE SAMPLE ON visits RATIO 20 PERCENT OUTLIERS {index}")
        lake.sql("UPDATE log SET bytes = bytes * 3")
        assert "REDEFINED" not in {r.reason for r in lake.clean("visits").refreshes}
        lake.refresh("visits")
        assert "REDEFINED" in {r.reason for r in lake.clean("visits").refreshes}
        assert "REDEFINED" not in {r.reason for r in lake.clean("visits").refreshes}
    shown = {r[0]: r for r in rows(lake, "SELECT * FROM visits")}
    assert {r for r in shown.values() if r in rows(lake, "SELECT * FROM visits_outliers")}
    assert 10 <= lake.view("visits_outliers").df().count() <= 60


def test_a_cleaning_that_fails_leaves_the_sample_as_it_was(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
    lake.sql("CREATE SAMPLE ON visits RATIO 50 PERCENT")
    before = rows(lake, "SELECT * FROM visits_sample")
    lake.sql("INSERT INTO log SELECT 10000 + id, id % 600, 5 FROM range(500)")

    def fail(*_: object, **__: object) -> int:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        for writer in ("merge", "merge_few", "overwrite"):
            patch.setattr(commits, writer, fail)
        with pytest.raises(OSError, match="killed"):
            lake.clean("visits")
    assert rows(lake, "SELECT * FROM visits_sample") == before
    lake.clean("visits")
    now = {r for r in rows(lake, VISITS) if digest([r[0]], 0) < bound(0.5)}
    assert rows(lake, "SELECT * FROM visits_sample") == now


def test_bad_input_is_refused_and_a_view_takes_its_samples_with_it(lake: Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
    lake.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(bytes) AS b FROM log")
    lake.sql("CREATE MATERIALIZED VIEW best AS SELECT * FROM log ORDER BY bytes DESC LIMIT 5")
    no: Callable[[str, str], None] = lambda text, why: _refused(lake, text, why)  # noqa: E731
    no("ESTIMATE SELECT sum(n) FROM visits", "has no sample")
    no("ESTIMATE SELECT count(*) FROM log", "no materialized view")
    no("CREATE SAMPLE ON visits RATIO 0 PERCENT", "ratio")
    no("CREATE SAMPLE ON visits RATIO 101 PERCENT", "ratio")
    no("CREATE SAMPLE ON total RATIO 10 PERCENT", "one row")
    no("CREATE SAMPLE ON best RATIO 10 PERCENT", "LIMIT")
    no("CREATE SAMPLE ON visits RATIO 10 PERCENT BY (n)", "cannot identify them|to hash")
    no("CREATE SAMPLE ON visits RATIO 10 PERCENT OUTLIERS ON video.owner TOP 5", "string")
    no("CREATE SAMPLE ON log RATIO 10 PERCENT", "not a materialized view")
    lake.sql("CREATE SAMPLE ON visits RATIO 10 PERCENT")
    no("CREATE SAMPLE ON visits RATIO 20 PERCENT", "already has a sample")
    no(f"CREATE OR REPLACE MATERIALIZED VIEW visits AS {VISITS}", "has a sample")
    no("ESTIMATE SELECT collect_list(n) FROM visits", "collect_list")
    no("ESTIMATE SELECT count(DISTINCT owner) FROM visits", "count\\(distinct owner\\)")
    no(
        "ESTIMATE SELECT avg(m) FROM (SELECT owner, max(n) AS m FROM visits GROUP BY owner)",
        "GROUP BY",
    )
    no("ESTIMATE SELECT sum(a.n) FROM visits a JOIN visits b ON a.n = b.n", "two samples")
    no("ESTIMATE CONFIDENCE 100 PERCENT SELECT sum(n) FROM visits", "confidence")
    no("ESTIMATE SELECT max(owner) FROM visits", "numbers")
    with pytest.raises(Invalid, match="not at the requested versions"):
        lake.estimate("SELECT sum(n) FROM visits", at={"log": 99})
    said = lake.sql("DROP MATERIALIZED VIEW visits").collect()
    assert [r[0] for r in said] == ["dropped its sample visits_sample"]
    assert not {s.name for s in lake.status()} & {"visits", "visits_sample"}


def _refused(lake: Lake, text: str, why: str) -> None:
    with pytest.raises(BelvedereError, match=why):
        lake.sql(text)


def test_a_sampling_plan_comes_from_what_was_recorded_and_runs(lake: Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW visits REFRESH POLICY INCREMENTAL AS {VISITS}")
    lake.sql("CREATE SAMPLE ON visits RATIO 40 PERCENT")
    for first in (100_000, 200_000):
        lake.sql(f"INSERT INTO log SELECT {first} + id, id % 600, id FROM range({first // 100})")
        lake.clean("visits")
        lake.refresh("visits")
    plan = lake.sampling_plan("visits", rate=0.01)
    assert plan.load.refresh.fixed + plan.load.refresh.per_row > 0
    assert plan.current is not None
    assert plan.current.ratio == 0.4
    lake.sql("INSERT INTO log VALUES (300000, 1, 1)")
    jobs = plan.run(lake, 0.5)
    assert {job.what for job in jobs} <= {"refresh", "clean"}
    newest = "SELECT count(*) FROM log JOIN video USING (video_id)"
    answer = lake.estimate("SELECT sum(n) AS n FROM visits", clean=False).arrow().to_pylist()[0]
    assert answer["n_low"] <= lake.sql(newest).collect()[0][0] <= answer["n_high"]
