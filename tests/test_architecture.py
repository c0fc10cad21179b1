"""The walks of docs/architecture.md, compared with traces of the calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from belvedere.sketches.upkeep import Upkeep
from tests.derivations.events.kinds_without_spark import (
    HOT,
    SketchWithoutSpark,
    SynopsisWithoutSpark,
    captured,
)
from tests.derivations.events.table_events import EventTables
from tests.derivations.refresh_without_spark import LakeOfVisits
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
        derived._service.found(HOT)
    derived.assert_matches(tables.all_rows())
    return trace


def insert(directory: Path) -> Trace:
    offline_lake.make(directory)
    row = {"customer": 2, "name": "bob", "orders": 20, "day": 9, "line": 300, "item": "z"}
    with traced() as trace:
        offline_lake.update(directory, insert=row)
    assert tuple(row.values()) in offline_lake.view(directory)
    return trace


WALKS: dict[str, Callable[[Path], Trace]] = {
    "A refresh of a view": view,
    "A refresh of a synopsis": synopsis,
    "A query through a sketch": sketch,
    "An INSERT through an updatable view": insert,
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
