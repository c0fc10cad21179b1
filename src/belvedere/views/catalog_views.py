"""What stands under a view's name in Spark's catalog: its declared columns, read from the stored table."""

from __future__ import annotations

from belvedere.algebra.relations import Output, Project
from belvedere.algebra.scalars import col
from belvedere.execution.sources import reference
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables import catalog as lake_catalog
from belvedere.sql.render import render
from belvedere.views.catalog import canonical_name
from belvedere.views.definition import View


def show(door: SparkLake, view: View, version: int | None = None) -> None:
    """Put the view under its name: exactly the declared columns, read from the stored table."""
    lake_catalog.create_view(door, canonical_name(door, view.name), read_sql(door, view, version))


def read_sql(door: SparkLake, view: View, version: int | None = None) -> str:
    """The query of the catalog view, over the newest version of the stored table or another."""
    declared = (
        Output(name, col(plan))
        for (name, _), (_, plan) in zip(view.definition.columns, view.bound.columns, strict=True)
    )
    stored = reference(door.table(view.stored), version)
    return render(Project(view.read, tuple(declared)), lambda _: stored.copy()).sql(dialect="spark")
