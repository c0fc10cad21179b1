"""A lake with a file of every kind, each of them damaged in every way: it opens, answers and refreshes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import belvedere as bv
from belvedere.errors import Invalid
from belvedere.scheduling.calibrate.fitting import FittedCost, MeasuredBatch
from belvedere.scheduling.model.cost_functions import LinearCost
from belvedere.scheduling.notify.subscriptions import Subscription, subscribe
from belvedere.scheduling.schedules import Calibration, Schedule, save_schedule
from belvedere.updating.apply.base_changes import Intent, TableCommit, UpdateApplier
from tests.lake.damages import (
    DAMAGES,
    a_directory,
    a_link,
    a_pipe,
    auxiliary_files,
    copied,
    cut_off,
    emptied,
    gone,
)

pytestmark = pytest.mark.spark

FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
VISITS = "SELECT owner, count(*) AS n, sum(bytes) AS b FROM video v JOIN log l ON v.id = l.id GROUP BY owner"
OWNED = "SELECT v.id, v.owner, l.line, l.bytes FROM video v JOIN log l ON v.id = l.id"
HOT = "SELECT id, sum(bytes) AS b FROM log GROUP BY id HAVING sum(bytes) > 20"
OFTEN = (cut_off, gone)
MOST = [
    pytest.param(d, marks=() if d in OFTEN else pytest.mark.soak, id=d.__name__)
    for d in DAMAGES
    if d is not a_pipe  # a log that is a pipe holds up whoever opens it, Spark included
]
LOST = {"RESPONSE LIMIT", "SUBSCRIPTION", "UPDATABLE"}
"""What is lost whatever happens to its file but that it goes, and is told."""


@pytest.fixture(scope="module")
def full(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake: a view with a limit, a sketch, a synopsis, two updatable views, a subscription."""
    directory: Path = tmp_path_factory.mktemp("damaged") / "lake"
    with bv.connect(directory) as lake:
        lake.sql(
            f"CREATE TABLE video {FEED} AS SELECT id, concat('o', id % 3) AS owner FROM range(9)"
        )
        lake.sql(
            f"CREATE TABLE log {FEED} AS SELECT id AS line, id % 9 AS id, id % 7 AS bytes FROM range(60)"
        )
        lake.declare_key("video", ["id"])
        lake.declare_key("log", ["line"])
        lake.sql(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
        lake.sql(f"CREATE SKETCH hot ON {HOT} PARTITION log BY id INTO 3 FRAGMENTS")
        lake.sql(f"CREATE SYNOPSIS pairs SAMPLE 1000 ROWS AS {OWNED}")
        for name in ("owned", "stopped"):
            lake.sql(f"CREATE UPDATABLE VIEW {name} AS {OWNED}")
        lake.sql("INSERT INTO log VALUES (60, 1, 5), (61, 99, 5)")
        lake.refresh()
        costs = [
            FittedCost(LinearCost(0.01, 0.1), 0.0, (MeasuredBatch(1, 0.1), MeasuredBatch(9, 0.2)))
        ] * 2
        save_schedule(
            lake._door, Schedule("visits", 60.0, Calibration(("video", "log"), tuple(costs)))
        )
        told = Subscription(
            "told",
            "visits",
            "SELECT n FROM visits",
            every=60.0,
            jsonl=str(directory.parent / "out"),
        )
        subscribe(lake._door, told)
        half = Intent("stopped", 1, (TableCommit("log", lake._door.table("log").version, (), ()),))
        UpdateApplier(lake._door, directory / ".belvedere").write_intent(half)
    return directory


def bag(lake: bv.Lake, text: str) -> Counter[Any]:
    return Counter(tuple(row) for row in lake.sql(text).collect())


def works(lake: bv.Lake, line: int) -> None:
    """Tables, views, queries, refreshes, history and the service are all there."""
    assert bag(lake, "SELECT * FROM visits") == bag(lake, VISITS)
    lake.sql(f"INSERT INTO log VALUES ({line}, 2, 6)")
    assert lake.refresh("visits").strategy == "merge"
    assert bag(lake, "SELECT * FROM visits") == bag(lake, VISITS)
    assert Counter(map(tuple, lake.query(HOT).collect())) == bag(lake, HOT)
    refused = reason_of(lake.refresh)
    assert refused in ("", "HALF_MADE")
    assert lake.history("visits")[0].strategy == "merge"
    assert lake.sql("SELECT count(*) FROM belvedere.refreshes").collect()[0][0] >= 1
    lake.sql("CREATE OR REPLACE VIEW another AS SELECT 1 AS one")
    assert reason_of(lambda: served(lake)) in ("", "NOTHING_TO_KEEP")


def served(lake: bv.Lake) -> None:
    service = lake.serve(log=lambda _: None)
    service.turn()
    service.between()
    service.reload()
    service.after()


def reason_of(work: Callable[[], object]) -> str:
    """Why something is refused; nothing if it is not."""
    try:
        work()
    except Invalid as refused:
        return refused.reason
    return ""


def made_again(lake: bv.Lake) -> None:
    """What was lost can be made again under its name."""
    lake.sql(f"CREATE OR REPLACE SKETCH hot ON {HOT} PARTITION log BY id INTO 3 FRAGMENTS")
    lake.sql(f"CREATE OR REPLACE SYNOPSIS pairs SAMPLE 1000 ROWS AS {OWNED}")
    assert lake.synopsis("pairs").arrow().num_rows == lake.sql(OWNED).count()
    for name in ("owned", "stopped"):
        lake.sql(f"DROP UPDATABLE VIEW IF EXISTS {name}")
        lake.sql(f"CREATE UPDATABLE VIEW {name} AS {OWNED}")
        assert bag(lake, f"SELECT * FROM {name}") == bag(lake, OWNED)
    lake.sql("ALTER MATERIALIZED VIEW visits SET RESPONSE LIMIT 60 SECONDS")
    lake.sql("ALTER MATERIALIZED VIEW visits SET RESPONSE LIMIT NONE")
    lake.sql("DROP MATERIALIZED VIEW visits")


def broken(lake: bv.Lake) -> set[str]:
    return {status.policy for status in lake.status() if status.error}


@pytest.mark.soak
@pytest.mark.parametrize("damage", DAMAGES[:-1], ids=lambda d: d.__name__)
def test_with_any_one_file_damaged_a_lake_opens_and_works(
    full: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    for number, path in enumerate(auxiliary_files(full)):
        if path.endswith(".lock") and damage is a_link:
            continue
        one = copied(full, tmp_path / f"lake{number}")
        damage(one / path)
        with bv.connect(one) as lake:
            works(lake, 100)


@pytest.mark.parametrize("damage", MOST)
def test_with_every_file_damaged_a_lake_opens_and_works(
    full: Path, tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    lake_of = copied(full, tmp_path / "lake")
    for path in auxiliary_files(lake_of):
        if not path.endswith(".lock") or damage is not a_link:
            damage(lake_of / path)
    with caplog.at_level(logging.WARNING, "belvedere"), bv.connect(lake_of) as lake:
        if damage is not gone:
            # Of a file that was cut off after its head the rest is built again.
            states = set() if damage is cut_off else {"SKETCH", "SYNOPSIS"}
            journal = {"HISTORY"} if damage in (cut_off, emptied, a_directory) else set()
            assert LOST | states | journal <= broken(lake)
            assert "ALTER MATERIALIZED VIEW visits SET RESPONSE LIMIT" in caplog.text
            assert "belvedere subscribe VIEW --name told" in caplog.text
        works(lake, 100)
        made_again(lake)
