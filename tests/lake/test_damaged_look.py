"""A lake that was written without Spark, any one file beside its tables damaged: who looks sees the rest."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import pytest

from belvedere.cli.main import main
from belvedere.derivations.ledger import Ledger, Record
from belvedere.derivations.status import history
from belvedere.lake.offline import OfflineLake
from belvedere.scheduling.notify.notifier import Notifier
from belvedere.scheduling.notify.subscriptions import (
    Subscription,
    subscribe,
    subscriptions,
)
from belvedere.scheduling.schedules import Schedule, save_schedule, schedules
from belvedere.updating.apply.base_changes import Intent, TableCommit
from belvedere.views.catalog import all_views
from tests.lake.damages import DAMAGES, a_directory, a_link, auxiliary_files, copied, cut_off, gone
from tests.scheduling import scheduled_lake
from tests.scheduling.notify.test_subscriptions import Fake
from tests.updating import offline_lake

QUERY = "SELECT n FROM owners"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Limits, subscriptions, a history, updatable views, an update that was killed, locks."""
    lake: Path = tmp_path_factory.mktemp("look") / "lake"
    shelf = scheduled_lake.make(lake, "v", "w")
    for name in ("a", "b"):
        out = str(lake.parent / f"{name}.jsonl")
        subscribe(shelf, Subscription(name, "owners", QUERY, every=60.0, jsonl=out))
    assert Notifier(shelf, Fake()).turn() == 2
    with Ledger(shelf.journal) as ledger:
        (view,) = [v for v in all_views(shelf) if v.name == "owners"]
        began = datetime.now(UTC)
        ledger.add(Record("owners", view.definition.id, 1, began, 1.0, "merge", "", (), 1, {}, 1, 1, {}, {}, 1, ""))  # fmt: skip
    offline_lake.make(lake)
    half = TableCommit(
        "item", shelf.table("item").version, (), ({"line": 1, "orders": 1, "item": "x"},)
    )
    offline_lake.applying(shelf).write_intent(Intent("contacts", 1, (half,)))
    return lake


def run(lake: Path, *command: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*command, "--lake", str(lake)])
    assert code in (0, 1), err.getvalue()
    return code, out.getvalue() + err.getvalue()


def files(lake: Path) -> list[str]:
    """What is beside the tables; of the locks one."""
    return [p for p in auxiliary_files(lake) if not p.endswith(".lock") or "schedule-v" in p]


def lines(text: str) -> set[str]:
    """The lines of a listing, whatever the widths of its columns."""
    return {" ".join(line.split()) for line in text.splitlines()}


OFTEN = (cut_off, gone, a_directory)
SOME = [
    pytest.param(d, marks=() if d in OFTEN else pytest.mark.soak, id=d.__name__)
    for d in DAMAGES[:-1]
]


@pytest.mark.parametrize("damage", SOME)
def test_whoever_looks_at_a_lake_with_any_one_file_damaged_sees_the_rest(
    full: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    whole = lines(run(full, "status")[1])
    for path in files(full):
        if path.endswith(".lock") and damage is a_link:
            continue  # told by its name
        lake = copied(full, tmp_path / "lake")
        damage(lake / path)
        shelf = OfflineLake(lake)
        kept, told = {s.view for s in schedules(shelf)}, {s.id for s in subscriptions(shelf)}
        assert {"v", "w"} - kept == (
            {Path(path).stem} if "schedule" in path and ".lock" not in path else set()
        )
        lost = {Path(path).stem} if "/subscription/" in path else set()
        assert {"a", "b"} - told == lost
        code, text = run(lake, "status")
        assert code == 0
        named = ("schedule/", "subscription/", "notice/", "updating/")
        if any(f".belvedere/{kind}" in path for kind in named) and damage is not gone:
            assert "hint: " in text, path
        views = {line for line in whole if line.startswith(("owners", "v ", "w "))}
        assert len(views) == 3
        assert views <= lines(text)
        assert len(history(shelf, "owners")) >= 1
        assert run(lake, "subscriptions")[0] == 0
        save_schedule(shelf, Schedule("v", 9.0))
        assert [s.limit for s in schedules(shelf) if s.view == "v"] == [9.0]
