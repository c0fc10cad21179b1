"""What EXPLAIN says of a view, as golden text: `explain/NAME.sql` in, `explain/NAME.txt` out."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.analyses.types import types
from belvedere.errors import BelvedereError, Invalid
from belvedere.sql.binder.bind import Relation, bind
from belvedere.sql.statements.parser import parse_statement
from belvedere.sql.statements.views import CreateView
from belvedere.views.definition import View, ViewDefinition
from belvedere.views.explain import explain
from tests.reference.oracle import ask

HERE = Path(__file__).parent / "explain"

TABLES = {
    "video": (("video_id", "bigint"), ("owner", "string"), ("duration", "double")),
    "log": (("video_id", "bigint"), ("bytes", "bigint"), ("at", "date")),
    "price": (("owner", "string"), ("cost", "decimal(10,2)")),
}


class _Catalog:
    def resolve(self, name: str) -> Relation:
        if name not in TABLES:
            raise Invalid(f"no table {name!r}", hint=f"tables here: {', '.join(TABLES)}")
        return Relation(columns=TABLES[name], table=name)


def _explained(statement: CreateView) -> str:
    bound = bind(statement.query, _Catalog())
    known = types(bound.plan, ask)
    columns = tuple((shown, known[plan]) for shown, plan in bound.columns)
    definition = ViewDefinition(
        "id", statement.name, statement.query, statement.policy.value, {}, columns, known
    )
    return str(explain(View(definition, bound, f"__bv_{statement.name}")))


@pytest.mark.parametrize("name", sorted(p.stem for p in HERE.glob("*.sql")))
def test_explain_says_what_the_golden_file_says(name: str, update: bool) -> None:
    statement = parse_statement((HERE / f"{name}.sql").read_text())
    assert isinstance(statement, CreateView)
    try:
        text = _explained(statement)
    except BelvedereError as error:
        text = f"{type(error).__name__}: {error}"
    golden = HERE / f"{name}.txt"
    if update:
        golden.write_text(text + "\n")
    assert golden.read_text() == text + "\n"
