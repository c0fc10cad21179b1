"""How a synopsis is saved beside the lake, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Arrays, Corrupt, Saved
from belvedere.synopses.definition import SynopsisDefinition, plain_plan, planned_of
from belvedere.synopses.sample.on_spark import SparkSample
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.saving import ARRAYS, from_arrays, to_arrays
from belvedere.synopses.state import SynopsisState


class SynopsisCodec:
    """Definitions as JSON; the graph and the sample as arrays, of a drawn synopsis its rows alone."""

    def definition_of(self, record: Mapping[str, Any]) -> SynopsisDefinition:
        """The definition that was saved."""
        return SynopsisDefinition.of(record)

    def encode(
        self, definition: SynopsisDefinition, state: SampleResults | SparkSample
    ) -> tuple[Mapping[str, Any], Arrays]:
        """What is saved of a synopsis."""
        record = definition.record()
        if isinstance(state, SparkSample):
            drawn = {"drawn": True, "size": str(state.size)}
            return record | drawn, {"rows": _as_stream(state.rows)}
        return record, to_arrays(state.maintained)

    def decode(
        self, lake: ReadableLake, definition: SynopsisDefinition, saved: Saved
    ) -> SampleResults | SparkSample:
        """The synopsis that was saved; `Corrupt` if its arrays are those of another version."""
        record = saved.head.definition
        if record.get("arrays") != ARRAYS:
            raise Corrupt(
                f"the arrays of synopsis {saved.head.name!r} are those of another version",
                hint="it is built again from the tables",
                reason="OTHER_FORMAT",
            )
        if record.get("drawn"):
            plan = plain_plan(lake, definition)
            rows = pa.ipc.open_stream(pa.py_buffer(saved.arrays["rows"])).read_all()
            return SparkSample(plan, definition.kind, rows, int(record["size"]), definition.seed)
        keeper = SynopsisState(planned_of(lake, definition), definition.kind, seed=definition.seed)
        return SampleResults(from_arrays(keeper, saved.arrays), definition.seed)


def _as_stream(rows: pa.Table) -> Any:
    """Rows as Arrow writes them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)
