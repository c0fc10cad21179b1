"""One Spark session for a test run, bounded, and a lake of its own for each test that asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from belvedere.views import costs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from belvedere.lake.door import Door

# In the environment, so that processes which tests start are bounded too.
# The data is tiny: compiling and adapting plans costs more than running them. A heap that begins
# small spends a tenth of the time on collecting its garbage.
os.environ.setdefault(
    "BELVEDERE_SPARK",
    "spark.master=local[2] spark.driver.memory=3g spark.sql.shuffle.partitions=2 spark.databricks.delta.snapshotPartitions=1"
    " spark.driver.extraJavaOptions='-XX:+UseSerialGC -Xms2g -Xmn800m'"
    " spark.sql.adaptive.enabled=false spark.sql.codegen.wholeStage=false spark.sql.codegen.factoryMode=NO_CODEGEN",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run what is too long for every run too")
    parser.addoption(
        "--deep",
        type=float,
        default=0,
        metavar="SECONDS",
        help="try the properties on new random examples for that long, all together",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        skip = pytest.mark.skip(reason="runs with --soak")
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def _changes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refreshes of tiny tables happen to take decides nothing: no rebuild is worth it."""
    monkeypatch.setattr(costs, "WORTH_IT", 0.0)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The embedded session that all lakes of the run share."""
    from belvedere.lake import session

    yield session.embedded()
    session.stop()


@pytest.fixture
def door(spark: SparkSession, tmp_path: Path) -> Iterator[Door]:
    """An empty lake in a directory of its own."""
    from belvedere.lake.door import open_directory

    opened = open_directory(tmp_path / "lake")
    yield opened
    opened.close()
