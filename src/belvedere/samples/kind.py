"""The kind of samples: samples are views, so it has only the statements that create and drop them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from belvedere.derivations.status import Status
from belvedere.errors import Internal
from belvedere.lake.offline import ReadableLake
from belvedere.sql.statements.derivations import Drop
from belvedere.sql.statements.samples import CreateSample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from belvedere.lake.spark_lake import SparkLake


class Samples:
    """The statements that create and drop samples; views do everything else."""

    word = "SAMPLE"

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake

    def names(self) -> Collection[str]:
        return ()

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        raise Internal(f"{name!r} is a view")

    def refresh(self, name: str, *, full: bool = False) -> Any:
        raise Internal(f"{name!r} is a view", detail="full" if full else "")

    def advance(self, name: str, tables: Sequence[str]) -> Any:
        raise Internal(f"{name!r} is a view", detail=", ".join(tables))

    def explain(self, name: str) -> object:
        raise Internal(f"{name!r} is a view")

    def status(self) -> list[Status]:
        return []

    def statements(self) -> Mapping[type, Callable[[Any], DataFrame]]:
        return {CreateSample: self._create, Drop: self._drop}

    def close(self) -> None:
        """Nothing to close."""

    def _create(self, statement: CreateSample) -> DataFrame:
        from belvedere.samples.create import create_sample

        return self._result([v.name for v in create_sample(self._door, statement)], "created")

    def _drop(self, statement: Drop) -> DataFrame:
        from belvedere.samples.create import drop_sample

        dropped = drop_sample(self._door, statement.name, if_exists=statement.if_exists)
        return self._result(dropped, "dropped")

    @property
    def _door(self) -> SparkLake:
        from belvedere.lake.spark_lake import SparkLake

        assert isinstance(self._lake, SparkLake)
        return self._lake

    def _result(self, names: list[str], what: str) -> DataFrame:
        rows = [(f"{what} {name}",) for name in names]
        return self._door.spark.createDataFrame(rows, "result string")
