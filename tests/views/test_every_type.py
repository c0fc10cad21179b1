"""Views over columns of every type, of rows that every writer wrote, through changes drawn by a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv
from tests.views.typed_tables import WRITERS, TypedTable

pytestmark = pytest.mark.spark

SEEDS = (1, pytest.param(2, marks=pytest.mark.soak))
VIEWS = 4
SOAK_SECONDS = 600


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("types")


@pytest.fixture(scope="module")
def lake(directory: Path) -> Iterator[bv.Lake]:
    with bv.connect(directory) as lake:
        yield lake


def follow(table: TypedTable, views: int, changes: int) -> None:
    """Views of a table are what their queries are, after it is made and after each change."""
    table.create(views)
    assert not table.refused
    assert table.problems() == []
    writers = random.Random(table.seed).sample(WRITERS, changes)
    for writer in writers:
        table.change(writer)
        for name in table.views:
            table.lake.refresh(name)
        assert table.problems() == [], f"seed {table.seed}, after {writer} of {writers}"


@pytest.mark.parametrize("seed", SEEDS)
def test_views_of_every_type_follow_every_writer(lake: bv.Lake, directory: Path, seed: int) -> None:
    follow(TypedTable(lake, directory, seed), VIEWS, 2)


@pytest.mark.soak
def test_views_of_every_type_follow_every_writer_for_long(
    lake: bv.Lake, directory: Path, pytestconfig: pytest.Config
) -> None:
    end = time.monotonic() + (pytestconfig.getoption("--deep") or SOAK_SECONDS)
    seed = 1000
    while time.monotonic() < end:
        table = TypedTable(lake, directory, seed)
        follow(table, 9, len(WRITERS))
        table.drop()
        seed += 1
