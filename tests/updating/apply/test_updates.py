"""Updates through a view on Delta tables: exactly what is asked, or a refusal that changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.declared_keys import FOREIGN_KEYS_PROPERTY
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.side_effects.check_update import check_in_mode
from belvedere.updating.side_effects.checks import UpdateCheck
from tests.updating import offline_lake
from tests.updating.apply.kill_script import ROW
from tests.updating.offline_lake import put_property, rows, update, view


def check(directory: Path, mode: str = "AUTO", **asked: Any) -> UpdateCheck:
    shelf = OfflineLake(directory)
    wanted = ViewUpdate.of(asked.get("insert"), asked.get("delete"), asked.get("update"))
    return check_in_mode(shelf, offline_lake.fresh(shelf), wanted, mode)


def test_an_insertion_reuses_base_rows_that_are_there(lake: Path) -> None:
    before = view(lake)
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 300, "item": "n"}
    assert check(lake, insert=row).how == "schema"
    assert update(lake, insert=row).tables == (("item", 0, 1),)
    assert view(lake) == before | {tuple(row.values())}


def test_an_insertion_with_side_effects_is_refused_with_the_rows_and_their_cause(
    lake: Path,
) -> None:
    before = rows(lake)
    row = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    assert check(lake, insert=row).possible == "no"
    with pytest.raises(Invalid, match="would change 1") as refused:
        update(lake, insert=row)
    assert refused.value.reason == "SIDE_EFFECTS"
    assert "line=103" in refused.value.detail
    assert rows(lake) == before


def test_side_effects_that_are_allowed_are_made_and_counted(lake: Path) -> None:
    row = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    assert update(lake, insert=row, allowed=True).extra == 1
    assert {r[4] for r in view(lake)} == {100, 101, 102, 103}


def test_what_cannot_be_made_at_all_is_refused_although_side_effects_are_allowed(
    lake: Path,
) -> None:
    before = rows(lake)
    with pytest.raises(Invalid):
        update(lake, insert={**ROW, "customer": None}, allowed=True)
    assert rows(lake) == before


def test_a_row_that_a_table_outside_the_view_refers_to_stays(lake: Path) -> None:
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    write_deltalake(str(lake / "claim"), pa.table({"about": [100]}))
    keys = [{"columns": ["about"], "parent": "item", "parent_columns": ["line"]}]
    put_property(lake / "claim", FOREIGN_KEYS_PROPERTY, json.dumps(keys))
    before = rows(lake)
    assert check(lake, delete=row).possible == "no"
    with pytest.raises(Invalid):
        update(lake, delete=row)
    assert rows(lake) == before
    assert update(lake, delete={**row, "line": 101, "item": "b"}).tables == (("item", 1, 0),)


def test_a_deletion_takes_a_row_that_shows_in_no_other(lake: Path) -> None:
    before = view(lake)
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    assert update(lake, delete=row).tables == (("item", 1, 0),)
    assert view(lake) == before - {tuple(row.values())}


def test_a_replacement_changes_one_row(lake: Path) -> None:
    before = view(lake)
    old = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    new = {**old, "item": "z"}
    assert update(lake, update=(old, new)).tables == (("item", 1, 1),)
    assert view(lake) == before - {tuple(old.values())} | {tuple(new.values())}


def test_an_update_keeps_what_the_view_does_not_show(lake: Path) -> None:
    one = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    other = {**one, "line": 101, "item": "b"}
    new = [{**r, "name": "anna"} for r in (one, other)]
    assert update(lake, update=([one, other], new)).tables == (("customer", 1, 1),)
    assert {"id": 1, "name": "anna", "note": "x"} in rows(lake)["customer"]


def test_an_update_of_a_key_keeps_what_the_view_does_not_show(lake: Path) -> None:
    old = {"customer": 2, "name": "bob", "orders": 20, "day": 8, "line": 200, "item": "q"}
    update(lake, insert=old)
    write_deltalake(
        str(lake / "customer"), pa.table({"id": [2], "name": ["bob"], "note": ["y"]}),
        mode="overwrite", predicate="id = 2",
    )  # fmt: skip
    done = update(lake, update=(old, {**old, "customer": 5}))
    assert done.tables == (("customer", 0, 1), ("orders", 1, 1))
    assert {"id": 5, "name": "bob", "note": "y"} in rows(lake)["customer"]


def test_an_update_of_rows_to_each_other_changes_nothing(lake: Path) -> None:
    one = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    other = {**one, "line": 101, "item": "b"}
    before = rows(lake)
    assert update(lake, update=([one, other], [other, one])).tables == ()
    assert rows(lake) == before


def test_a_replacement_of_what_several_rows_show_is_refused(lake: Path) -> None:
    old = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    assert check(lake, update=(old, {**old, "name": "anna"})).possible == "no"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**ROW, "line": 100}, "NOT_TRANSLATABLE"),
        ({k: v for k, v in ROW.items() if k != "item"}, "COLUMNS"),
        ({**ROW, "day": "monday"}, "TYPE"),
        ({**ROW, "customer": None}, "NOT_TRANSLATABLE"),
        (
            {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"},
            "ALREADY_THERE",
        ),
        (
            {"customer": 1, "name": "other", "orders": 10, "day": 5, "line": 300, "item": "n"},
            "NOT_TRANSLATABLE",
        ),
    ],
)
def test_bad_rows_are_refused_before_anything_is_written(
    lake: Path, row: dict[str, Any], reason: str
) -> None:
    before = rows(lake)
    with pytest.raises(Invalid) as refused:
        update(lake, insert=row)
    assert refused.value.reason == reason
    assert rows(lake) == before
