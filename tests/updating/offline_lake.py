"""A lake without Spark: three tables, an updatable view over them, updates through it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.declared_keys import KEY_PROPERTY
from belvedere.updating.apply.base_changes import UpdateApplier
from belvedere.updating.apply.updates import AppliedUpdate, apply_update
from belvedere.updating.build import build_updatable
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.state import UpdatableState
from belvedere.updating.store import (
    load_updatable,
    save_updatable,
    saved_vector,
    with_reads,
)

QUERY = (
    "SELECT c.id AS customer, c.name, o.id AS orders, o.day, i.line, i.item "
    "FROM customer c JOIN orders o ON o.customer = c.id JOIN item i ON i.orders = o.id"
)
TABLES: dict[str, tuple[dict[str, list[Any]], list[str]]] = {
    "customer": (
        {"id": [1, 2, 3], "name": ["ann", "bob", "cid"], "note": ["x", None, "z"]},
        ["id"],
    ),
    "orders": ({"id": [10, 11, 12], "customer": [1, 1, 9], "day": [5, 6, 7]}, ["id"]),
    "item": (
        {"line": [100, 101, 102, 103], "orders": [10, 10, 12, 12], "item": ["a", "b", "c", "d"]},
        ["line"],
    ),
}


def make(directory: Path) -> Path:
    """The tables, with keys declared, and the view's state saved."""
    for name, (columns, key) in TABLES.items():
        write_deltalake(
            str(directory / name),
            pa.table(columns),
            configuration={"delta.enableChangeDataFeed": "true"},
        )
        _declare(directory / name, key)
    lake = OfflineLake(directory)
    definition = {"name": "contacts", "query": QUERY, "root": "item", "percent": 10.0}
    save(lake, "contacts", build_updatable(lake, definition))
    return directory


def save(lake: OfflineLake, name: str, view: UpdatableState) -> None:
    """Save a view's state as a commit does."""
    view.definition = with_reads(lake, view)
    save_updatable(lake, name, view)


def load(lake: OfflineLake, name: str = "contacts") -> UpdatableState:
    """A view's saved state, which must be usable."""
    state = load_updatable(lake, name).state
    assert state is not None
    return state


def _declare(root: Path, key: list[str]) -> None:
    put_property(root, KEY_PROPERTY, json.dumps(key))


def put_property(root: Path, name: str, value: str) -> None:
    """Give a table that was just written a property."""
    first = root / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"][name] = value
    first.write_text("\n".join(json.dumps(action) for action in actions))


def applying(lake: OfflineLake) -> UpdateApplier:
    assert lake.saves is not None
    return UpdateApplier(lake, lake.saves.home)


def fresh(lake: OfflineLake) -> UpdatableState:
    """The view at the newest versions, saved."""
    views = UpdatableViews(lake)
    views._settling.add("contacts")  # whoever settles calls this
    return views._fresh("contacts")


def settle(lake: OfflineLake) -> bool:
    """Finish or undo what a killed update left, and bring the view to it; whether there was something."""
    return applying(lake).settle("contacts", lambda: fresh(lake))


def update(directory: Path, *, allowed: bool = False, **asked: Any) -> AppliedUpdate:
    """Settle what was left, then an update through the view, as a statement makes it."""
    lake = OfflineLake(directory)
    settle(lake)
    wanted = ViewUpdate.of(asked.get("insert"), asked.get("delete"), asked.get("update"))
    done = apply_update(
        lake, applying(lake), "contacts", lambda: fresh(lake), wanted, allowed=allowed
    )
    fresh(lake)
    applying(lake).forget("contacts")
    return done


def view_at_its_vector(directory: Path) -> set[tuple[Any, ...]]:
    """The view as its readers see it: the tables at the versions of its saved vector."""
    from deltalake import DeltaTable

    at = saved_vector(OfflineLake(directory), "contacts")
    return joined(
        {
            name: DeltaTable(str(directory / name), version=at[name].version)
            .to_pyarrow_table()
            .to_pylist()
            for name in TABLES
        }
    )


def rows(directory: Path) -> dict[str, list[Mapping[str, Any]]]:
    """The tables as they are."""
    from deltalake import DeltaTable

    return {
        name: sorted(
            DeltaTable(str(directory / name)).to_pyarrow_table().to_pylist(), key=lambda r: str(r)
        )
        for name in TABLES
    }


def view(directory: Path) -> set[tuple[Any, ...]]:
    """The view, joined by hand."""
    return joined(rows(directory))


def joined(at: Mapping[str, list[Any]]) -> set[tuple[Any, ...]]:
    """The rows of the view over some rows of its tables."""
    return {
        (c["id"], c["name"], o["id"], o["day"], i["line"], i["item"])
        for c in at["customer"]
        for o in at["orders"]
        for i in at["item"]
        if o["customer"] == c["id"] and i["orders"] == o["id"]
    }
