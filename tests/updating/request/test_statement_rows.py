"""What a statement asks of a view: no part of it is lost, and what is not understood is refused."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.errors import BelvedereError, Invalid
from belvedere.sql.statements.spark import WriteKind
from belvedere.updating.request.statement_rows import update_of_statement
from belvedere.updating.request.view_updates import ViewUpdate

COLUMNS = [("line", "int"), ("item", "string")]


class Frame:
    """Rows that a query has, as far as requests use them."""

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns, self.rows = columns, rows

    def toDF(self, *names: str) -> Frame:
        return Frame(list(names), self.rows)

    def selectExpr(self, *_: str) -> Frame:
        return self

    def limit(self, _: int) -> Frame:
        return self

    def collect(self) -> list[tuple[Any, ...]]:
        return self.rows


class SparkLake:
    """Answers every query with the same rows, and knows what was asked."""

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.frame, self.asked = Frame(columns, rows), ""

    def sql(self, text: str) -> Frame:
        self.asked = text
        return self.frame


def ask(text: str, columns: list[str], *rows: tuple[Any, ...]) -> tuple[ViewUpdate, str]:
    door, kind = (
        SparkLake(columns, list(rows)),
        WriteKind(text.replace("WITH q AS (SELECT 1) ", "").split()[0]),
    )
    found = update_of_statement(door, "`v`", COLUMNS, kind, text)  # type: ignore[arg-type]
    return found, door.asked


def test_an_insertion_by_name_goes_by_the_names_of_its_query() -> None:
    found, _ = ask(
        "INSERT INTO v BY NAME SELECT 'a' AS Item, 1 AS line", ["Item", "line"], ("a", 1)
    )
    assert found.insert == ({"item": "a", "line": 1},)
    found, _ = ask("INSERT INTO v SELECT 1 AS item, 'a' AS line", ["item", "line"], (1, "a"))
    assert found.insert == ({"line": 1, "item": "a"},)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            "WITH q AS (SELECT 1) INSERT INTO v SELECT * FROM q",
            "WITH q AS (SELECT 1) SELECT * FROM (SELECT * FROM q)",
        ),
        ("INSERT INTO v (item, line) VALUES ('a', 1)", "SELECT * FROM (VALUES ('a', 1))"),
        ("INSERT INTO v VALUES (1, 'it''s')", "SELECT * FROM (VALUES (1, 'it\\'s'))"),
        ("INSERT INTO v TABLE x", "SELECT * FROM (TABLE x)"),
        (
            "DELETE FROM v AS c WHERE c.line = 1",
            "SELECT `line`, `item` FROM `v` AS `c` WHERE c.line = 1",
        ),
        ("DELETE FROM v", "SELECT `line`, `item` FROM `v`"),
        (
            "UPDATE v AS c SET c.item = c.item WHERE c.line = 1",
            "SELECT `line`, `item`, CAST(c.item AS string) FROM `v` AS `c` WHERE c.line = 1",
        ),
    ],
)
def test_all_that_a_statement_says_is_asked(text: str, asked: str) -> None:
    rows = [] if text.startswith(("DELETE", "UPDATE")) else [(1, "a")]
    assert ask(text, ["a", "b"], *rows)[1] == asked


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("INSERT INTO v (line, LINE) VALUES (1, 2)", "COLUMNS"),
        ("INSERT INTO v (line, item, other) VALUES (1, 2, 3)", "COLUMNS"),
        ("INSERT INTO v BY NAME SELECT 1 AS line, 'a' AS b", "COLUMNS"),
        ("INSERT OVERWRITE v SELECT 1, 'a'", "STATEMENT"),
        ("INSERT INTO v PARTITION (line = 1) SELECT 'a'", "STATEMENT"),
        ("INSERT INTO v REPLACE WHERE line = 1 SELECT 1, 'a'", "STATEMENT"),
        ("UPDATE v SET item = 'a', ITEM = 'b'", "COLUMNS"),
        ("UPDATE v SET other = 'a'", "COLUMNS"),
        ("UPDATE v SET item = 'a' FROM y WHERE y.b = v.line", "STATEMENT"),
        ("UPDATE v VERSION AS OF 3 SET item = 'a'", "STATEMENT"),
        ("DELETE FROM v AS c (a, b) WHERE a = 1", "STATEMENT"),
        ("DELETE FROM v USING y WHERE line = 1", "STATEMENT"),
        ("WITH q AS (SELECT 1) DELETE FROM v WHERE line IN (SELECT * FROM q)", "STATEMENT"),
    ],
)
def test_what_would_be_lost_or_means_two_things_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BelvedereError) as refused:
        ask(text, ["a", "b"], ("a", 1))
    assert refused.value.reason == reason
    assert refused.value.hint
    assert isinstance(refused.value, Invalid) == (reason == "COLUMNS")
