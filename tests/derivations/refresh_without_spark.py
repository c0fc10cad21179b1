"""A view over `log` and `video` that is refreshed where there is no Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from belvedere.analyses.types import types
from belvedere.derivations.calls import Calls
from belvedere.derivations.outcome import Outcome
from belvedere.lake.offline import VIEW_PROPERTY, OfflineLake
from belvedere.lake.spark_lake import SparkLake
from belvedere.sql.binder.bind import bind
from belvedere.sql.names import stored_name
from belvedere.views.catalog import Names, the_view
from belvedere.views.definition import ViewDefinition
from tests import small_lake
from tests.derivations.events.table_events import FEED, EventTables
from tests.reference.laws import ask
from tests.sketches.without_spark import USUAL, NoSpark

VISITS = (
    "SELECT owner, count(*) AS n, sum(bytes) AS bytes"
    " FROM log l JOIN video v ON l.video_id = v.video_id GROUP BY owner"
)
COLUMNS = (("owner", "string"), ("n", "bigint"), ("bytes", "bigint"))


class NoJobs(NoSpark):
    """Spark that has settings, and that cannot tell how many jobs it ran, as with Spark Connect."""

    class conf(NoSpark.conf):
        """Its settings."""

        @staticmethod
        def get(key: str, default: str = "") -> str:
            known = {**USUAL, "spark.master": "local[2]", "spark.sql.caseSensitive": "false"}
            return known.get(key, default)

    def cloneSession(self) -> None:
        raise AssertionError("Spark was asked for a session")


class LakeOfVisits:
    """Two tables, and the view `visits` over their join."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tables = EventTables(directory).fill()
        self._store(self._definition())
        self.door = SparkLake(NoJobs(), directory)  # type: ignore[arg-type]
        self.door.registered |= {path.name for path in directory.iterdir()}

    def refresh(self) -> Outcome:
        """Refresh the view as a lake does."""
        view = the_view(self.door, "visits")
        return Calls(self.door, after=lambda: None).fresh(view)

    def rows(self) -> list[Mapping[str, Any]]:
        """The stored rows."""
        table = DeltaTable(self.directory / stored_name("visits")).to_pyarrow_table()
        return sorted(table.to_pylist(), key=lambda row: str(row["owner"]))

    def recomputed(self) -> list[Mapping[str, Any]]:
        """The stored rows that there should be."""
        return sorted(self._rows().to_pylist(), key=lambda row: str(row["owner"]))

    def _definition(self) -> ViewDefinition:
        names = Names(OfflineLake(self.directory))
        found = types(bind(VISITS, names).plan, ask)
        return ViewDefinition(
            str(uuid.uuid4()), "visits", VISITS, "INCREMENTAL", USUAL, COLUMNS, found,
            sources=dict(names.seen),
        )  # fmt: skip

    def _store(self, definition: ViewDefinition) -> None:
        root = self.directory / stored_name("visits")
        stamp = small_lake.stamp(self.directory, definition.id, 1, ["log", "video"])
        metadata = {"userMetadata": stamp.to_json()}
        write_deltalake(
            root,
            self._rows(),
            configuration=FEED,
            commit_properties=CommitProperties(custom_metadata=metadata),
        )
        # delta-rs reads properties that it does not know, but writes none.
        first = root / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in first.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                action["metaData"]["configuration"][VIEW_PROPERTY] = definition.to_json()
        first.write_text("\n".join(map(json.dumps, actions)))

    def _rows(self) -> pa.Table:
        rows = self.tables.all_rows()
        groups: dict[str, list[int]] = {}
        for a in rows["log"]:
            for b in rows["video"]:
                if a["video_id"] == b["video_id"]:
                    groups.setdefault(b["owner"], []).append(a["bytes"])
        counts = pa.array([len(some) for some in groups.values()], pa.int64())
        totals = pa.array([Decimal(sum(some)) for some in groups.values()], pa.decimal128(38, 0))
        return pa.table({"owner": list(groups), "__n": counts, "__s2": totals, "__c2": counts})
