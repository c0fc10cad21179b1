"""Every kind of view that has a key is sampled, cleaned and asked; others are refused with a reason."""

from __future__ import annotations

import pytest

from belvedere.api import Lake
from belvedere.errors import BelvedereError
from belvedere.lake.spark_lake import SparkLake
from belvedere.samples.answers.answer import EstimatedAnswer
from tests.views.comparison import assert_same
from tests.views.examples import FILL, ROUNDS, TABLES, VIEWS

pytestmark = [pytest.mark.spark, pytest.mark.soak]

REFUSED = {
    "v_total": "SAMPLE_OF_ONE_ROW",
    "v_over_top": "SAMPLE_OF_ONE_ROW",
    "v_top": "SAMPLE_OF_LIMIT",
    # Rows without a key are told apart by all they have, and lists have no plain text.
    "v_exists": "UNHASHABLE_TYPE",
}


@pytest.fixture
def lake(door: SparkLake) -> Lake:
    opened = Lake(door)
    for table, columns in TABLES.items():
        opened.sql(f"CREATE TABLE {table} ({columns})")
        opened.enable_change_feed(table)
    for statement in FILL:
        opened.sql(statement)
    for name, query in VIEWS.items():
        opened.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return opened


def test_estimates_are_of_every_kind_of_view(lake: Lake) -> None:
    for name in VIEWS:
        make = f"CREATE SAMPLE ON {name} RATIO {50 if name > 'v_s' else 100} PERCENT"
        if name in REFUSED:
            with pytest.raises(BelvedereError) as refused:
                lake.sql(make)
            assert refused.value.reason == REFUSED[name], name
        else:
            lake.sql(make)
    kinds = [name for name in VIEWS if name not in REFUSED]
    for statements in ROUNDS[:3]:
        for statement in statements:
            lake.sql(statement)
        for name in kinds:
            lake.clean(name)
            _checked(lake, name)


def _checked(lake: Lake, name: str) -> None:
    """A sample of everything is the fresh view and answers exactly; of a half, it is what a new
    sample would have."""
    fresh = lake.sql(VIEWS[name].replace("v_minmax", f"({VIEWS['v_minmax']})"))
    kept = lake.sql(f"SELECT * FROM {name}_sample")
    found = lake.estimate(f"SELECT count(*) AS n FROM {name}", clean=False)
    assert isinstance(found, EstimatedAnswer)
    if name > "v_s":
        before = kept.toArrow()
        lake.sql(f"CREATE OR REPLACE SAMPLE ON {name} RATIO 50 PERCENT")
        again = lake.sql(f"SELECT * FROM {name}_sample")
        assert_same(lake.spark.createDataFrame(before, again.schema), again, name)
    else:
        assert_same(kept, fresh, name)
        assert found.arrow()["n"][0].as_py() == fresh.count(), name
