"""The sampling plan of a view: from what is recorded of it, or from what the user gives."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from belvedere.cli import main
from belvedere.derivations.ledger import Ledger, Record
from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.samples.periodic import JobCost, MaintenanceLoad, best_plan, refreshes_only
from belvedere.samples.sampling_plan import arrival_rate, sampling_plan
from belvedere.views.catalog import the_view
from belvedere.views.sampling import Sampling
from tests import small_lake

START = datetime(2026, 1, 1, tzinfo=UTC)


def date_commit(root: Path, version: int, time: datetime) -> None:
    """Change the time of a commit."""
    file = root / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int(time.timestamp() * 1000)
    file.write_text("\n".join(json.dumps(action) for action in actions))


def arrive(lake: Path, version: int, rows: int, second: float) -> None:
    """Rows of `video`, so many seconds after the start."""
    small_lake.write(lake / "video", {"video_id": [7] * rows, "owner": ["c"] * rows})
    date_commit(lake / "video", version, START + timedelta(seconds=second))


def sample(lake: Path, ratio: float) -> None:
    """A sample of `owners`, as its stored table remembers it."""
    definition = the_view(OfflineLake(lake), "owners").definition
    sampling = Sampling("owners", ("owner",), True, ratio, 0)
    own = replace(definition, id=str(uuid.uuid4()), name="owners_sample", sample=sampling.to_dict())
    small_lake.store(lake, own.name, own.to_json(), small_lake.stamp(lake, own.id, 1, ["video"]))


def record(lake: Path, view: str, jobs: Sequence[tuple[str, int, float]]) -> None:
    """Refreshes in the ledger: strategy, changed rows, seconds."""
    shelf = OfflineLake(lake)
    with Ledger(shelf.journal) as ledger:
        for number, (strategy, rows, seconds) in enumerate(jobs, 2):
            ledger.add(
                Record(
                    view=view,
                    view_id=the_view(shelf, view).definition.id,
                    refresh=number,
                    started=START + timedelta(minutes=number),
                    seconds=seconds,
                    strategy=strategy,
                    reason="",
                    candidates=(),
                    rows=1,
                    pending={"video": rows},
                    jobs=None,
                    bytes_read=None,
                    vector_before={},
                    vector_after={},
                    version=None,
                    engine="",
                )
            )


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A view with a sample of 10 percent: 1000 rows arrive in 10 seconds, costs are recorded."""
    made = small_lake.make(tmp_path / "lake")
    sample(made, 0.1)
    for version, (rows, second) in enumerate(((5, 0), (400, 4), (600, 10)), 1):
        arrive(made, version, rows, second)
    record(made, "owners", [("merge", 1000, 11.0), ("rebuild", 10**6, 99.0), ("merge", 2000, 12.0)])
    record(made, "owners_sample", [("merge", 1000, 2.1), ("replace keys", 3000, 2.3)])
    return made


def test_costs_come_from_the_records_and_the_rate_from_the_tables_histories(lake: Path) -> None:
    plan = sampling_plan(OfflineLake(lake), "owners")
    assert plan.load.rate == pytest.approx(100)
    assert plan.load.refresh.fixed == pytest.approx(10)
    assert plan.load.refresh.per_row == pytest.approx(0.001)
    assert plan.load.clean.fixed == pytest.approx(2)
    assert plan.load.clean.per_row == pytest.approx(0.001)
    assert plan.notes == ()
    assert plan.best == best_plan(plan.load)
    assert plan.refreshes_only == refreshes_only(plan.load)
    assert plan.current is not None
    assert plan.current.ratio == 0.1
    assert plan.best.error <= plan.current.error


