"""One Spark session for a test run, bounded, and a lake of its own for each test that asks."""

from __future__ import annotations

import functools
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from belvedere.execution import costs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from belvedere.lake.spark_lake import SparkLake

# In the environment, so that processes which tests start are bounded too.
# The data is tiny: compiling and adapting plans costs more than running them. A heap that begins
# small spends a tenth of the time on collecting its garbage.
os.environ.setdefault(
    "BELVEDERE_SPARK",
    "spark.master=local[2] spark.driver.memory=3g spark.sql.shuffle.partitions=2 spark.databricks.delta.snapshotPartitions=1"
    " spark.driver.extraJavaOptions='-XX:+UseSerialGC -Xms2g -Xmn800m'"
    " spark.sql.adaptive.enabled=false spark.sql.codegen.wholeStage=false spark.sql.codegen.factoryMode=NO_CODEGEN",
)


# The same few random examples in every run, or new ones under --deep.
_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
_TRIED = pytest.StashKey[Counter[str]]()
settings.register_profile("default", max_examples=40, derandomize=True, **_COMMON)
settings.register_profile("deep", max_examples=300, print_blob=True, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run what is too long for every run too")
    parser.addoption(
        "--deep",
        type=float,
        default=0,
        metavar="SECONDS",
        help="try the properties on new random examples for that long, all together",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("deep" if config.getoption("--deep") else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Under --deep a property is tried on new examples until its share of the time is over."""
    seconds: float = pyfuncitem.config.getoption("--deep")
    if not seconds or not _is_property(pyfuncitem):
        return None
    properties = [item for item in pyfuncitem.session.items if _is_property(item)]
    end = time.monotonic() + seconds / len(properties)
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    counter = pyfuncitem.config.stash.setdefault(_TRIED, Counter())
    inner = pyfuncitem.obj.hypothesis.inner_test

    @functools.wraps(inner)
    def counted(*args: Any, **kwargs: Any) -> None:
        counter[pyfuncitem.nodeid] += 1
        inner(*args, **kwargs)

    pyfuncitem.obj.hypothesis.inner_test = counted
    try:
        while time.monotonic() < end:
            pyfuncitem.obj(**arguments)
    finally:
        pyfuncitem.obj.hypothesis.inner_test = inner
    return True


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """How many examples each property was tried on under --deep."""
    for name, count in config.stash.get(_TRIED, Counter()).items():
        terminalreporter.write_line(f"{count:>9} examples of {name}")


def _is_property(item: pytest.Item) -> bool:
    return is_hypothesis_test(getattr(item, "obj", None))


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
    from belvedere.lake.sessions import session

    yield session.embedded()
    session.stop()


@pytest.fixture
def door(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLake]:
    """An empty lake in a directory of its own."""
    from belvedere.lake.spark_lake import open_directory

    opened = open_directory(tmp_path / "lake")
    yield opened
    opened.close()
