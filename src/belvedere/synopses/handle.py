"""A synopsis of a lake as its user holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.lake.offline import ReadableLake
from belvedere.synopses.estimate.estimates import Histogram, SampleEstimate
from belvedere.synopses.sample.on_spark import SparkSample
from belvedere.synopses.sample.results import SampleResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.derivations.outcome import Outcome
    from belvedere.synopses.kind import Synopses


class SynopsisHandle:
    """A uniform sample of a join, as of its vector."""

    def __init__(self, kept: Synopses, name: str, lake: ReadableLake) -> None:
        self._kept = kept
        self._lake = lake
        self.name = name

    @property
    def _results(self) -> SampleResults | SparkSample:
        state = self._kept.loaded(self.name).state
        assert state is not None
        return state

    @property
    def vector(self) -> dict[str, int]:
        """The version of each table that the sample is of."""
        return {t: p.version for t, p in self._kept.loaded(self.name).vector.items()}

    def arrow(self) -> pa.Table:
        """The sample's rows, from memory."""
        return self._results.arrow()

    def df(self) -> DataFrame:
        """The sample's rows as a Spark DataFrame; no table is read."""
        return self._lake.spark.createDataFrame(self.arrow())  # type: ignore[attr-defined,no-any-return]

    @property
    def join_size(self) -> int | SampleEstimate:
        """How many rows the join has: exact, or an estimate where filters come after the graph."""
        found: int | SampleEstimate = self._results.join_size
        return found

    def estimate(
        self,
        what: str,
        where: str | None = None,
        group_by: str | None = None,
        confidence: float = 0.95,
    ) -> Any:
        """An aggregate over the join with an interval; by groups, a dictionary of them."""
        return self._results.estimate(what, where, group_by, confidence)

    def key_counts(self, column: str) -> pa.Table:
        """How many join results each value of a join key has: exact, from the weights."""
        return self._results.key_counts(column)

    def histogram(self, what: str, buckets: int = 20) -> Histogram:
        """An equi-depth histogram of an expression over the join."""
        return self._results.histogram(what, buckets)

    def train_test(self, share: float = 0.2) -> tuple[pa.Table, pa.Table]:
        """The sample as rows to train on and a share of it to test with."""
        return self._results.train_test(share)

    def refresh(self, *, full: bool = False) -> Outcome:
        """Bring it to the newest versions of its tables."""
        return self._kept.refresh(self.name, full=full)
