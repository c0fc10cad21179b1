"""The walks of docs/architecture.md, compared with traces of the calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from belvedere.lake.spark_lake import SparkLake
from belvedere.scheduling.serve.service import SchedulingService
from belvedere.sketches.upkeep import Upkeep
from belvedere.sql.statements.parser import parse_statement
from belvedere.sql.statements.views import CreateView
from belvedere.views.create import create_view
from tests.derivations.events.kinds_without_spark import (
    HOT,
    SketchWithoutSpark,
    SynopsisWithoutSpark,
    captured,
)
from tests.derivations.events.table_events import EventTables
from tests.derivations.refresh_without_spark import COLUMNS, VISITS, LakeOfVisits, NoJobs
from tests.reference.laws import ask
from tests.scheduling.scheduled_lake import Stand, add, make
from tests.trace import ROOT, Trace, traced
from tests.updating import offline_lake

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()


def view(directory: Path) -> Trace:
    lake = LakeOfVisits(directory)
    for _ in range(2):
        lake.tables.change()
        with traced() as trace:
            assert lake.refresh().strategy == "merge"
    return trace


def synopsis(directory: Path) -> Trace:
    tables = EventTables(directory).fill()
    derived = SynopsisWithoutSpark(directory)
    tables.change()
    with traced() as trace:
        derived.refresh()
    derived.assert_matches(tables.all_rows())
    return trace


def sketch(directory: Path) -> Trace:
    tables = EventTables(directory).fill()
    derived = SketchWithoutSpark(directory)
    tables.change()
    with traced() as trace:
        derived._service.route(HOT)
    derived.assert_matches(tables.all_rows())
    return trace


def insert(directory: Path) -> Trace:
    offline_lake.make(directory)
    row = {"customer": 2, "name": "bob", "orders": 20, "day": 9, "line": 300, "item": "z"}
    with traced() as trace:
        offline_lake.update(directory, insert=row)
    assert tuple(row.values()) in offline_lake.view(directory)
    return trace


def create(directory: Path) -> Trace:
    """Types come from DuckDB; the statement that creates the table finds no Spark."""
    EventTables(directory).fill()
    lake = LakeWithTypes(NoJobs(), directory)  # type: ignore[arg-type]
    lake.registered |= {path.name for path in directory.iterdir()}
    with traced() as trace:
        statement = parse_statement(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
        assert isinstance(statement, CreateView)
        with pytest.raises(AssertionError, match="Spark was asked"):
            create_view(lake, statement)
    return trace


class LakeWithTypes(SparkLake):
    """A lake that types expressions without Spark."""

    def exists(self, name: str) -> bool:
        return name in ("log", "video")

    def types(self, expressions: Any, columns: Any, settings: Any = None) -> dict[str, str]:
        return ask(expressions, columns)

    def output_schema(self, sql: str, settings: Any = None) -> list[tuple[str, str]]:
        return list(COLUMNS)


def serve(directory: Path) -> Trace:
    stand = Stand(make(directory, "v", limit=4.0))
    service = SchedulingService(stand, stand.shelf, clock=stand.clock, every=1.0, policy="ONLINE")
    service.turn()
    with traced() as trace:
        for _ in range(30):
            add(directory, "video", 12)
            add(directory, "log", 1)
            stand.now += 1.0
            service.turn()
    assert stand.did
    return trace


WALKS: dict[str, Callable[[Path], Trace]] = {
    "CREATE MATERIALIZED VIEW": create,
    "A refresh of a view": view,
    "A refresh of a synopsis": synopsis,
    "A query through a sketch": sketch,
    "An INSERT through an updatable view": insert,
    "`serve`": serve,
}


def steps(walk: str) -> Iterator[tuple[str, str]]:
    """The files and functions that a walk names, in order."""
    file = ""
    text = PAGE.split(f"\n## {walk}\n")[1].split("\n## ")[0]
    for line in re.findall(r"(?m)^\d+\. .*$", text):
        for name in re.findall(r"`([^`]+)`", line):
            if name.endswith(".py"):
                file = name
            else:
                yield file, name


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_names_what_the_call_enters_in_order(
    walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Upkeep, "capture", captured)
    order = {entered: n for n, entered in enumerate(WALKS[walk](tmp_path).functions)}
    named = list(steps(walk))
    assert named
    missing = [step for step in named if step not in order]
    assert not missing, f"not entered: {missing}"
    places = [order[step] for step in named]
    assert places == sorted(places), [s for _, s in sorted(zip(places, named, strict=True))]


def test_every_file_and_function_of_the_page_is_there() -> None:
    for walk in re.findall(r"(?m)^## (.*)$", PAGE):
        for file, name in steps(walk):
            assert f"def {name.split('.')[-1]}(" in (ROOT / file).read_text(), (file, name)
