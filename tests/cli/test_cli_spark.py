"""The commands that need Spark, in one go on one lake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from belvedere.cli import main

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE TABLE video AS SELECT id AS video_id, 'a;b' AS owner FROM range(3); -- one; comment
CREATE MATERIALIZED VIEW owners AS SELECT owner, count(*) AS n FROM video GROUP BY owner;
INSERT INTO video VALUES (9, NULL);
"""


def test_a_script_a_refresh_a_result_and_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--lake", str(tmp_path / "lake")]
    script = tmp_path / "make.sql"
    script.write_text(SCRIPT)

    assert main.main(["sql", str(script), *at]) == 0
    assert capsys.readouterr().out.splitlines() == ["ok"] * 3

    assert main.main(["refresh", "--json", *at]) == 0
    (done,) = json.loads(capsys.readouterr().out)
    assert (done["strategy"], done["vector_after"]) == ("merge", {"video": 1})

    assert main.main(["advance", "owners", "video", *at]) == 0
    assert capsys.readouterr().out.startswith("owners: nothing")

    query = "SELECT * FROM owners ORDER BY owner"
    assert main.main(["sql", "-e", query, "--json", *at]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"owner": None, "n": 1}, {"owner": "a;b", "n": 3}]
    assert main.main(["sql", "-e", query, "--rows", "1", *at]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["NULL   1", "(1 row, and more)"]

    text = "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT owner FROM video"
    assert main.main(["explain", "-e", text, *at]) == 0
    assert "video: yes, merge" in capsys.readouterr().out

    for mistake in ("SELECT ownr FROM video", "SELECT 1 / 0", "DROP TABLE video", "nonsense"):
        assert main.main(["sql", "-e", mistake, *at]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert "Traceback" not in err
        assert "org.apache" not in err
