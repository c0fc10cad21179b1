"""Every refusal has a reason code; every code is used, and stands on the page of limitations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace

import pytest

from belvedere import reasons
from belvedere.errors import Invalid, Unsupported
from belvedere.sql.binder.bind import bind
from belvedere.views.catalog import as_not_read
from tests.sql.shop import Shop
from tests.test_house import ROOT, SOURCES, parsed

PAGE = ROOT / "docs" / "limitations.md"
REFUSALS = {"Invalid", "Unsupported", "Unable", "unsupported"}
# Names of Spark's own errors, which the page may explain.
SPARKS = frozenset(
    "DIVIDE_BY_ZERO CAST_INVALID_INPUT ARITHMETIC_OVERFLOW SCALAR_SUBQUERY_TOO_MANY_ROWS "
    "INVALID_SCHEMA_OR_RELATION_NAME".split()
)


@cache
def calls_and_constants(text: str) -> list[ast.Call | ast.Constant]:
    """The calls and the constants of a source."""
    return [n for n in ast.walk(parsed(text)) if isinstance(n, ast.Call | ast.Constant)]


def refusals(text: str) -> Iterator[ast.Call]:
    """The calls that make a refusal: of an error's class, or of a function that makes one."""
    for node in calls_and_constants(text):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name in REFUSALS:
                yield node


def reason(call: ast.Call) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == "reason"), None)


def without_code(text: str) -> list[int]:
    """The lines of the refusals without a reason code."""
    empty = [c for c in refusals(text) if _is_empty(reason(c))]
    return [c.lineno for c in empty]


def _is_empty(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def literals(text: str) -> set[str]:
    """The strings of a source that could be reason codes."""
    constants = (n.value for n in calls_and_constants(text) if isinstance(n, ast.Constant))
    return {c for c in constants if isinstance(c, str) and re.fullmatch("[A-Z][A-Z_]+", c)}


def written(text: str) -> set[str]:
    """The reason codes that a source writes where it refuses."""
    values = (reason(c) for c in refusals(text))
    return {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)}


def listed(page: str) -> set[str]:
    """The codes in the first column of a page's tables."""
    cells = re.findall(r"^\| (`[A-Z][^|]*) \|", page, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([A-Z][A-Z_]+)`", cell)}


def test_every_refusal_has_a_reason_code() -> None:
    assert without_code('raise Invalid("x", hint="y")') == [1]
    assert without_code('raise ctx.unsupported("x", node, "y", reason="")') == [1]
    assert without_code('raise Unsupported("x", reason="Y")') == []
    missing = {p.relative_to(ROOT).as_posix(): without_code(p.read_text()) for p in SOURCES}
    assert {path: lines for path, lines in missing.items() if lines} == {}


def test_a_reason_is_required_of_what_is_not_handled() -> None:
    with pytest.raises(TypeError, match="reason"):
        Unsupported("x")  # type: ignore[call-arg]


def test_every_code_that_is_written_is_known() -> None:
    codes = {p.relative_to(ROOT).as_posix(): written(p.read_text()) for p in SOURCES}
    unknown = {path: found - set(reasons.REASONS) - SPARKS for path, found in codes.items()}
    assert {path: found for path, found in unknown.items() if found} == {}


def test_every_known_code_is_written_somewhere() -> None:
    others = [p for p in SOURCES if p.name != "reasons.py"]
    used = set().union(*(literals(p.read_text()) for p in others))
    assert set(reasons.REASONS) - used == set()


def test_a_code_stands_in_one_table_of_its_use() -> None:
    assert list(reasons.TABLES) == list(reasons.ReasonUse)
    assert sum(map(len, reasons.TABLES.values())) == len(reasons.REASONS)
    for use, table in reasons.TABLES.items():
        assert {(reason.code, reason.use) for reason in table.values()} == {(c, use) for c in table}


def table_of(use: reasons.ReasonUse) -> str:
    """The reasons of a use as a table of the page."""
    table = reasons.TABLES[use].values()
    lines = [f"| `{r.code}` | {r.sentence} | {r.remedy} |".replace("|  |", "| |") for r in table]
    return "\n".join(["| code | why | what helps |", "|---|---|---|", *lines])


def with_tables(page: str) -> str:
    """A page with the table of each use between its marks."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{table_of(reasons.ReasonUse(match[2]))}\n<!-- end -->"

    return re.sub(r"(<!-- reasons: ([a-z ]+) -->)\n.*?<!-- end -->", block, page, flags=re.DOTALL)


def test_the_page_lists_every_code_and_no_other() -> None:
    assert listed("| `A_B`, `CD` | what `NOT` is |\n| code | x |") == {"A_B", "CD"}
    page = PAGE.read_text()
    assert listed(page) - SPARKS == set(reasons.REASONS)


def test_the_tables_of_the_page_are_those_of_the_reasons() -> None:
    """`python -m tests.test_reasons` writes them anew."""
    page = PAGE.read_text()
    assert [f"reasons: {use.value} -->" in page for use in reasons.ReasonUse] == [True] * len(
        reasons.ReasonUse
    )
    assert page == with_tables(page)


@pytest.mark.parametrize("code", reasons.REASONS)
def test_a_reason_is_a_sentence_and_a_remedy_begins_with_a_verb(code: str) -> None:
    known = reasons.REASONS[code]
    assert known.sentence
    assert not known.sentence.endswith(".")
    assert not known.remedy or re.match(r"[a-z]+ ", known.remedy)


class Judge:
    """Stands for Spark, which understands some texts."""

    def __init__(self, *understood: str) -> None:
        self.understood = understood
        self.capabilities = SimpleNamespace(runs_spark=True)

    def output_schema(self, sql: str) -> list[tuple[str, str]]:
        """The columns of a query; `Invalid` if it is not understood."""
        if not any(text in sql for text in self.understood):
            raise Invalid("not understood", reason="SPARK")
        assert sql.startswith("SELECT * FROM (")
        return []


def plan(query: str, judge: Judge) -> None:
    with as_not_read(judge, query):  # type: ignore[arg-type]
        bind(query, Shop())


@pytest.mark.parametrize("query", ["SELECT a ?? 1 FROM r", "SELECT zz FROM r"])
def test_what_spark_understands_is_no_mistake_of_the_users(query: str) -> None:
    with pytest.raises(Unsupported, match="Spark understands this query") as error:
        plan(query, Judge(query))
    assert error.value.reason == "NOT_READ"
    with pytest.raises(Invalid):
        plan(query, Judge())


@pytest.mark.parametrize("query", ["SELECT a, a FROM r", "SELECT a FROM nowhere", "DROP TABLE r"])
def test_what_cannot_be_a_view_is_a_mistake_whatever_spark_says(query: str) -> None:
    with pytest.raises(Invalid):
        plan(query, Judge("SELECT a"))


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
