"""The command line: what it prints, how it ends, and that looking needs no Spark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field

from belvedere.cli import main
from belvedere.derivations import registry
from belvedere.errors import Internal
from tests import small_lake
from tests.lake.damages import DAMAGES


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return small_lake.make(tmp_path / "lake")


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main.main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    code, out, _ = run(capsys, *argv, "--json")
    assert code == 0
    return json.loads(out)


def test_status_shows_vector_pending_and_last_refresh(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_lake.write(lake / "video", {"video_id": [4, 5], "owner": ["c", None]})
    small_lake.write(lake / "video", {"video_id": [6], "owner": ["c"]})
    (owners,) = run_json(capsys, "status", "--lake", str(lake))
    assert owners["name"] == "owners"
    assert owners["vector"] == {"video": 0}
    assert owners["pending"] == {"video": {"versions": 2, "rows": 3}}
    assert (owners["last"]["number"], owners["last"]["strategy"]) == (1, "create")
    assert owners["last"]["seconds"] >= 0
    _, out, _ = run(capsys, "--lake", str(lake), "status")
    assert "2 versions, 3 rows" in out


def test_status_shows_a_replaced_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(lake / "video")
    small_lake.write(lake / "video", {"video_id": [1], "owner": ["a"]})
    (owners,) = run_json(capsys, "status", "--lake", str(lake))
    assert owners["pending"] == {"video": {"versions": None, "rows": None}}


def test_a_view_over_a_view_is_shown_by_its_name(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT max(n) AS most FROM owners"
    small_lake.view(lake, "Most", query, {"most": "bigint"}, ["__bv_owners"])
    small_lake.refresh(lake, "owners", 2, ["video"])
    owners, most = run_json(capsys, "status", "--lake", str(lake))
    assert (owners["name"], most["name"]) == ("owners", "Most")
    assert most["pending"] == {"owners": {"versions": 1, "rows": 1}}
    assert run_json(capsys, "describe", "most", "--lake", str(lake))["reads"] == "owners"


def test_history_is_newest_first(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_lake.write(lake / "video", {"video_id": [4], "owner": ["c"]})
    small_lake.refresh(lake, "owners", 2, ["video"])
    found = run_json(capsys, "history", "owners", "--lake", str(lake))
    assert [(r["number"], r["strategy"], r["vector"]) for r in found] == [
        (2, "merge", {"video": 1}),
        (1, "create", {"video": 0}),
    ]
    _, out, _ = run(capsys, "history", "owners", "--lake", str(lake))
    assert out.splitlines()[2].split()[:2] == ["2", "1"]


def test_show_describe_and_explain(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = run_json(capsys, "show", "--lake", str(lake))
    assert shown == {
        "name": "owners",
        "policy": "AUTO",
        "query": small_lake.OWNERS,
        "error": "",
    }
    described = run_json(capsys, "describe", "OWNERS", "--lake", str(lake))
    assert described["columns"] == {"owner": "string", "n": "bigint"}
    explained = run_json(capsys, "explain", "owners", "--lake", str(lake))
    assert explained["parts"]["Incremental"] == "video: yes, merge"
    for command in (["show"], ["describe", "owners"], ["explain", "owners"]):
        code, out, _ = run(capsys, *command, "--lake", str(lake))
        assert code == 0
        assert "owner" in out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["describe", "ownres"], "did you mean 'owners'?"),
        (["history", "video"], "is not a materialized view"),
        (["explain", "no such"], "no table or view"),
        (["refresh", "ownres"], "did you mean 'owners'?"),
        (["advance", "log", "video"], "is not a materialized view"),
        (["explain", "-e", "SELECT 1"], "takes a CREATE MATERIALIZED VIEW"),
        (["sql", "-e", "SELECT 'unfinished"], "error: "),
        (["sql", "missing.sql"], "cannot read missing.sql"),
        (["sql", "-e", "SELECT 1", "missing.sql"], "both -e and a file"),
    ],
)
def test_an_error_has_no_stack_trace_and_starts_no_spark(
    lake: Path, capsys: pytest.CaptureFixture[str], command: list[str], said: str
) -> None:
    code, out, err = run(capsys, *command, "--lake", str(lake))
    assert (code, out) == (1, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("table", ["__bv_owners", "video"])
@pytest.mark.parametrize("damage", DAMAGES[:-1], ids=lambda d: d.__name__)
def test_a_damaged_log_is_reported_in_one_line(
    lake: Path, capsys: pytest.CaptureFixture[str], table: str, damage: Callable[[Path], None]
) -> None:
    damage(newest_commit(lake / table))
    for command in (["describe", "owners"], ["history", "owners"], ["explain", "owners"]):
        code, _, err = run(capsys, *command, "--lake", str(lake))
        assert code in (0, 1)
        assert "<unknown>" not in err
        assert "Traceback" not in err
        assert code == 0 or "cannot be read" in err or "no table" in err
    for command in (["status"], ["show"], ["status", "--json"]):
        code, out, _ = run(capsys, *command, "--lake", str(lake))
        assert code == 0
        assert "<unknown>" not in out


def newest_commit(root: Path) -> Path:
    return max((root / "_delta_log").glob("*.json"))


def test_a_missing_lake_is_an_error_and_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELVEDERE_LAKE", str(tmp_path / "nowhere"))
    for command in (["status"], ["show"], ["describe", "v"], ["history", "v"], ["refresh"]):
        code, _, err = run(capsys, *command)
        assert code == 1
        assert "no lake at" in err
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_lake_has_no_views(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "status", "--lake", str(tmp_path)) == []
    assert run(capsys, "refresh", "--lake", str(tmp_path))[0] == 0


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["advance", "v"], ["explain"]])
def test_wrong_usage_ends_with_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(argv)
    assert ended.value.code == 2


def test_help_documents_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["refresh", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main.main(argv)
        assert ended.value.code == 0
        assert "130  interrupted" in capsys.readouterr().out


COMMANDS = (
    "sql refresh advance explain status show describe history estimate clean sampling-plan"
    " calibrate plan serve subscribe unsubscribe subscriptions synopsis query demo"
).split()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([command, "--help"])
    assert ended.value.code == 0
    assert f"belvedere {command}" in capsys.readouterr().out


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    listed = re.findall(r"^    ([a-z-]+)(?: |$)", capsys.readouterr().out, re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("oh"), 3, "internal error: RuntimeError: oh"),
        (Internal("oh"), 3, "Please report it"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_bug_and_an_interruption_have_their_own_codes(
    lake: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(registry, "status", fail)
    found, _, err = run(capsys, "status", "--lake", str(lake))
    assert found == code
    assert said in err
    assert "Traceback" not in err
    monkeypatch.setenv("BELVEDERE_DEBUG", "1")
    assert "Traceback" in run(capsys, "status", "--lake", str(lake))[2]


def test_a_view_whose_table_is_gone_hides_no_other(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_lake.view(lake, "total", "SELECT sum(bytes) AS b FROM log", {"b": "bigint"}, ["log"])
    shutil.rmtree(lake / "log")
    owners, total = run_json(capsys, "status", "--lake", str(lake))
    assert (owners["name"], owners["error"]) == ("owners", "")
    assert total["name"] == "total"
    assert "no table or view 'log'" in total["error"]
    code, _, err = run(capsys, "describe", "total", "--lake", str(lake))
    assert code == 1
    assert "no table or view 'log'" in err
    code, _, err = run(capsys, "refresh", "total", "--lake", str(lake))
    assert code == 1
    assert "no table or view 'log'" in err


@pytest.mark.parametrize("record", ["", "{", "[]", '{"format": 99}', '{"format": 1, "id": 3}'])
def test_a_corrupt_definition_hides_no_other_view(
    lake: Path, capsys: pytest.CaptureFixture[str], record: str
) -> None:
    carried = small_lake.stamp(lake, "id", 1, ["log"])
    small_lake.store(lake, "odd name", record, carried)
    found = run_json(capsys, "status", "--lake", str(lake))
    assert [s["name"] for s in found] == ["owners", "odd name"]
    assert "definition" in found[1]["error"]
    code, _, err = run(capsys, "explain", "`odd name`", "--lake", str(lake))
    assert code == 1
    assert "CORRUPT_DEFINITION" in err


def test_a_column_that_a_table_gains_is_not_of_an_older_view(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {"video_id": "bigint", "bytes": "bigint"}
    small_lake.view(lake, "every", "SELECT * FROM log", columns, ["log"])
    DeltaTable(str(lake / "log")).alter.add_columns([Field("more", "string")])
    assert run_json(capsys, "describe", "every", "--lake", str(lake))["columns"] == columns
    owners, every = run_json(capsys, "status", "--lake", str(lake))[::-1]
    assert (owners["error"], every["pending"]["log"]) == ("", {"versions": 1, "rows": 0})


def test_a_column_that_a_table_loses_is_named(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(lake / "video")
    small_lake.write(lake / "video", {"video_id": [1]})
    code, _, err = run(capsys, "describe", "owners", "--lake", str(lake))
    assert code == 1
    assert "has no column 'owner' any more, which 'owners' reads" in err


def test_views_that_read_each_other_are_both_broken(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_lake.view(lake, "b", "SELECT n FROM owners", {"n": "bigint"}, ["__bv_owners"])
    shutil.rmtree(lake / "__bv_owners")
    query = "SELECT n FROM b"
    record = json.dumps(
        {
            "format": 1,
            "id": "x",
            "name": "owners",
            "query": query,
            "policy": "AUTO",
            "settings": {},
            "columns": [["n", "bigint"]],
            "types": {},
        }
    )
    small_lake.store(lake, "owners", record, small_lake.stamp(lake, "x", 1, ["__bv_b"]))
    found = run_json(capsys, "show", "--lake", str(lake))
    assert {s["name"] for s in found} == {"b", "owners"}
    assert all("reads itself" in s["error"] for s in found)


def test_commands_that_read_logs_do_not_load_spark(lake: Path) -> None:
    script = (
        "import sys; from belvedere.cli.main import main\n"
        "for command in (['status'], ['show'], ['describe', 'owners'], ['history', 'owners'],"
        " ['explain', 'owners']):\n"
        f"    assert main([*command, '--lake', {str(lake)!r}]) == 0\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)


def test_closed_output_is_no_error(lake: Path) -> None:
    command = (
        f"{sys.executable} -m belvedere status --lake '{lake}' | true; exit ${{PIPESTATUS[0]}}"
    )
    ended = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