def test_what_the_user_gives_takes_the_place_of_what_is_recorded(tmp_path: Path) -> None:
    made = small_lake.make(tmp_path / "lake")
    plan = sampling_plan(
        OfflineLake(made),
        "owners",
        rate=1000,
        refresh_cost=(30, 4e-4),
        clean_cost=(2, 2e-4),
        spread=2.0,
    )
    assert plan.load == MaintenanceLoad(1000, JobCost(30, 4e-4), JobCost(2, 2e-4), 2.0)
    assert plan.current is None
    assert plan.pays
    assert f"RATIO {100 * plan.best.ratio:.3g} PERCENT" in str(plan)
    with pytest.raises(Invalid, match="no sample"):
        plan.run(object(), 1)  # type: ignore[arg-type]


def test_cleanings_as_slow_as_refreshes_do_not_pay(lake: Path) -> None:
    plan = sampling_plan(OfflineLake(lake), "owners", clean_cost=(10, 0.1))
    assert not plan.pays
    assert "do not pay" in str(plan)


def test_batches_of_one_size_are_noted(lake: Path) -> None:
    made = small_lake.make(lake.parent / "other")
    sample(made, 0.1)
    record(made, "owners", [("merge", 1000, 11.0), ("merge", 1200, 12.0)])
    plan = sampling_plan(OfflineLake(made), "owners", rate=10, clean_cost=(1, 0.001))
    assert plan.load.refresh.per_row == pytest.approx(0.005)
    (note,) = plan.notes
    assert "every recorded refresh of owners was of about 1,200 rows" in note


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"rate": 0.0}, "BAD_VALUE"),
        ({"rate": float("nan")}, "BAD_VALUE"),
        ({"spread": -1.0}, "BAD_VALUE"),
        ({"refresh_cost": (0.0, 1.0)}, "BAD_VALUE"),
        ({"clean_cost": (1.0, -1.0)}, "BAD_VALUE"),
        ({"rate": 1e9}, "TOO_SLOW"),
    ],
)
def test_values_that_mean_nothing_are_refused(
    lake: Path, given: dict[str, float], reason: str
) -> None:
    with pytest.raises(Invalid) as refused:
        sampling_plan(OfflineLake(lake), "owners", **given)  # type: ignore[arg-type]
    assert refused.value.reason == reason
    assert refused.value.hint


def test_a_cost_that_is_neither_recorded_nor_given_is_an_error(tmp_path: Path) -> None:
    made = small_lake.make(tmp_path / "lake")
    shelf = OfflineLake(made)
    with pytest.raises(Invalid, match="'owners' has no sample") as refused:
        sampling_plan(shelf, "owners")
    assert refused.value.reason == "NO_SAMPLE"
    sample(made, 0.5)
    with pytest.raises(Invalid, match="no refresh of 'owners' from changes is recorded") as refused:
        sampling_plan(shelf, "owners")
    assert refused.value.reason == "NOT_MEASURED"
    record(made, "owners", [("merge", 10, 1.0)])
    with pytest.raises(Invalid, match="no cleaning of 'owners_sample'") as refused:
        sampling_plan(shelf, "owners")
    assert refused.value.reason == "NOT_MEASURED"
    with pytest.raises(Invalid, match="fewer than two changes") as refused:
        arrival_rate(shelf, the_view(shelf, "owners"))
    assert refused.value.reason == "NO_CHANGES"


def test_the_command_prints_the_plan(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--lake", str(lake)]
    assert main.main(["sampling-plan", "owners", *at]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("100 changed rows arrive in a second\n")
    for line in ("refreshes only", "the present sample", "best ratio"):
        assert line in shown
    given = ["--rate", "50", "--refresh-cost", "20,0.001", "--clean-cost", "1,0.001"]
    assert main.main(["sampling-plan", "owners", *given, "--json", *at]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["load"]["refresh"] == {"fixed": 20.0, "per_row": 0.001}
    assert found["best"]["error"] <= found["current"]["error"]
    assert main.main(["sampling-plan", "owners", "--rate", "-1", *at]) == 1
    assert "[BAD_VALUE]" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main.main(["sampling-plan", "owners", "--clean-cost", "1", *at])
