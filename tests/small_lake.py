"""A lake written without Spark: two tables, views over them as their stored tables remember them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from belvedere.analyses.types import types
from belvedere.delta.stamps import Position, Stamp
from belvedere.derivations.history import note
from belvedere.lake.offline import VIEW_PROPERTY, OfflineLake
from belvedere.sql.binder.bind import bind
from belvedere.sql.names import stored_name
from belvedere.views.catalog import Names
from belvedere.views.definition import ViewDefinition

OWNERS = "SELECT owner, count(*) AS n FROM video GROUP BY owner"
SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}


def make(directory: Path) -> Path:
    """Tables `video` and `log`, a view `owners` over the first, created and refreshed once."""
    write(directory / "video", {"video_id": [1, 2, 3], "owner": ["a", "b", "b"]})
    write(directory / "log", {"video_id": [1, 1, 2], "bytes": [10, 20, 30]})
    view(directory, "owners", OWNERS, {"owner": "string", "n": "bigint"}, ["video"])
    return directory


def write(root: Path, columns: Mapping[str, list[object]]) -> None:
    """One commit of rows, appended."""
    feed = {} if root.exists() else {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(root), pa.table(dict(columns)), mode="append", configuration=feed or None)


def view(
    directory: Path, name: str, query: str, columns: Mapping[str, str], reads: list[str]
) -> None:
    """A stored table with a definition and the stamp of a creation; its rows do not matter."""
    names = Names(OfflineLake(directory))
    plan = bind(query, names).plan
    definition = ViewDefinition(
        id=str(uuid.uuid4()),
        name=name,
        query=query,
        policy="AUTO",
        settings=SETTINGS,
        columns=tuple(columns.items()),
        types=types(plan, lambda asked, _: dict.fromkeys(asked, "bigint")),
        sources=dict(names.seen),
    )
    store(directory, name, definition.to_json(), stamp(directory, definition.id, 1, reads))


def store(directory: Path, name: str, record: str, carried: Stamp) -> None:
    """The stored table of a view, with any record as its definition."""
    root = directory / stored_name(name)
    _commit(root, [3, 4], carried)
    # delta-rs reads properties that it does not know, but writes none.
    first = root / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"][VIEW_PROPERTY] = record
    first.write_text("\n".join(json.dumps(action) for action in actions))


def refresh(directory: Path, name: str, number: int, reads: list[str]) -> None:
    """One more commit of a stored table, with the stamp of a refresh."""
    _commit(directory / stored_name(name), [5], stamp(directory, "id", number, reads))


def _commit(root: Path, rows: list[int], carried: Stamp) -> None:
    metadata = {"userMetadata": carried.to_json()}
    write_deltalake(
        str(root),
        pa.table({"__n": rows}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata=metadata),
    )


def stamp(directory: Path, view_id: str, number: int, reads: list[str]) -> Stamp:
    """The stamp of a refresh that has just read these tables."""
    vector = {}
    for table in reads:
        found = DeltaTable(str(directory / table))
        vector[table] = Position(str(found.metadata().id), found.version())
    how = note("create" if number == 1 else "merge", "", datetime.now(UTC))
    return Stamp(view_id, number, vector, how)
