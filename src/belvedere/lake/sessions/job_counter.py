"""How many Spark jobs a piece of work runs, where Spark tells: a classic session does."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.sql import SparkSession

_GROUP = "spark.jobGroup.id"
_DESCRIPTION = "spark.job.description"


@dataclass
class Jobs:
    """The jobs of a block, once it has ended; None where that is not known."""

    count: int | None = None


@contextmanager
def counted(spark: SparkSession, what: str) -> Iterator[Jobs]:
    """Count the jobs that this thread starts in the block; they are described as `what`."""
    jobs = Jobs()
    context = _context(spark)
    # A group of the user's own is how they cancel: it stays.
    if context is None or context.getLocalProperty(_GROUP) is not None:
        yield jobs
        return
    group = f"belvedere-{uuid.uuid4()}"
    described = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_GROUP, group)
    context.setLocalProperty(_DESCRIPTION, described or what)
    try:
        yield jobs
        jobs.count = len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]
        context.setLocalProperty(_DESCRIPTION, described)  # type: ignore[arg-type]


def _context(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; Spark Connect has none."""
    return None if hasattr(spark, "cloneSession") else spark.sparkContext
