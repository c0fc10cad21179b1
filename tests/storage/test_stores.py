"""Every object store: conditional creation, ranges, order of listings, and what no listing shows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.storage.local import LocalStore
from belvedere.storage.locks import Conflict, holds
from belvedere.storage.store import ObjectStore
from belvedere.storage.stores import UnreachableStore, open_store

PATHS = ["a", "a-b/c", "a/b", "a/b/c.json", "a/b0", "b", "b/0001.json", "b/0002.json", "c/é x"]

RACE = """
import sys
from belvedere.storage.local import LocalStore
store = LocalStore(sys.argv[1])
sys.stdin.read()
print(*(int(store.put_if_absent(f"log/{n}", sys.argv[2].encode() * 1000)) for n in range(200)))
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "store"))


@pytest.fixture
def full(store: LocalStore) -> LocalStore:
    for path in PATHS:
        if path not in ("a", "a/b", "b"):  # a directory has no bytes on a local disk
            store.put(path, path.encode())
    return store


def held(store: ObjectStore) -> list[str]:
    return list(store.list())


def test_an_object_is_what_was_put_last(store: LocalStore) -> None:
    for text in (b"one", b"two, longer", b""):
        store.put("a/b", text)
        assert store.read("a/b") == text
        assert store.head("a/b").size == len(text)


def test_an_object_that_is_replaced_has_another_etag(store: LocalStore) -> None:
    etags = set()
    for text in (b"1", b"2", b"3", b"4"):
        store.put("a", text)
        assert store.head("a") == store.head("a")
        etags.add(store.head("a").etag)
    assert len(etags) == 4


def test_an_object_that_was_deleted_is_not_there(full: LocalStore) -> None:
    full.delete("b/0001.json")
    full.delete("b/0001.json")
    assert "b/0001.json" not in held(full)
    assert not full.exists("b/0001.json")
    for asked in (full.read, full.head, full.open):
        with pytest.raises(FileNotFoundError):
            asked("b/0001.json")
    with pytest.raises(FileNotFoundError):
        full.read_ranges("b/0001.json", [(0, 1)])
    assert full.put_if_absent("b/0001.json", b"again")


def test_creation_leaves_what_is_there(store: LocalStore) -> None:
    assert store.put_if_absent("log/1", b"first")
    assert not store.put_if_absent("log/1", b"second")
    assert store.read("log/1") == b"first"


def test_of_many_threads_one_creates_an_object(store: LocalStore) -> None:
    wins: list[tuple[int, int]] = []
    start = threading.Barrier(8)

    def create(me: int) -> None:
        start.wait()
        for n in range(50):
            if store.put_if_absent(f"log/{n}", bytes([me]) * 1000):
                wins.append((n, me))

    threads = [threading.Thread(target=create, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for n, _ in wins) == list(range(50))
    assert all(store.read(f"log/{n}") == bytes([me]) * 1000 for n, me in wins)
    assert held(store) == sorted(f"log/{n}" for n in range(50))


def test_of_many_processes_one_creates_an_object(store: LocalStore) -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, store.uri, me],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in "abc"
    ]
    for run in runs:
        assert run.stdin is not None
        run.stdin.close()
        run.stdin = None
    found = [list(map(int, run.communicate()[0].split())) for run in runs]
    assert [sum(each) for each in zip(*found, strict=True)] == [1] * 200
    for n, each in enumerate(zip(*found, strict=True)):
        assert store.read(f"log/{n}") == "abc"[each.index(1)].encode() * 1000


@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_ranges_are_parts_of_the_object(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, ranges: list[tuple[int, int]]
) -> None:
    store = LocalStore(str(tmp_path_factory.getbasetemp()))
    store.put("ranges", data)
    assert store.read_ranges("ranges", ranges) == [data[low:high] for low, high in ranges]


def test_a_file_for_arrow_has_the_bytes_of_the_object(store: LocalStore) -> None:
    store.put("a", b"0123456789")
    with store.open("a") as file:
        assert file.size() == 10
        file.seek(3)
        assert file.read(4) == b"3456"


@pytest.mark.parametrize(
    "prefix", ["", "a", "a/", "a/b", "a/b/", "b/0", "b/0002", "c/é", "d", "d/"]
)
@pytest.mark.parametrize("after", ["", "a", "a/b", "a/b/c.json", "b/0001", "b/0001.json", "z"])
def test_a_listing_is_in_order_of_name(full: LocalStore, prefix: str, after: str) -> None:
    every = sorted(p for p in PATHS if p not in ("a", "a/b", "b"))
    expected = [p for p in every if p.startswith(prefix) and p > after]
    assert list(full.list(prefix, after)) == expected


def test_directories_are_the_first_parts_of_paths(full: LocalStore) -> None:
    full.put("alone", b"")
    assert full.directories() == ["a", "a-b", "b", "c"]
    assert full.at("a").directories() == ["b"]


def test_what_is_half_written_is_never_listed(store: LocalStore) -> None:
    store.put("log/1", b"whole")
    with store._draft("log/2", b"half"):
        assert len(os.listdir(store.url("log"))) == 2
        assert held(store) == ["log/1"]
        assert not store.exists("log/2")
    assert os.listdir(store.url("log")) == ["1"]


def test_a_store_below_a_store_has_its_objects(full: LocalStore) -> None:
    below = full.at("b")
    assert held(below) == ["0001.json", "0002.json"]
    assert below.read("0001.json") == b"b/0001.json"
    assert below == LocalStore(f"{full.uri}/b")


def test_a_path_may_be_the_url_of_an_object_elsewhere(full: LocalStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "a b"
    elsewhere.write_bytes(b"there")
    assert full.read(elsewhere.as_uri()) == b"there"
    assert full.read(str(elsewhere)) == b"there"
    assert not full.exists("s3://bucket/x")
    with pytest.raises(FileNotFoundError):
        full.read("s3://bucket/x")


def test_a_store_that_is_not_there_is_empty(store: LocalStore) -> None:
    assert held(store) == store.directories() == []
    assert not store.exists("a")


def test_one_thread_holds_a_lease_at_a_time(store: LocalStore) -> None:
    refused = []

    def other() -> None:
        try:
            with store.lease(timeout=0.05):
                pass
        except Conflict as conflict:
            refused.append(conflict)

    with store.lease(), store.lease():
        assert holds(Path(store.uri))
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    other()
    assert len(refused) == 1


def test_what_cannot_be_reached_looks_empty_and_takes_nothing() -> None:
    store = open_store("s3://bucket/table")
    assert isinstance(store, UnreachableStore)
    assert not store.reachable
    assert held(store) == store.directories() == []
    for asked in (store.read, store.head, store.open, store.delete):
        with pytest.raises(FileNotFoundError, match="s3://bucket/table/a"):
            asked("a")
    for put in (store.put, store.put_if_absent):
        with pytest.raises(FileNotFoundError):
            put("a", b"")
    with store.lease():
        assert not store.at("b").exists("a")
