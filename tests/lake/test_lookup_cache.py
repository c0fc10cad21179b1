"""What was looked up for one view of a call is there for the others, and is the same."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.delta.lookups import look_up
from belvedere.lake import lookup_cache
from belvedere.lake.lookup_cache import LookupCache
from belvedere.lake.tables.table import Table
from tests.local_tables import table_in

MOST = 1000


@pytest.fixture
def table(tmp_path: Path) -> Table:
    keys = [*range(40), None, None, 3, 3]
    rows = pa.table({"k": pa.array(keys, pa.int64()), "a": range(44), "b": [str(k) for k in keys]})
    write_deltalake(str(tmp_path / "t"), rows)
    return table_in(tmp_path / "t")


def values(*some: int) -> pa.Array:
    return pa.array(some, pa.int64())


def counted(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of every look-up that is made from now on."""
    made: list[list[str]] = []

    def counting(*asked: object, **how: object) -> object:
        made.append(list(asked[2]))  # type: ignore[call-overload]
        return look_up(*asked, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(lookup_cache, "look_up", counting)
    return made


def test_whatever_was_asked_before_the_rows_are_those_of_a_look_up(table: Table) -> None:
    for seed in range(30):
        chance, known = random.Random(seed), LookupCache()
        for _ in range(8):
            asked = values(*chance.sample(range(50), chance.randint(0, 6)))
            columns, nulls = chance.sample(["K", "a", "b"], chance.randint(1, 3)), seed % 2 == 0
            most = chance.choice([3, MOST])
            found, wanted = (
                rows(table, 0, columns, "k", asked, nulls=nulls, most=most)
                for rows in (known.rows, look_up)
            )
            assert found == wanted, seed


def test_fewer_values_and_columns_are_not_looked_up_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, known = counted(monkeypatch), LookupCache()

    def rows(columns: list[str], asked: pa.Array, *, nulls: bool = False) -> pa.Table:
        found = known.rows(table, 0, columns, "k", asked, nulls=nulls, most=MOST)
        assert found is not None
        return found

    assert rows(["a"], values(1, 2, 3)).num_rows == 5
    assert rows(["k"], values(3)).num_rows == 3
    assert rows(["a", "k"], values(2, 1, 3)).num_rows == 5
    assert made == [["a", "k"]]
    rows(["a"], values(1, 4))
    rows(["b"], values(1))
    rows(["a"], values(1), nulls=True)
    assert made[1:] == [["a", "k"], ["b", "k"], ["a", "k"]]


def test_another_version_is_another_table(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, known = counted(monkeypatch), LookupCache()
    one = values(1)
    assert known.rows(table, 0, ["a"], "k", one, nulls=False, most=MOST) is not None
    write_deltalake(str(tmp_path / "t"), pa.table({"k": one, "a": [99], "b": [""]}), mode="append")
    newer = table_in(tmp_path / "t")
    found = known.rows(newer, 1, ["a"], "k", one, nulls=False, most=MOST)
    assert found is not None
    assert sorted(found["a"].to_pylist()) == [1, 99]
    assert len(made) == 2


def test_what_two_threads_want_at_once_is_looked_up_once(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, known = counted(monkeypatch), LookupCache()
    found: list[pa.Table | None] = []

    def ask() -> None:
        found.append(known.rows(table, 0, ["a"], "k", values(3), nulls=False, most=MOST))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [rows.num_rows for rows in found if rows is not None] == [3] * 4
    assert len(made) == 1


def test_no_more_is_held_than_there_is_room_for(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, known = counted(monkeypatch), LookupCache()
    monkeypatch.setattr(lookup_cache, "MAX_BYTES", 20)
    for asked in (values(1), values(2), values(1), values(1)):
        assert known.rows(table, 0, ["a"], "k", asked, nulls=False, most=MOST) is not None
    assert len(made) == 3
