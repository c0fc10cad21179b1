"""Statements are recognised by their tokens; the query's text is kept, mistakes have a position."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belvedere.errors import Invalid, Unsupported
from belvedere.sql.statements.cursor import dotted, name_parts
from belvedere.sql.statements.derivations import (
    Describe,
    Drop,
    Explain,
    ExplainCreate,
    Noun,
    Refresh,
    Show,
)
from belvedere.sql.statements.parser import Other, Statement, parse_statement, split_statements
from belvedere.sql.statements.spark import (
    ChangeKind,
    CreateSchema,
    CreateTable,
    DropSchema,
    DropTable,
    RefreshTable,
    TableChange,
    Write,
    WriteKind,
)
from belvedere.sql.statements.views import AlterLimit, AlterPolicy, CreateView, RefreshPolicy

PROPERTY = ("delta.enableChangeDataFeed", "false")

OURS: list[tuple[str, Statement]] = [
    ("CREATE MATERIALIZED VIEW v AS SELECT 1", CreateView("v", "SELECT 1")),
    (
        "create or replace materialized view v as select 1;",
        CreateView("v", "select 1", replace=True),
    ),
    (
        "CREATE MATERIALIZED VIEW IF NOT EXISTS s.v AS SELECT 1",
        CreateView("s.v", "SELECT 1", if_not_exists=True),
    ),
    (
        "CREATE MATERIALIZED VIEW v COMMENT 'it''s' REFRESH POLICY INCREMENTAL STRICT AS TABLE t",
        CreateView("v", "TABLE t", RefreshPolicy.STRICT, comment="it's"),
    ),
    (
        "CREATE MATERIALIZED VIEW v REFRESH POLICY FULL COMMENT \"a 'b'\" AS TABLE t",
        CreateView("v", "TABLE t", RefreshPolicy.FULL, comment="a 'b'"),
    ),
    (
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('a' = 'b', c.d = 1, e = true, n -2) AS TABLE t",
        CreateView(
            "v", "TABLE t", properties=(("a", "b"), ("c.d", "1"), ("e", "true"), ("n", "-2"))
        ),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS WITH x AS (SELECT 1) SELECT * FROM x",
        CreateView("v", "WITH x AS (SELECT 1) SELECT * FROM x"),
    ),
    ("REFRESH MATERIALIZED VIEW v", Refresh(Noun.VIEW, "v")),
    ("REFRESH MATERIALIZED VIEW v FULL ;", Refresh(Noun.VIEW, "v", full=True)),
    ("EXPLAIN CREATE MATERIALIZED VIEW v AS TABLE t", ExplainCreate(CreateView("v", "TABLE t"))),
    (
        "EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW v AS TABLE t",
        ExplainCreate(CreateView("v", "TABLE t", replace=True)),
    ),
    ("EXPLAIN MATERIALIZED VIEW v", Explain(Noun.VIEW, "v")),
    ("SHOW MATERIALIZED VIEWS", Show(Noun.VIEW)),
    ("DESCRIBE MATERIALIZED VIEW v", Describe(Noun.VIEW, "v")),
    ("desc Materialized View v", Describe(Noun.VIEW, "v")),
    ("DROP MATERIALIZED VIEW v", Drop(Noun.VIEW, "v")),
    ("DROP MATERIALIZED VIEW IF EXISTS v", Drop(Noun.VIEW, "v", if_exists=True)),
    (
        "ALTER MATERIALIZED VIEW v SET REFRESH POLICY INCREMENTAL",
        AlterPolicy("v", RefreshPolicy.INCREMENTAL),
    ),
]


@pytest.mark.parametrize(("text", "statement"), OURS)
def test_our_statements_are_recognised(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement


@pytest.mark.parametrize(("text", "statement"), OURS)
def test_comments_and_line_breaks_between_words_change_nothing(
    text: str, statement: Statement
) -> None:
    head, _, tail = text.partition(" ")
    commented = f"-- it's; a note\n{head} /* 'x' /* nested */ ; */\n\t{tail}"
    assert parse_statement(commented) == statement


SPARKS: list[tuple[str, Statement]] = [
    ("DROP TABLE t", DropTable("t")),
    ("DROP TABLE IF EXISTS a.t PURGE", DropTable("a.t", if_exists=True)),
    ("DROP VIEW IF EXISTS t", DropTable("t", if_exists=True, view=True)),
    ("DROP TABLE IDENTIFIER('a.`b c`')", DropTable("a.`b c`")),
    ("DROP DATABASE IF EXISTS s CASCADE", DropSchema("s", if_exists=True, cascade=True)),
    ("CREATE SCHEMA IF NOT EXISTS s", CreateSchema("s", if_not_exists=True)),
    ("CREATE TABLE t (a INT) USING delta", CreateTable("t")),
    ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", CreateTable("t", if_not_exists=True)),
    ("CREATE TABLE materialized (a INT)", CreateTable("materialized")),
    ("CREATE OR REPLACE TABLE t (a INT)", TableChange(ChangeKind.REPLACE, "t")),
    ("REPLACE TABLE t AS SELECT 1", TableChange(ChangeKind.REPLACE, "t")),
    ("CREATE OR REPLACE VIEW v AS SELECT 1", TableChange(ChangeKind.REPLACE, "v")),
    ("TRUNCATE TABLE t", TableChange(ChangeKind.TRUNCATE, "t")),
    ("RESTORE TABLE t TO VERSION AS OF 3", TableChange(ChangeKind.RESTORE, "t")),
    ("ALTER TABLE t DROP COLUMN a", TableChange(ChangeKind.DROP_COLUMN, "t", ("a",))),
    (
        "ALTER TABLE t DROP COLUMNS IF EXISTS (a, `b c`, s.f)",
        TableChange(ChangeKind.DROP_COLUMN, "t", ("a", "`b c`", "s.f")),
    ),
    (
        "ALTER TABLE t RENAME COLUMN a TO b",
        TableChange(ChangeKind.RENAME_COLUMN, "t", ("a",), new_name="b"),
    ),
    ("ALTER TABLE t RENAME TO s.u", TableChange(ChangeKind.RENAME, "t", new_name="s.u")),
    ("ALTER TABLE t ADD COLUMNS (a INT)", TableChange(ChangeKind.ADD_COLUMN, "t")),
    (
        "ALTER TABLE t ALTER COLUMN a TYPE DECIMAL(10, 2), b COMMENT 'x'",
        TableChange(ChangeKind.ALTER_COLUMN, "t", ("a", "b")),
    ),
    ("ALTER TABLE t CHANGE a b INT", TableChange(ChangeKind.ALTER_COLUMN, "t", ("a",))),
    (
        "ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = false)",
        TableChange(ChangeKind.SET_PROPERTIES, "t", properties=(PROPERTY,)),
    ),
    (
        "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a', 'b')",
        TableChange(ChangeKind.UNSET_PROPERTIES, "t", properties=(("a", ""), ("b", ""))),
    ),
    ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", TableChange(ChangeKind.OTHER, "t")),
    ("ALTER VIEW v AS SELECT 1", TableChange(ChangeKind.REDEFINE, "v")),
    ("REFRESH TABLE s.t", RefreshTable("s.t")),
    ("REFRESH t", RefreshTable("t")),
    ("INSERT INTO t VALUES (1)", Write(WriteKind.INSERT, ("t",))),
    ("INSERT INTO TABLE s.t SELECT 1", Write(WriteKind.INSERT, ("s.t",))),
    ("INSERT OVERWRITE t SELECT 1", Write(WriteKind.INSERT, ("t",))),
    ("INSERT INTO delta.`/a/b` SELECT 1", Write(WriteKind.INSERT, ("delta.`/a/b`",))),
    ("UPDATE t SET a = 1", Write(WriteKind.UPDATE, ("t",))),
    ("DELETE FROM t", Write(WriteKind.DELETE, ("t",))),
    ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", Write(WriteKind.MERGE, ("t",))),
    ("MERGE WITH SCHEMA EVOLUTION INTO t USING s ON TRUE", Write(WriteKind.MERGE, ("t",))),
    (
        "WITH a AS (SELECT 1), b(x) AS (TABLE a) INSERT INTO t TABLE b",
        Write(WriteKind.INSERT, ("t",)),
    ),
    ("WITH a AS (SELECT 1) DELETE FROM t", Write(WriteKind.DELETE, ("t",))),
    ("FROM s INSERT INTO a SELECT x INSERT INTO b SELECT y", Write(WriteKind.INSERT, ("a", "b"))),
]


@pytest.mark.parametrize(("text", "statement"), SPARKS)
def test_statements_of_spark_give_the_names_to_check(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement
    assert parse_statement(text.replace(" ", " /* ; */\n", 1) + ";") == statement


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- nothing",
        "SELECT 'CREATE MATERIALIZED VIEW v AS SELECT 1'",
        "SELECT 1 -- ; DROP TABLE t",
        "/* DROP TABLE t */ SELECT 1",
        "`DROP` TABLE t",
        "EXPLAIN SELECT 1",
        "EXPLAIN FORMATTED DROP TABLE t",
        "SHOW VIEWS",
        "DESCRIBE materialized",
        "DESC materialized.t",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "WITH delete AS (SELECT 1) SELECT x AS delete FROM t",
        "WITH a AS (SELECT 1) SELECT f(x) delete FROM t",
        "FROM t SELECT a",
        "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
        "SET spark.app.name=it's",
        "DROP TABLE",
        "REFRESH '/data/t'",
        "REFRESH FUNCTION f",
        "VACUUM t",
    ],
)
def test_everything_else_goes_to_spark_untouched(text: str) -> None:
    assert parse_statement(text) == Other(text)


def test_the_query_is_kept_to_the_letter() -> None:
    query = "/* why */ SELECT  a, -- first\n  ';' AS `b;c`, \"x\" /* ; */\nFROM t -- last"
    text = f"CREATE MATERIALIZED VIEW v AS\n{query}\n; -- after"
    parsed = parse_statement(text)
    assert isinstance(parsed, CreateView)
    assert parsed.query == query
    assert text[len(parsed.lead) :].startswith(query)
    assert not parsed.lead.strip()
    assert parsed.lead.count("\n") == text[: len(parsed.lead)].count("\n")


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("v", ("v",)),
        ("Shop.Visits", ("Shop", "Visits")),
        ("`a``b`.`c.d`.e", ("a`b", "c.d", "e")),
        ("größe.表", ("größe", "表")),
        ("`select`.order", ("select", "order")),
        ("db.2024_sales", ("db", "2024_sales")),
        ("a /* x */ . b", ("a", "b")),
        ("full", ("full",)),
    ],
)
def test_names_may_be_dotted_quoted_and_unicode(written: str, parts: tuple[str, ...]) -> None:
    assert name_parts(written) == parts
    parsed = parse_statement(f"REFRESH MATERIALIZED VIEW {written} FULL")
    assert parsed == Refresh(Noun.VIEW, dotted(parts), full=True)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
@example(["A·"])
def test_a_canonical_name_reads_back_as_its_parts(parts: list[str]) -> None:
    assert name_parts(dotted(parts)) == tuple(parts)


@pytest.mark.parametrize("name", ["", "a.", ".a", "a b", "a-b", "``", "1", "a;b", "`a"])
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        name_parts(name)


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        (
            "CREATE MATERIALIZED VIEW",
            "expected the view's name, found the end",
            "line 1, column 25",
        ),
        (
            "CREATE MATERIALIZED VIEW AS SELECT 1",
            "expected the view's name, found 'AS'",
            "column 26",
        ),
        ("CREATE MATERIALIZED VIEW v", "expected AS and a query", "line 1, column 27"),
        ("CREATE MATERIALIZED VIEW v AS", "expected a query, found the end", "column 30"),
        ("CREATE MATERIALIZED VIEW v AS ;", "expected a query, found the end", "column 31"),
        ("CREATE MATERIALIZED VIEW v\n  SELECT 1", "found 'SELECT'", "line 2, column 3"),
        ("CREATE MATERIALIZED VIEW a-b AS SELECT 1", "found '-'", "column 27"),
        ("CREATE MATERIALIZED VIEW v COMMENT x AS SELECT 1", "a string in quotes", "column 36"),
        ("CREATE MATERIALIZED VIEW v COMMENT 'x' COMMENT 'y' AS TABLE t", "found 'COMMENT'", "40"),
        ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v AS TABLE t", "exclude", "line 1"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT 1; SELECT 2",
            "more than one statement",
            "column 39",
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT 'x", "not closed", "line 1, column 38"),
        ("CREATE MATERIALIZED VIEW v REFRESH POLICY 'x", "not closed", "line 1, column 43"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 /* x", "not closed", "line 1, column 40"),
        ("REFRESH MATERIALIZED VIEW v FULLY", "expected the end of the statement", "column 29"),
        ("SHOW MATERIALIZED VIEWS please", "expected the end of the statement", "column 25"),
        ("DROP MATERIALIZED VIEW a, b", "expected the end of the statement", "column 25"),
        ("ALTER MATERIALIZED VIEW v SET POLICY FULL", "expected SET REFRESH POLICY", "column 27"),
        ("EXPLAIN CREATE MATERIALIZED VIEW v AS", "expected a query", "column 38"),
        ("SHOW MATERIALIZED VIEW", "not a statement on materialized views", "line 1, column 1"),
        ("CREATE MATERIALISED VIEW v AS SELECT 1", "not a statement on materialized", "line 1"),
    ],
)
def test_a_mistake_in_our_statements_has_its_position(text: str, message: str, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_statement(text)
    assert message in caught.value.message
    assert where in caught.value.detail


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ("CREATE MATERIALIZED VIEW v (a) AS SELECT 1", "a column list", 28),
        ("CREATE MATERIALIZED VIEW v (a COMMENT 'x', b) AS SELECT 1", "a column list", 28),
        ("CREATE MATERIALIZED VIEW v PARTITIONED BY (a) AS SELECT 1", "PARTITIONED BY", 28),
        ("CREATE MATERIALIZED VIEW v COMMENT 'x' CLUSTER BY (a) AS SELECT 1", "CLUSTER BY", 40),
        ("CREATE OR REPLACE MATERIALIZED VIEW v USING delta AS SELECT 1", "USING", 39),
        ("CREATE MATERIALIZED VIEW v SCHEDULE EVERY 1 HOUR AS SELECT 1", "SCHEDULE", 28),
        ("ALTER MATERIALIZED VIEW v SET TBLPROPERTIES ('a' = 'b')", "SET TBLPROPERTIES", 27),
        ("ALTER MATERIALIZED VIEW v UNSET TBLPROPERTIES ('a')", "UNSET TBLPROPERTIES", 27),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", "RENAME TO", 27),
        ("ALTER MATERIALIZED VIEW v AS SELECT 1", "AS", 27),
    ],
)
def test_what_other_systems_know_of_views_is_not_called_a_mistake(
    text: str, what: str, column: int
) -> None:
    with pytest.raises(Unsupported, match=f"{what}.* is not supported") as error:
        parse_statement(text)
    assert f"line 1, column {column}," in error.value.detail
    assert error.value.hint
    assert error.value.reason in {"ALTER_VIEW", "VIEW_CLAUSE"}


@pytest.mark.parametrize(("policy", "close"), [("INCREMENTL", "INCREMENTAL"), ("fulll", "FULL")])
def test_an_unknown_policy_lists_the_four_and_the_nearest(policy: str, close: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_statement(f"ALTER MATERIALIZED VIEW v SET REFRESH POLICY {policy}")
    assert f"found '{policy}'" in caught.value.message
    assert "AUTO, INCREMENTAL, INCREMENTAL STRICT, FULL" in caught.value.hint
    assert f"did you mean {close}?" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        (" ; ;\n-- only a comment\n;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT ';' ; SELECT `a;b`; -- done", ["SELECT ';'", "SELECT `a;b`"]),
        ('SELECT "it\'s;" /* ; */;SELECT 2', ['SELECT "it\'s;" /* ; */', "SELECT 2"]),
        (
            "SELECT 'a\\';b'; SELECT r'\\'; SELECT 3",
            ["SELECT 'a\\';b'", "SELECT r'\\'", "SELECT 3"],
        ),
        ("-- first; note\nSELECT 1;\nSHOW TABLES;", ["-- first; note\nSELECT 1", "SHOW TABLES"]),
        (
            "BEGIN SELECT CASE WHEN a THEN 1 END; IF x THEN SELECT 1; END IF; END; SELECT 2",
            ["BEGIN SELECT CASE WHEN a THEN 1 END; IF x THEN SELECT 1; END IF; END", "SELECT 2"],
        ),
        ("SELECT end FROM begin; SELECT 2", ["SELECT end FROM begin", "SELECT 2"]),
    ],
)
def test_a_script_splits_at_semicolons_between_statements(
    script: str, statements: list[str]
) -> None:
    assert split_statements(script) == statements


def test_a_script_with_an_open_quote_is_refused_where_it_opens() -> None:
    with pytest.raises(Invalid) as caught:
        split_statements("SELECT 1;\nSELECT 'x; SELECT 2")
    assert "not closed" in caught.value.message
    assert "line 2, column 8" in caught.value.detail


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 SECONDS", 5.0),
        ("1 second", 1.0),
        ("500 MILLISECONDS", 0.5),
        ("1.5 minutes", 90.0),
        ("NONE", None),
    ],
)
def test_a_response_limit_is_a_time_or_none(text: str, seconds: float | None) -> None:
    found = parse_statement(f"ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT {text}")
    assert found == AlterLimit("v", seconds)


@pytest.mark.parametrize(
    "text", ["5", "soon", "-5 SECONDS", "0 SECONDS", "5 FORTNIGHTS", "5 SECONDS x"]
)
def test_a_response_limit_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_statement(f"ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT {text}")
    assert caught.value.detail.startswith("line 1")
