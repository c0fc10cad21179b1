"""belvedere synopsis: a saved sample shown and asked without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.cli.main import main
from belvedere.lake.offline import OfflineLake
from belvedere.lake.records.saved_state import Saves
from belvedere.synopses.definition import SynopsisDefinition, planned_of
from belvedere.synopses.kind import SAVED_AS
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.saving import to_arrays
from belvedere.synopses.state import SynopsisState


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of two tables with a synopsis of their join."""
    tables = {
        "r": pa.table({"k": pa.array([1, 2, 2], pa.int32()), "a": pa.array([5, 6, 7], pa.int32())}),
        "s": pa.table({"k": pa.array([1, 2], pa.int32()), "b": pa.array([1, 2], pa.int32())}),
    }
    for name, rows in tables.items():
        write_deltalake(str(tmp_path / name), rows)
    shelf = OfflineLake(tmp_path)
    reads = {name: dict.fromkeys(rows.column_names, "int") for name, rows in tables.items()}
    query = "SELECT a, b FROM r JOIN s ON r.k = s.k"
    definition = SynopsisDefinition("pairs", query, SampleKind(rows=10), 1, {}, reads)
    results = SampleResults(
        SynopsisState(planned_of(shelf, definition), definition.kind, seed=1), 1
    )
    for name, rows in tables.items():
        results.change(name, None, rows)
    vector = {name: shelf.table(name).position for name in tables}
    saves = Saves(tmp_path / ".belvedere")
    saves.save(SAVED_AS, "pairs", definition.record(), vector, to_arrays(results.maintained))
    return tmp_path


def test_it_shows_the_sample_and_what_is_known(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["synopsis", "pairs", "--lake", str(lake), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted((r["a"], r["b"]) for r in found["rows"]) == [(5, 1), (6, 2), (7, 2)]
    assert found["facts"]["join results"] == "3"


def test_it_answers(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["synopsis", "pairs", "--lake", str(lake), "--estimate", "sum(a)", "--by", "b"]) == 0
    )
    assert capsys.readouterr().out == "1 5\n2 13\n"


def test_an_unknown_name_is_told(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synopsis", "pears", "--lake", str(lake)]) == 1
    assert "did you mean 'pairs'" in capsys.readouterr().err


def test_status_shows_it_without_spark(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--lake", str(lake)]) == 0
    assert "pairs" in capsys.readouterr().out
