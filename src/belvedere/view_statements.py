"""The statements on views and tables, and what runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from belvedere.derivations.calls import Calls
from belvedere.derivations.guard import Reader, refuse_if_needed, view_readers
from belvedere.derivations.registry import Kind, readers
from belvedere.derivations.statements import Run
from belvedere.errors import Invalid
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables import catalog as lake_catalog
from belvedere.samples.create import samples_of
from belvedere.scheduling.limits import Limits
from belvedere.sql.statements.derivations import Describe, Drop, Explain, ExplainCreate, Noun, Show
from belvedere.sql.statements.spark import DropTable
from belvedere.sql.statements.views import AlterLimit, AlterPolicy, CreateView
from belvedere.views import create as creation
from belvedere.views.catalog import canonical_name, is_view, stored_of, the_view
from belvedere.views.definition import View
from belvedere.views.describe import describe, show
from belvedere.views.drop import drop_view
from belvedere.views.explain import Explanation, explain
from belvedere.views.references import explain_references

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ViewStatements:
    """The statements on the views and tables of a lake.

    `own` are those that the lake itself runs: a refresh and what needs one first.
    """

    word = Noun.VIEW.value

    def __init__(
        self,
        door: SparkLake,
        kinds: Sequence[Kind],
        limits: Limits,
        calls: Calls,
        own: Mapping[type, Run],
    ) -> None:
        self._door = door
        self._kinds = kinds
        self._own = own
        self._limits = limits
        self._calls = calls

    def statements(self) -> Mapping[type, Run]:
        """The statements on views and tables, and what runs them."""
        return {
            **self._own,
            CreateView: self._create,
            ExplainCreate: self._explain_create,
            Explain: self._explain,
            Show: self._show,
            Describe: self._describe,
            AlterPolicy: self._alter,
            AlterLimit: self._limit,
            Drop: self._drop,
            DropTable: self._drop_table,
        }

    def explained(self, name: str) -> Explanation:
        """A view's plan, how changes reach it, the SQL of a refresh; after one, what ran."""
        view = the_view(self._door, name)
        keys, last = explain_references(self._door, view), self._calls.last.get(view.stored)
        if last is None:
            return explain(view, keys)
        ran = [("SQL that ran", sql) for sql in last.sql]
        return explain(view, [*keys, ("Last refresh here", str(last)), *ran])

    def readers(self, table: str) -> list[Reader]:
        """What is derived besides views and reads a table."""
        return readers(self._kinds, table)

    def _refuse_others(self, view: str) -> None:
        """Invalid if something besides views reads a view."""
        stored = stored_of(canonical_name(self._door, view))
        refuse_if_needed(view, self.readers(stored))

    def _refuse_sampled(self, name: str) -> None:
        """Invalid if a view that is to be replaced has a sample, which would be of another."""
        if is_view(self._door, canonical_name(self._door, name)) and samples_of(self._door, name):
            raise Invalid(
                f"{name!r} has a sample, which would not fit another definition",
                hint=f"DROP SAMPLE ON {name} first",
                reason="NEEDED",
            )

    def _create(self, statement: CreateView) -> DataFrame:
        if statement.replace:
            self._refuse_others(statement.name)
            self._refuse_sampled(statement.name)
        view = creation.create_view(self._door, statement)
        if view is not None:
            self._limits.forget(statement.name)
        return self._nothing()

    def _explain_create(self, statement: ExplainCreate[CreateView]) -> DataFrame:
        return self._text(explain(creation.plan_view(self._door, statement.create)))

    def _explain(self, statement: Explain) -> DataFrame:
        return self._text(self.explained(statement.name))

    def _show(self, _: Show) -> DataFrame:
        schema = "name string, policy string, query string, error string"
        return self._door.spark.createDataFrame(list(show(self._door)), schema)

    def _describe(self, statement: Describe) -> DataFrame:
        view = the_view(self._door, statement.name)
        schema = "name string, value string, kind string"
        return self._door.spark.createDataFrame(list(describe(self._door, view)), schema)

    def _alter(self, statement: AlterPolicy) -> DataFrame:
        creation.alter_policy(self._door, statement.name, statement.policy)
        return self._nothing()

    def _limit(self, statement: AlterLimit) -> DataFrame:
        self._limits.alter(statement)
        return self._nothing()

    def _drop(self, statement: Drop) -> DataFrame:
        self._refuse_others(statement.name)
        samples = self._own_samples(statement.name)
        for sample in samples:
            drop_view(self._door, sample.name)
        drop_view(self._door, statement.name, if_exists=statement.if_exists)
        self._limits.forget(statement.name)
        said = [(f"dropped its sample {sample.name}",) for sample in samples]
        return self._door.spark.createDataFrame(said, "result string")

    def _own_samples(self, name: str) -> list[View]:
        """The samples of a view that is to go, if nothing else needs it."""
        if not is_view(self._door, canonical_name(self._door, name)):
            return []
        samples = samples_of(self._door, name)
        own = {sample.name for sample in samples}
        for table in (stored_of(canonical_name(self._door, name)), *(s.stored for s in samples)):
            others = [r for r in view_readers(self._door, table) if r.name not in own]
            refuse_if_needed(name, others)
        return samples

    def _drop_table(self, statement: DropTable) -> DataFrame:
        name = canonical_name(self._door, statement.name)
        if is_view(self._door, name):
            raise Invalid(
                f"{statement.name!r} is a materialized view",
                hint=f"DROP MATERIALIZED VIEW {statement.name}",
                reason="IS_A_VIEW",
            )
        reading = [*view_readers(self._door, name), *self.readers(name)]
        refuse_if_needed(statement.name, reading)
        if statement.if_exists and not self._door.exists(name):
            return self._nothing()
        if statement.view:
            lake_catalog.drop_view(self._door, name)
        else:
            lake_catalog.drop_table(self._door, name)
        return self._nothing()

    def _text(self, explanation: Explanation) -> DataFrame:
        return self._door.spark.createDataFrame([(str(explanation),)], "plan string")

    def _nothing(self) -> DataFrame:
        return self._door.spark.createDataFrame([], "result string")
