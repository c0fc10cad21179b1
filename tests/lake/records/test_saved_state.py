"""States saved beside the lake: what was saved is loaded, or it is said to be damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from belvedere.delta.stamps import Position
from belvedere.lake.records.saved_state import Corrupt, Saves

VECTOR = {"log": Position("an id", 7, "a mark"), "video": Position("other", 0)}
ARRAYS = {
    "weights": np.arange(10, dtype=np.int64).reshape(2, 5),
    "bits": np.array([True, False, True]),
    "none": np.empty(0, np.float64),
    "text": np.frombuffer("Zürich".encode(), np.uint8),
    "times": np.array(["2024-01-01", "NaT"], "datetime64[D]"),
}


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    saves = Saves(tmp_path)
    saves.save("synopsis", "my pairs/ü", {"query": "SELECT 1"}, VECTOR, ARRAYS)
    assert saves.names("synopsis") == ["my pairs/ü"]
    assert saves.names("sketch") == []
    head = saves.head("synopsis", "my pairs/ü")
    assert (dict(head.definition), head.vector) == ({"query": "SELECT 1"}, VECTOR)
    arrays = saves.load("synopsis", "my pairs/ü").arrays
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_a_state_replaces_the_one_before_and_those_who_hold_it_keep_it(tmp_path: Path) -> None:
    saves = Saves(tmp_path)
    saves.save("sketch", "hot", {"n": 1}, {}, {"a": np.ones(1000)})
    before = saves.load("sketch", "hot")
    saves.save("sketch", "hot", {"n": 2}, {}, {"a": np.zeros(3)})
    assert saves.load("sketch", "hot").head.definition == {"n": 2}
    assert before.arrays["a"].sum() == 1000
    saves.drop("sketch", "hot")
    assert not saves.has("sketch", "hot")


@pytest.fixture(params=["read", "mapped"], autouse=True)
def _read_or_mapped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "mapped":
        monkeypatch.setattr("belvedere.lake.records.saved_state.READ_UP_TO", 0)


def test_what_was_loaded_stays_when_someone_cuts_the_file_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    saves = Saves(tmp_path)
    saves.save("sketch", "hot", {}, {}, {"a": np.arange(100_000)})
    found = saves.load("sketch", "hot")
    os.truncate(tmp_path / "sketch" / "hot.state", 10)
    assert found.arrays["a"].sum() == 99_999 * 50_000
    assert saves.names("sketch") == []


@pytest.mark.parametrize("place", range(0, 700, 23))
def test_no_flipped_bit_is_used(tmp_path: Path, place: int) -> None:
    saves = Saves(tmp_path)
    saves.save("sketch", "hot", {"n": 1}, VECTOR, ARRAYS)
    (path,) = (tmp_path / "sketch").iterdir()
    whole = bytearray(path.read_bytes())
    whole[place] ^= 4
    path.write_bytes(whole)
    end_of_head = bytes(whole).index(b"}", 40)
    try:
        found = saves.load("sketch", "hot")
    except Corrupt:
        return
    # The bit was in what only fills up to the next multiple.
    assert place > end_of_head
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.arrays[name], array)
    assert found.head.vector == VECTOR


@pytest.mark.parametrize("length", [0, 5, 8, 20, 300, -1])
def test_a_file_cut_short_is_not_used(tmp_path: Path, length: int) -> None:
    saves = Saves(tmp_path)
    saves.save("sketch", "hot", {}, VECTOR, {"a": np.arange(100)})
    (path,) = (tmp_path / "sketch").iterdir()
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Corrupt):
        saves.load("sketch", "hot")


def test_a_later_format_is_not_guessed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = Saves(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("belvedere.lake.records.saved_state.FORMAT", 99)
        saves.save("sketch", "hot", {}, {}, {})
    with pytest.raises(Corrupt, match="format 99"):
        saves.load("sketch", "hot")


def test_killed_while_saving_it_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    saves = Saves(tmp_path)
    saves.save("sketch", "hot", {"n": 0}, {}, {"a": np.full(1 << 20, 0)})
    script = (
        "import sys; from pathlib import Path; import numpy as np;"
        "from belvedere.lake.records.saved_state import Saves; s = Saves(Path(sys.argv[1])); n = 0\n"
        "while True:\n  n += 1; s.save('sketch', 'hot', {'n': n}, {}, {'a': np.full(1 << 20, n)});"
        " print(n, flush=True)"
    )
    for pause in (1, 4):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        for _ in range(pause):
            child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        found = saves.load("sketch", "hot")
        assert (found.arrays["a"] == found.head.definition["n"]).all()
        assert found.head.definition["n"] >= pause
